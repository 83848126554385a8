"""The one contextvar of the house, and what it can hold.

User code finds its run through `current_scope`: it holds a `Body` while a workflow body advances (the engine implements
it), a `StepInfo` while a step executes, and nothing outside. Nothing else in the house is global.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from datetime import datetime
from random import Random
from types import FrameType
from typing import Any, NoReturn, Protocol, TypeVar
from uuid import UUID

from holdfast.errors import NotInBody, NotInRun
from holdfast.model import Former, Instant, moment_of

from .pending import Reply

T = TypeVar("T")


class RunInfo:
    """What a run may know about itself: `current_run()`.

    `id`, `workflow` (its name), `version`, `key` and `priority` are as it was started; `parent_id` is the run whose
    child it is, or None, and `chain_id` the first of the runs that continue or retry one another. `journal_length`
    counts the inputs delivered so far; `attempt` is 1 until the workflow's own retry policy begins it again.
    """

    __slots__ = (
        "_tags",
        "attempt",
        "caller_trace",
        "chain_id",
        "created_instant",
        "deadline_instant",
        "former",
        "journal_length",
        "key",
        "origin_id",
        "own_id",
        "own_queue",
        "parent_id",
        "priority",
        "span",
        "started_instant",
        "version",
        "workflow",
    )

    def __init__(
        self,
        *,
        id: str,
        workflow: str,
        version: str,
        key: str | None,
        tags: Mapping[str, str],
        priority: int,
        chain_id: str,
        origin_id: str,
        parent_id: str | None,
        created_at: Instant,
        started_at: Instant,
        deadline_at: Instant | None,
    ) -> None:
        self.own_id = id
        self.former: Former | None = None
        """Set while the body lives through the journal of another run, which this run retries: that run's facts, which
        the body sees."""
        self.workflow = workflow
        self.version = version
        self.key = key
        self._tags = tags
        self.priority = priority
        self.chain_id = chain_id
        self.origin_id = origin_id
        """The run with which its life began: itself, or for a retry that of the run which it retries."""
        self.parent_id = parent_id
        self.created_instant = created_at
        self.started_instant = started_at
        self.deadline_instant = deadline_at
        """When it was created, began, and has to end, as instants."""
        self.begin()
        self.own_queue: str | None = None
        """The queue that it was started on, if its workflow declares another."""
        self.caller_trace: str | None = None
        """The trace in which it was started, in W3C's form."""
        self.span: Any = None
        """What an observer keeps about it; `text` is its own place in a trace."""

    def begin(self) -> None:
        """Its body begins, perhaps again: no input was delivered to it yet."""
        self.journal_length = 0
        self.attempt = 1

    @property
    def tags(self) -> dict[str, str]:
        """Its tags, as a copy that may be changed."""
        return dict(self._tags)

    @property
    def id(self) -> str:
        """Its id."""
        return self.own_id if self.former is None else self.former.id

    @property
    def created_at(self) -> datetime:
        """When it was started."""
        return moment_of(self.created_instant if self.former is None else self.former.created_at)

    @property
    def started_at(self) -> datetime:
        """When a worker claimed it for the first time."""
        return moment_of(self.started_instant if self.former is None else self.former.started_at)

    @property
    def trace(self) -> str | None:
        """The trace that it belongs to, in W3C's form, to hand to others that should be in that trace.

        In a step it is the run's own span if the worker traces, else the trace in which the run was started. In a body
        it is always the latter, or None: that is stored with the run, while another worker that replays may trace or
        not.
        """
        if not is_body(current_scope.get()):
            return self.own_trace
        return self.caller_trace if self.former is None else self.former.trace

    @property
    def own_trace(self) -> str | None:
        """The trace of its steps, children and messages: its own span if it is traced. Bodies don't see this."""
        found: str | None = self.caller_trace if self.span is None else self.span.text
        return found

    @property
    def deadline(self) -> datetime | None:
        """When the run must have ended, or None."""
        deadline = self.deadline_instant if self.former is None else self.former.deadline_at
        return None if deadline is None else moment_of(deadline)

    def __repr__(self) -> str:
        return f"<run {self.own_id} of {self.workflow} version {self.version}>"


class StepInfo:
    """What a step may know about itself: `current_step()`, and what middleware gets.

    `name` is the step's, `key` its name in the journal (the second use of a name is `name:1`), `attempt` counts from 1,
    `run` is the RunInfo of its run, and `deadline` is when the attempt must have ended, or None.

    `idempotency_key` is the same for every attempt of this step of this run, also across crashes and `retry`: hand it
    to services that must not do the same thing twice. A fork has other keys, and so has the run that `continue_as_new`
    begins, because its work is done anew. `cancelled` turns True when nobody waits for the result any more (the run was
    cancelled or the attempt timed out): a step in a thread should look at it now and then. `heartbeat_details` are the
    last details of the attempt before this one, if that failed; None if its process died.
    """

    __slots__ = (
        "attempt", "began_at", "cancelled", "deadline", "done", "error", "heartbeat_details", "is_spent", "key",
        "name", "resources", "run", "span",
    )  # fmt: skip  # a name a line would be a page
    began_at: Instant
    """When this attempt began."""
    error: BaseException | None
    """Its error. Set only where somebody observes; `span` only where an observer enters steps."""
    span: Any
    """What an observer keeps about it."""

    def __init__(
        self,
        name: str,
        key: str,
        attempt: int,
        run: RunInfo,
        resources: Mapping[object, Any],
        heartbeat_details: Any = None,
    ) -> None:
        self.name = name
        self.key = key
        self.attempt = attempt
        self.run = run
        self.resources = resources
        """The resources that the worker has opened."""
        self.heartbeat_details = heartbeat_details
        self.deadline: datetime | None = None
        """When it must have ended, by its own timeout or the run's deadline; None if at no time."""
        self.cancelled = False
        self.done: Any = None
        """For a chunk of a map whose items can be undone: the outcome of its items so far."""
        self.is_spent = False
        """For a chunk of a map: an item has failed for good, so that the chunk is not tried again."""

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step: give it to a service that must not do the same thing twice."""
        return f"{self.run.origin_id}/{self.key}"

    @property
    def kind(self) -> str:
        """How it executes: "async" (on the loop), "thread" or "transaction"."""
        raise NotImplementedError

    @property
    def whole(self) -> StepInfo:
        """The step that the journal knows: for an item of a map, its chunk."""
        return self

    @property
    def run_id(self) -> str:
        """The id of its run."""
        return self.run.id

    @property
    def workflow(self) -> str:
        """The name of its run's workflow."""
        return self.run.workflow

    def items_anew(self) -> list[Any] | None:
        """For a chunk of a map: its items as they were given, decoded once more; None if nobody has kept them."""
        return None

    def heartbeat(self, details: Any = None) -> None:
        """Say that this step is alive and getting on.

        It counts as progress for a run suspected of crashing its workers. The next attempt finds the last `details` in
        `heartbeat_details` if this one fails. Raises LeaseLost when another worker has taken the run over, so that
        nothing will come of this attempt: a step in a thread ends there.
        """
        raise NotImplementedError

    def send_value(self, name: str, value: Any) -> None:
        """Set live state of the run, at once: `holdfast.set_value`."""
        raise NotImplementedError

    def send_item(self, name: str, item: Any) -> None:
        """Add to a stream of the run, at once: `holdfast.emit`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<step {self.key}, attempt {self.attempt}, of {self.run!r}>"


class Body(Protocol):
    """What the functions in this room need of the engine. One per run that is advancing."""

    is_blocking: bool
    """Whether the body is a `def`: durable calls block it and return their value."""
    is_replaying: bool
    run: RunInfo

    @property
    def is_silent(self) -> bool:
        """Whether its log lines are dropped: it replays, so they were logged before, or it is being put away."""

    @property
    def max_payload(self) -> int:
        """The largest size of one value."""

    def ask_step(self, step: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> asyncio.Future[Any]:
        """Ask for a step; the future resolves when its result is delivered."""

    def ask_pending(self, step: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As `ask_step`, but returns a `Pending` for the user to hold. If nobody looks at it the run is
        NeverAwaited."""

    def ask_child(self, workflow: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> asyncio.Future[Any]:
        """Ask for a child run; the future resolves when it has ended."""

    def ask_child_run(self, workflow: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As `ask_child`, but returns a `ChildRun` for the user to hold."""

    def ask_wait(
        self, kind: str, name: str, match: Any, type: Any, timeout: int | None, default: Any
    ) -> asyncio.Future[Any]:
        """Wait for a signal or an event."""

    def ask_hook(self, name: str, type: Any, expires: int | None) -> Any:
        """The `Pending` that resolves when the hook is resumed. Its key is the token."""

    def send_signal(self, run_id: str, name: str, payload: Any, key: str | None = None) -> None:
        """Send a signal to a run, or to a child of this one by the id that its `ChildRun` has.

        `key` is the child's, if the caller knows it: so it need not be looked for among all children.
        """

    def cancel_child(self, child: Reply[Any]) -> None: ...

    def send_event(self, name: str, payload: Any) -> None: ...

    def send_value(self, name: str, value: Any) -> None: ...

    def send_item(self, name: str, item: Any) -> None: ...

    def weigh(self, step: Any, item: Any) -> int:
        """The encoded size of a step's one argument."""

    def pack_call(self, workflow: Any, item: Any) -> str:
        """A checked call of a workflow with one argument, as text."""

    def read_result(self, workflow: Any, text: str | None) -> Any:
        """The value in a workflow's result that is stored as text."""

    def restored(self) -> Any:
        """The state in the last checkpoint, or None. Called before anything else."""

    def checkpoint(self, state: Any) -> None:
        """Let replays start here, with this state."""

    def patched(self, change_id: str) -> bool: ...

    def continue_as_new(self, workflow: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn: ...

    def enter_shield(self) -> None: ...

    def leave_shield(self) -> None: ...

    def compensate(self, step: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None: ...

    def rollback(self) -> Coroutine[Any, Any, None]: ...

    def ask_timer(self, delay: int) -> asyncio.Future[None]:
        """Set a durable timer; the delay is in microseconds from the run's own time."""

    def block(self, future: asyncio.Future[T]) -> T:
        """Set the calling task aside until the future is done; its siblings go on."""

    def run_inside(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine as a task of the body and block until it ends."""

    def track(self, work: Coroutine[Any, Any, T], ticket: int, frame: FrameType) -> Coroutine[Any, Any, T]:
        """Remember a coroutine handed to the user until it is awaited for the first time."""

    def new_ticket(self) -> int: ...

    def redeem(self, ticket: int, *, is_let_go: bool = False) -> None:
        """The coroutine is awaited for the first time. One that is let go may begin after the body has ended."""

    def now(self) -> Instant: ...

    def rng(self) -> Random: ...

    def uuid4(self) -> UUID: ...


current_scope: ContextVar[Any] = ContextVar("holdfast_scope", default=None)
IN_THREADS = "a thread that a step begins has to run in the step's context, by contextvars.copy_context().run(...)"
"""The likely mistake if the contextvar holds nothing: a thread pool that a step makes knows nothing of the step."""


def body_for(what: str) -> Body:
    """The body that is calling `what`, or the error that says where the call belongs."""
    scope = current_scope.get()
    if scope is None:
        raise NotInRun(f"{what} was called outside a run; call it inside a @workflow function that a worker runs")
    if isinstance(scope, StepInfo):
        raise NotInBody(
            f"{what} was called inside the step {scope.key!r}, and works only in a workflow body; "
            "do it in the body, before or after the step"
        )
    return scope  # type: ignore[no-any-return]  # the contextvar is Any for speed; nothing else is ever put in it


def is_body(scope: Any) -> bool:
    """Whether the contextvar holds a body."""
    return scope is not None and not isinstance(scope, StepInfo)


def current_run() -> RunInfo:
    """The run that this body or step belongs to. Raises NotInRun outside any run."""
    scope = current_scope.get()
    if scope is None:
        raise NotInRun(f"current_run() was called outside a run; it works in bodies and in steps: {IN_THREADS}")
    found: RunInfo = scope.run
    return found


def current_step() -> StepInfo:
    """The step that is executing. Raises NotInRun outside a step."""
    scope = current_scope.get()
    if not isinstance(scope, StepInfo):
        where, hint = ("outside a run", f": {IN_THREADS}") if scope is None else ("in a workflow body", "")
        raise NotInRun(f"current_step() was called {where}; it works inside a step that a worker executes{hint}")
    return scope
