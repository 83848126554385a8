"""The codecs of a step or a workflow, found once and kept with it: every turn or run uses them several times."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.codec import ArgumentsCodec, Codec, ValueCodec
from holdfast.define import Step, Workflow


class Shapes(NamedTuple):
    """How the arguments and the result of a step or a workflow are stored."""

    codec: Codec
    arguments: ArgumentsCodec
    result: ValueCodec


def shapes_of(made: Step[Any, Any] | Workflow[Any, Any], codec: Codec) -> Shapes:
    """The shapes of a step or a workflow under a codec."""
    found: Shapes | None = made.shapes
    if found is None or found.codec is not codec:
        # A body calls a transactional step without the connection, which the worker adds.
        skip = 1 if isinstance(made, Step) and made.is_transactional else 0
        found = made.shapes = Shapes(codec, codec.arguments(made.fn, skip=skip), codec.result(made.fn))
    return found
