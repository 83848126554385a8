"""Steps, waits and children that a run has asked for and not got. They are the `details` of an explanation."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.model import (
    ASKS,
    ChildAsked,
    ChildEnded,
    Entry,
    History,
    RunRecord,
    RunStatus,
    StepAsked,
    StepCompleted,
    StepFailed,
    StepRetrying,
    WaitRecord,
    moment_of,
)


@dataclass(frozen=True, slots=True)
class OpenStep:
    """A step that was asked for and has no result, as in `details["steps"]`. It may not have begun."""

    key: str
    attempt: int
    since: datetime | None
    retry_at: datetime | None = None
    error: str | None = None


UNNAMED = "a signal, by a name that the store does not know: only wait_for_signal(type=...) registers one"
"""The words for a wait for a signal without `type=`, which is not registered."""


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A signal, an event or a hook that is waited for, as in `details["waits"]`."""

    kind: str
    name: str
    match: Any
    """What a payload must contain; None: anything will do."""
    schema: dict[str, Any] | None
    """The JSON schema that a payload must fit; None: any payload will do."""
    since: datetime
    expires_at: datetime | None


def open_wait(wait: WaitRecord) -> OpenWait:
    """A stored wait, for readers."""
    return OpenWait(
        kind=wait.kind,
        name=wait.name,
        match=None if wait.match is None else json.loads(wait.match),
        schema=None if wait.schema is None else json.loads(wait.schema),
        since=moment_of(wait.registered_at),
        expires_at=None if wait.expires_at is None else moment_of(wait.expires_at),
    )


@dataclass(frozen=True, slots=True)
class OpenChild:
    """A child that was asked for and has not ended, as far as the journal knows."""

    run_id: str | None
    """None if it was asked for before the last cut: another run has taken its place, and only the body knows its id."""
    workflow: str

    def told(self, joined: Collection[str]) -> str:
        """The child in words. `joined` are ids that no run has: a run that had the child's key was joined instead."""
        if self.run_id is None:
            return f"the child run of {self.workflow!r} that was begun anew"
        if self.run_id in joined:
            return f"a run of {self.workflow!r} that it joined by its key"
        return f"the child run {self.run_id}"


def open_steps(entries: Iterable[Entry], describe: Callable[[bytes], str]) -> Iterable[OpenStep]:
    """Steps that were asked for and have no result, in the order in which they were asked for."""
    found: dict[str, OpenStep] = {}
    at: datetime | None = None
    for entry in entries:
        if isinstance(entry, StepAsked):
            found[entry.key] = OpenStep(entry.key, 1, at)
        if isinstance(entry, ASKS):
            continue
        at = moment_of(entry.at)
        if isinstance(entry, (StepCompleted, StepFailed)):
            found.pop(entry.key, None)
        elif isinstance(entry, StepRetrying):
            retry_at = moment_of(entry.retry_at)
            found[entry.key] = OpenStep(entry.key, entry.attempt + 1, retry_at, retry_at, describe(entry.error))
    return found.values()


def is_wanted(step: OpenStep, run: RunRecord) -> bool:
    """Whether the body still waits for the step. If it does and the run has the status waiting, the step is to be
    retried, and the run is due by then at the latest."""
    if run.status is not RunStatus.WAITING:
        return True
    return step.retry_at is not None and run.due_at is not None and run.due_at <= step.retry_at


def open_children(history: History) -> tuple[OpenChild, ...]:
    """Children that have not ended, in the order of asking."""
    found: dict[str, OpenChild] = {}
    cut = max((place for place, _ in history.lives), default=0)
    for place, entry in enumerate(history.entries):
        if isinstance(entry, ChildAsked):
            found[entry.key] = OpenChild(entry.run_id if place >= cut else None, entry.workflow)
        elif isinstance(entry, ChildEnded):
            found.pop(entry.key, None)
    return tuple(found.values())
