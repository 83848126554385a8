"""Finding runs by their arguments: is what a filter says a part of what a run was started with? Pure."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.codec import Codec
from holdfast.errors import CodecError
from holdfast.model import Declared, RunFilter, RunRecord, WorkflowVersion, holds


class InputTest:
    """The test of a run by its input.

    Arguments are stored by position, so their names are those that workers have declared for the run's version, else
    those of the workflow in the filter. Where nobody has declared any, only arguments given by name have one.
    """

    def __init__(self, where: RunFilter, codec: Codec, versions: Iterable[WorkflowVersion]) -> None:
        self._wanted = _stored(where.input)
        self._codec = codec
        self._own = _names(where.declared)
        self._names = {(one.workflow, one.version): _names(one.declared) for one in versions if one.declared}

    def __call__(self, record: RunRecord) -> bool:
        try:
            positional, named = self._codec.plain_arguments(record.input)
        except CodecError:
            return False
        names = self._names.get((record.workflow, record.version), self._own)
        return holds({**dict(zip(names, positional, strict=False)), **named}, self._wanted)


def _names(declared: Declared | None) -> tuple[str, ...]:
    parameters = () if declared is None else declared.parameters or ()
    return tuple(one.name for one in parameters if one.kind < inspect.Parameter.VAR_POSITIONAL)


def _stored(wanted: Any) -> Any:
    """A tuple is stored as a list."""
    if isinstance(wanted, Mapping):
        return {name: _stored(one) for name, one in wanted.items()}
    return [_stored(one) for one in wanted] if isinstance(wanted, (list, tuple)) else wanted
