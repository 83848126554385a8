"""Workflows as the store knows them: what workers have said about them, their versions, and how many runs they have."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from .durations import Instant, microseconds

KEPT = microseconds("30d")
"""How long a run is kept after its end if nothing else is said."""


class Parameter(msgspec.Struct, frozen=True, array_like=True):
    """One parameter of a workflow: enough to refuse a call that can't be made."""

    name: str
    kind: int
    """The number of its `inspect.Parameter.kind`."""
    is_required: bool
    schema: bytes | None = None
    """The JSON schema of its annotation; None: anything may fit."""


class Declared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a workflow declares about itself. A start by name needs this and can't read it from the function."""

    queue: str = "default"
    deadline: int | None = None
    retention: int | None = KEPT
    parameters: tuple[Parameter, ...] | None = None
    """None: unknown."""
    on_event: str | None = None
    """Each event of this name that matches begins a run."""
    match: bytes | None = None
    """Plain JSON that the event's payload must hold. None: any event matches."""


class Registration(msgspec.Struct, frozen=True):
    """A workflow in one version, as a worker announces it."""

    workflow: str
    version: str
    declared: Declared


class WorkflowVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version that a worker has registered."""

    workflow: str
    version: str
    first_at: Instant
    """When it was registered for the first time: a later version is newer."""
    queues: tuple[str, ...]
    """Where live workers serve it; empty if none does."""
    declared: Declared | None
    """As the last worker announced it."""

    @property
    def is_live(self) -> bool:
        return bool(self.queues)

    @property
    def age(self) -> tuple[object, ...]:
        """A sort key that puts the newest last. Of versions registered at once the one that counts higher is newer."""
        return (self.first_at, natural(self.version))

    def served_on(self, queue: str) -> str:
        """The queue itself, unless live workers serve the version on others only: then one of those."""
        return self.queues[0] if self.queues and queue not in self.queues else queue


def newest_of(versions: Iterable[WorkflowVersion]) -> WorkflowVersion | None:
    """The version that a new run gets if nobody asks for another: the newest of those that live workers have, so that
    somebody executes it during a deploy and after one was taken back. If no worker is alive, the newest one."""
    return max(versions, key=lambda found: (found.is_live, found.age), default=None)


class WorkflowCount(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow that the store has heard of: its versions, the newest last, and its runs by status."""

    name: str
    versions: tuple[str, ...]
    counts: dict[str, int]


def natural(version: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts "10" after "9" and "1.10" after "1.9"."""
    return tuple(
        (1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.split(r"(\d+)", version) if part
    )
