"""Finding runs by their arguments: whether the arguments of a run contain those of a filter. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.codec import Codec
from holdfast.define import Workflow
from holdfast.errors import CodecError, DefinitionError
from holdfast.model import Declared, RunFilter, RunRecord, WorkflowVersion, holds

Version = tuple[str, str]
"""A workflow's name and its version."""


class InputTest:
    """Tests whether a run's arguments contain those of a filter.

    Arguments are stored by position, including most of those that were given by name. Their names come from what
    workers have declared for the run's version, from the workflow if this client has started runs of it, or from the
    workflow in the filter. If the names are needed and nobody knows them, it can't be decided whether the run is meant.
    That is remembered, and `check` raises an error.
    """

    def __init__(
        self,
        where: RunFilter,
        codec: Codec,
        versions: Iterable[WorkflowVersion],
        started: Mapping[Version, Workflow[..., Any]],
    ) -> None:
        self._wanted = _stored(where.input)
        self._codec = codec
        self._own = _names(where.declared)
        self._names = {(one.workflow, one.version): _names(one.declared) for one in versions}
        self._started = started
        self._nameless: set[Version] = set()

    def __call__(self, record: RunRecord) -> bool:
        try:
            positional, named = self._codec.plain_arguments(record.input)
        except CodecError:
            return False
        names = self._names_of((record.workflow, record.version))
        if names is None:
            if positional and self._may_hold(named):
                self._nameless.add((record.workflow, record.version))
                return False
            names = ()
        given = {**dict(zip(names, positional, strict=False)), **named}
        # A run may have been started by name, without knowledge of the annotations.
        return holds(given, self._wanted, has_pairs=True)

    def check(self) -> None:
        """Raise DefinitionError if it could not be decided of some run whether it is meant."""
        if not self._nameless:
            return
        listed = ", ".join(f"{workflow!r} version {version!r}" for workflow, version in sorted(self._nameless)[:5])
        raise DefinitionError(
            f"RunFilter(input={self._wanted!r}): no worker has said yet what the arguments of {listed} are called, so "
            "it can't be told which of those runs are meant; give the function: RunFilter(workflow=the_function, "
            "input=...), name a workflow that is known, or start a worker that has it"
        )

    def _names_of(self, version: Version) -> tuple[str, ...] | None:
        names = self._names.get(version)
        if names is None and version in self._started:
            names = self._names[version] = _names(self._started[version].declared)
        return self._own if names is None else names

    def _may_hold(self, named: Mapping[str, Any]) -> bool:
        """Whether the named arguments fit, and the filter asks for others, which may be among those without a name."""
        known = {name: value for name, value in self._wanted.items() if name in named}
        return len(known) < len(self._wanted) and holds(named, known, has_pairs=True)


def _names(declared: Declared | None) -> tuple[str, ...] | None:
    """The names of positional parameters, in order; None: nobody knows them."""
    if declared is None or declared.parameters is None:
        return None
    return tuple(one.name for one in declared.parameters if one.kind < inspect.Parameter.VAR_POSITIONAL)


def _stored(wanted: Any) -> Any:
    """A value as it is stored as plain data: tuples are lists there."""
    if isinstance(wanted, Mapping):
        return {name: _stored(one) for name, one in wanted.items()}
    return [_stored(one) for one in wanted] if isinstance(wanted, (list, tuple)) else wanted
