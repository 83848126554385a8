"""The codecs of a step, found once and kept with the step: every turn uses them several times."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.codec import ArgumentsCodec, Codec, ValueCodec
from holdfast.define import Step


class Shapes(NamedTuple):
    """How a step's arguments and result are stored."""

    codec: Codec
    arguments: ArgumentsCodec
    result: ValueCodec


def shapes_of(step: Step[Any, Any], codec: Codec) -> Shapes:
    """The shapes of a step under a codec."""
    found: Shapes | None = step.shapes
    if found is None or found.codec is not codec:
        # The body calls a transactional step without the connection that the worker passes.
        arguments = codec.arguments(step.fn, skip=1 if step.is_transactional else 0)
        found = step.shapes = Shapes(codec, arguments, codec.result(step.fn))
    return found
