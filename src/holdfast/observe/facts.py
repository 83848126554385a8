"""Facts: what has happened, as frozen records. Instants and durations are whole microseconds.

A fact about a run is reported when it is durable. A fact about an attempt is reported when the attempt has ended, even
if its result is never recorded. When a worker dies, a fact may be reported twice or not at all, so don't rely on their
number: facts are for watching, and the journal is the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from holdfast.define import RunInfo, StepInfo
from holdfast.model import ClaimedRun, Instant, RunStatus

StepStatus: TypeAlias = Literal["completed", "failed", "retrying", "cancelled"]
"""How an attempt ended. `retrying` failed and will be tried again; the result of `cancelled` is no longer wanted."""
StepEnd: TypeAlias = tuple[StepInfo, StepStatus, Instant]
"""A StepEnded as a tuple, for observers that get many in one call: making and reading a fact for each costs more."""


class _Fact(msgspec.Struct, frozen=True, gc=False):
    pass


class RunsStarted(_Fact, frozen=True, gc=False):
    """A client has started runs. Runs that existed already don't count."""

    workflow: str
    version: str
    count: int


class RunsClaimed(_Fact, frozen=True, gc=False):
    """A worker has claimed these runs, or the one run that it drives. A run with epoch 1 begins with this claim."""

    runs: Sequence[ClaimedRun]
    took: int


class RunReplayed(_Fact, frozen=True, gc=False):
    """A body was rebuilt from its journal."""

    run: RunInfo
    length: int
    """How many inputs were delivered."""


class RunRetrying(_Fact, frozen=True, gc=False):
    """A run has failed and is tried again as a whole, by its workflow's own policy."""

    run: RunInfo


class RunEnded(_Fact, frozen=True, gc=False):
    """A run has ended here. One that is cancelled before it began, or by force, ends in the store without a fact."""

    run: RunInfo
    status: RunStatus
    at: Instant


class RunBlocked(_Fact, frozen=True, gc=False):
    """A run is blocked: it can't go on, is intact, and will be tried again."""

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
        """The same fact as a tuple."""
        return self.step, self.status, self.at


class MessageTaken(_Fact, frozen=True, gc=False):
    """A run has taken a signal, an event or a hook's payload in."""

    run: RunInfo
    kind: str
    """"signal", "event" or "hook"."""
    name: str | None
    at: Instant
    trace: str | None = None
    """The sender's span context, in W3C's form."""


class MessageSent(_Fact, frozen=True, gc=False):
    """A client has sent a signal, published an event or resumed a hook."""

    kind: str
    """"signal", "event" or "hook"."""
    name: str | None
    """None for a hook: the client that resumes it does not know its name."""
    run_id: str | None
    """The run that a signal is for; None for an event or a hook."""
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
    """A worker has lost its lease: it was taken for dead, and other workers have its runs."""

    worker_id: str


class RunsSwept(_Fact, frozen=True, gc=False):
    """Runs and events were removed after their retention."""

    runs: int
    events: int


class Load(_Fact, frozen=True, gc=False):
    """How many runs and attempts a worker holds."""

    held: Mapping[str, int]
    """Runs by workflow that advance, have a step in flight, or wait for a short while."""
    busy: int
    """Runs that advance or have a step in flight, which `concurrency` bounds."""
    steps: int
    """Attempts in flight."""
    parked: int
    """Parked runs whose bodies are still in this process's memory."""


class WorkerBegan(_Fact, frozen=True, gc=False):
    """A worker has begun to serve. Until it has ended, `load` may be called at any time and from any thread."""

    worker_id: str
    load: Callable[[], Load]


class WorkerEnded(_Fact, frozen=True, gc=False):
    """A worker has stopped, or has lost its lease and begins again under another id."""

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
