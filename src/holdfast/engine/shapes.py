"""The codecs of a step, found once and kept with it: they are used several times in every turn."""

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
        # A transactional step is asked for without the connection that it gets from its worker.
        arguments = codec.arguments(step.fn, skip=1 if step.is_transactional else 0)
        found = step.shapes = Shapes(codec, arguments, codec.result(step.fn))
    return found
