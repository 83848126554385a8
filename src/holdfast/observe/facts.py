"""Facts: what has happened, as frozen records. Instants and durations are whole microseconds.

A fact about a run is told when it is durable; one about a step's attempt when the attempt has ended, whatever becomes
of its result. A fact may be told twice if a worker dies at the wrong moment, and not at all if it dies at another:
they are for watching, and nothing may be built on their number. The journal is the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from holdfast.define import RunInfo, StepInfo
from holdfast.model import ClaimedRun, Instant, RunStatus

StepStatus: TypeAlias = Literal["completed", "failed", "retrying", "cancelled"]
"""How an attempt ended: `retrying` failed and will be tried again, `cancelled` is one that nobody wants any more."""
StepEnd: TypeAlias = tuple[StepInfo, StepStatus, Instant]
"""What a StepEnded says, for those who hear of many steps in one call: to make and read a fact for each costs more."""


class _Fact(msgspec.Struct, frozen=True, gc=False):
    pass


class RunsStarted(_Fact, frozen=True, gc=False):
    """A client has started runs; those that were there already don't count."""

    workflow: str
    version: str
    count: int


class RunsClaimed(_Fact, frozen=True, gc=False):
    """A worker has claimed these runs: several, or the one that is driven. A run's first claim has the epoch 1: there
    it begins."""

    runs: Sequence[ClaimedRun]
    took: int


class RunReplayed(_Fact, frozen=True, gc=False):
    """A body was rebuilt from its journal, by so many inputs."""

    run: RunInfo
    length: int


class RunRetrying(_Fact, frozen=True, gc=False):
    """A run has failed and is tried again as a whole, by its workflow's own policy."""

    run: RunInfo


class RunEnded(_Fact, frozen=True, gc=False):
    """A run has ended here. One that is cancelled before it began, or by force, ends in the store, and nobody tells."""

    run: RunInfo
    status: RunStatus
    at: Instant


class RunBlocked(_Fact, frozen=True, gc=False):
    """A run can't go on, is intact, and will be tried again."""

    run: RunInfo
    reason: str
    """The name of the error's class."""


class RunLost(_Fact, frozen=True, gc=False):
    """A turn was refused: another worker has taken the run over."""

    run: RunInfo


class StepEnded(_Fact, frozen=True, gc=False):
    """One attempt of a step has ended."""

    step: StepInfo
    status: StepStatus
    began_at: Instant
    at: Instant
    error: BaseException | None = None

    @property
    def end(self) -> StepEnd:
        """The same as one of many."""
        return self.step, self.status, self.at


class MessageTaken(_Fact, frozen=True, gc=False):
    """A run has taken a signal, an event or a hook's payload in."""

    run: RunInfo
    kind: str
    """"signal", "event" or "hook"."""
    name: str | None
    at: Instant
    trace: str | None = None
    """Where its sender stood in a trace, as W3C writes it."""


class MessageSent(_Fact, frozen=True, gc=False):
    """A client has sent a signal, published an event or resumed a hook."""

    kind: str
    """"signal", "event" or "hook"."""
    name: str | None
    """A hook's name is not known to whoever resumes it."""
    run_id: str | None
    """Of a signal only."""
    took: int


class TurnsCommitted(_Fact, frozen=True, gc=False):
    """The store has answered a group of turns."""

    count: int
    took: int


class RowsWritten(_Fact, frozen=True, gc=False):
    """The store has answered a group of row-only writes: runs parked, handed back, blocked."""

    count: int
    took: int


class WorkerLost(_Fact, frozen=True, gc=False):
    """A worker was taken for dead; others have its runs."""

    worker_id: str


class RunsSwept(_Fact, frozen=True, gc=False):
    """Ended runs that were kept long enough are gone, and so are events."""

    runs: int
    events: int


class Load(_Fact, frozen=True, gc=False):
    """What a worker has in its hands."""

    held: Mapping[str, int]
    """Runs by workflow: those that advance, have a step in flight, or wait for a short while."""
    busy: int
    """Runs that advance or have a step in flight: what `concurrency` bounds."""
    steps: int
    """Attempts in flight."""
    parked: int
    """Runs that the store has, and whose bodies are still in this process's memory."""


class WorkerBegan(_Fact, frozen=True, gc=False):
    """A worker serves. `load` may be called at any time and from any thread until it has ended."""

    worker_id: str
    load: Callable[[], Load]


class WorkerEnded(_Fact, frozen=True, gc=False):
    """A worker has stopped, or its lease was lost and it begins anew under another id."""

    worker_id: str


Fact: TypeAlias = (
    RunsStarted
    | RunsClaimed
    | RunReplayed
    | RunRetrying
    | RunEnded
    | RunBlocked
    | RunLost
    | StepEnded
    | MessageTaken
    | MessageSent
    | TurnsCommitted
    | RowsWritten
    | WorkerLost
    | RunsSwept
    | WorkerBegan
    | WorkerEnded
)
