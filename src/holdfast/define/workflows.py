"""@workflow: a durable function. The decorator records its options; workers and clients do the rest."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, Literal, NoReturn, ParamSpec, Protocol, Self, TypeVar, cast, overload

import msgspec

from holdfast.codec import parameter_schemas
from holdfast.errors import DefinitionError, IOInBody, MisplacedCall, NotInBody, NotInRun
from holdfast.model import (
    NOT_GIVEN,
    ON_CONFLICT,
    Declared,
    Duration,
    NotGiven,
    OnConflict,
    Parameter,
    Retry,
    instant_of,
    is_name,
    is_text,
    microseconds,
    quoted,
)

from .children import ChildRun
from .coroutines import CoroutineFunction
from .defaults import changeable
from .methods import refuse_method
from .scope import Body, StepInfo, body_for, current_scope, is_body
from .signatures import check_takes_payload
from .steps import checked_name, name_of

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """How one run is started. The options are checked where they are written."""

    id: str | None = None
    key: str | None = None
    on_conflict: OnConflict | None = None
    delay: Duration | datetime | None = None
    deadline: Duration | datetime | None = None
    priority: int | None = None
    tags: Mapping[str, str] | None = None
    queue: str | None = None
    retention: Duration | NotGiven | None = NOT_GIVEN
    """None: for ever."""
    on_parent_end: Literal["cancel", "abandon"] | None = None
    """For a child run: whether it is cancelled when its parent ends first."""

    def __post_init__(self) -> None:
        for what, text, most in (("id", self.id, 500), ("key", self.key, 500), ("queue", self.queue, 200)):
            if text is not None and not is_name(text, most):
                raise DefinitionError(
                    f"{what}={quoted(text)}: expected text of 1 to {most} characters, without a NUL or a lone surrogate"
                )
        if self.on_parent_end not in (None, "cancel", "abandon"):
            raise DefinitionError(f"on_parent_end={self.on_parent_end!r}: expected 'cancel' or 'abandon'")
        if self.on_conflict is not None and self.on_conflict not in ON_CONFLICT:
            raise DefinitionError(f"on_conflict={self.on_conflict!r}: expected one of {', '.join(ON_CONFLICT)}")
        if self.priority is not None and (
            isinstance(self.priority, bool) or not isinstance(self.priority, int) or not 0 <= self.priority <= 9
        ):
            raise DefinitionError(f"priority={self.priority!r}: expected a whole number from 0 to 9, larger first")
        if self.tags is not None and not (
            isinstance(self.tags, Mapping) and all(is_text(k) and is_text(v) for k, v in self.tags.items())
        ):
            raise DefinitionError(
                f"tags={quoted(self.tags)}: expected a mapping of text to text, without a NUL or a lone surrogate"
            )
        if self.tags is not None:
            # Copied, since a body may change its own dict before the turn that begins this child is written.
            object.__setattr__(self, "tags", dict(self.tags))
        for what, when in (("delay", self.delay), ("deadline", self.deadline)):
            if isinstance(when, datetime):
                instant_of(when, what=what)
            elif when is not None:
                microseconds(when, what=what, also=", or an aware datetime")
        if not (self.retention is None or isinstance(self.retention, NotGiven)):
            microseconds(self.retention, what="retention")

    def given(self) -> dict[str, Any]:
        """The options that were given."""
        said = {name: getattr(self, name) for name in self.__slots__ if getattr(self, name) is not None}
        if self.retention is None:
            said["retention"] = None
        elif isinstance(self.retention, NotGiven):
            del said["retention"]
        return said

    def over(self, other: StartOptions) -> StartOptions:
        """These options; where one was not given, that of `other`."""
        return replace(other, **self.given())


class Workflow(Generic[P, R]):
    """What @workflow makes of a function: give it to `client.start`, `Worker(workflows=)` or `holdfast.run`."""

    is_async: bool
    home: str
    """The module in which classes are looked up that were recorded under `__main__`."""

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        version: str = "1",
        retry: Retry | None = None,
        deadline: Duration | None = None,
        retention: Duration | None = "30d",
        queue: str = "default",
        max_crashes: int = 5,
        journal_limit: int = 50_000,
        on_event: str | None = None,
        match: Any = None,
        start_options: StartOptions | None = None,
    ) -> None:
        self.fn = fn
        self.home = fn.__module__
        self.name = checked_name(name if name is not None else name_of(fn))
        self.version = checked_name(version, what=f"workflow {self.name!r}: version=")
        if retry is not None and not isinstance(retry, Retry):
            raise DefinitionError(f"workflow {self.name!r}: retry={retry!r}: expected holdfast.Retry(...)")
        if isinstance(max_crashes, bool) or not isinstance(max_crashes, int) or max_crashes < 1:
            raise DefinitionError(
                f"workflow {self.name!r}: max_crashes={max_crashes!r}: expected a whole number from 1"
            )
        if isinstance(journal_limit, bool) or not isinstance(journal_limit, int) or journal_limit < 1:
            raise DefinitionError(
                f"workflow {self.name!r}: journal_limit={journal_limit!r}: expected a whole number from 1"
            )
        self.retry = retry
        self.deadline = None if deadline is None else microseconds(deadline, what=f"workflow {self.name!r}: deadline")
        self.retention = (
            None if retention is None else microseconds(retention, what=f"workflow {self.name!r}: retention")
        )
        self.queue = checked_name(queue, what=f"workflow {self.name!r}: queue=")
        self.max_crashes = max_crashes
        self.journal_limit = journal_limit
        if on_event is None and match is not None:
            raise DefinitionError(f"workflow {self.name!r}: match= needs on_event=, the event that it is about")
        try:
            msgspec.json.encode(match)
        except (TypeError, ValueError) as error:
            raise DefinitionError(
                f"workflow {self.name!r}: match={match!r}: expected what JSON holds: {error}"
            ) from error
        self.on_event = None if on_event is None else checked_name(on_event)
        if self.on_event is not None:
            check_takes_payload(fn, self.name, self.on_event)
        self.match = match
        self.start_options = start_options or StartOptions()
        self.shapes: Any = None
        """The worker may keep the codecs of the arguments and the result here."""
        self.changeable = changeable(fn)
        functools.update_wrapper(cast(Any, self), fn, updated=())

    def options(
        self,
        *,
        id: str | None = None,
        key: str | None = None,
        on_conflict: OnConflict | None = None,
        delay: Duration | datetime | None = None,
        deadline: Duration | datetime | None = None,
        priority: int | None = None,
        tags: Mapping[str, str] | None = None,
        queue: str | None = None,
        retention: Duration | NotGiven | None = NOT_GIVEN,
        on_parent_end: Literal["cancel", "abandon"] | None = None,
    ) -> Self:
        """The same workflow with options for a start; its arguments stay typed.

            run = await client.start(checkout.options(key="order-42", delay="5m"), order)
            held = audit.options(on_parent_end="abandon").start(order)              # in a body: a child run

        They mean what they mean in `client.start`. A child run is cancelled when its parent ends first, unless
        `on_parent_end` is "abandon"; with a `key` that a run has already it joins that one, so `on_conflict` is for
        starts by a client.
        """
        given = StartOptions(
            id=id, key=key, on_conflict=on_conflict, delay=delay, deadline=deadline, priority=priority, tags=tags,
            queue=queue, retention=retention, on_parent_end=on_parent_end,
        )  # fmt: skip  # one line a group reads better here
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.start_options = given.over(self.start_options)
        return other

    @property
    def declared(self) -> Declared:
        """What workers register about it, for starts by name."""
        parameters = inspect.signature(self.fn).parameters.values()
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        schemas = parameter_schemas(self.fn)
        return Declared(
            queue=self.queue,
            deadline=self.deadline,
            retention=self.retention,
            on_event=self.on_event,
            match=None if self.match is None else msgspec.json.encode(self.match),
            parameters=tuple(
                Parameter(
                    one.name,
                    int(one.kind),
                    one.default is one.empty and one.kind not in variadic,
                    schemas.get(one.name),
                )
                for one in parameters
            ),
        )

    def start(self, /, *args: P.args, **kwargs: P.kwargs) -> ChildRun[R]:
        """Begin a child run in a workflow body and go on: a ChildRun to await, or to call `.result()` on.

            held = checkout.start(order)
            held.signal("approved")
            receipt = await held

        Anywhere else NotInRun or NotInBody: use `client.start`. BadArguments if the arguments don't fit.
        """
        return cast("ChildRun[R]", self._body().ask_child_run(self, args, kwargs))

    def continue_as_new(self, /, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        """End the run that calls this and begin a fresh one of this workflow with an empty journal; see
        `holdfast.continue_as_new`. The type checker checks the arguments. DefinitionError if the workflow has start
        options."""
        if given := self.start_options.given():
            raise DefinitionError(
                f"{self.name}.options({', '.join(f'{name}=' for name in given)}).continue_as_new(): the next run has "
                "what this one was started with, and options are for a start; leave them out"
            )
        body_for(f"{self.name}.continue_as_new()").continue_as_new(self, args, kwargs)

    def _body(self) -> Body:
        scope = current_scope.get()
        if scope is None or isinstance(scope, StepInfo):
            raise self._misplaced()
        return cast(Body, scope)

    def _misplaced(self) -> MisplacedCall:
        scope = current_scope.get()
        if scope is None:
            return NotInRun(
                f"the workflow {self.name!r} was called outside a run; start it with client.start({self.name}, ...) "
                f"or holdfast.run({self.name}, ...)"
            )
        return NotInBody(
            f"the workflow {self.name!r} was called inside the step {scope.key!r}; "
            f"start it there with a client: client.start({self.name}, ...)"
        )

    def __reduce__(self) -> str:
        """Pickled by name, as a step is: a spawned process may be given the workflows that it is to serve."""
        return str(getattr(self, "__qualname__", self.name))

    def __repr__(self) -> str:
        return f"<workflow {self.name} version {self.version}>"


class BlockingWorkflow(Workflow[P, R]):
    """A workflow whose body is a `def`."""

    is_async = False

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        body = self._body()
        return cast(R, body.block(body.ask_child(self, args, kwargs)))


class AsyncWorkflow(CoroutineFunction, Workflow[P, R]):
    """A workflow whose body is an `async def`."""

    is_async = True

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[object, None, R]:
        body = self._body()
        if body.is_blocking:
            return cast("Coroutine[object, None, R]", body.block(body.ask_child(self, args, kwargs)))
        ticket = body.new_ticket()
        return cast(
            "Coroutine[object, None, R]", body.track(_ask(body, ticket, self, args, kwargs), ticket, sys._getframe(1))
        )


async def _ask(
    body: Body, ticket: int, workflow: Workflow[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    body.redeem(ticket, is_let_go=workflow.start_options.on_parent_end == "abandon")
    return await body.ask_child(workflow, args, kwargs)


class _WorkflowDecorator(Protocol):
    """`@workflow(...)` with options, typed by whether it decorates a `def` or an `async def`."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncWorkflow[P, R]: ...  # type: ignore[overload-overlap]  # a coroutine function is also a function; the first overload wins
    @overload
    def __call__(self, fn: Callable[P, R], /) -> BlockingWorkflow[P, R]: ...


@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncWorkflow[P, R]: ...  # type: ignore[overload-overlap]  # as above
@overload
def workflow(fn: Callable[P, R], /) -> BlockingWorkflow[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    version: str = "1",
    retry: Retry | None = None,
    deadline: Duration | None = None,
    retention: Duration | None = "30d",
    queue: str = "default",
    max_crashes: int = 5,
    journal_limit: int = 50_000,
    on_event: str | None = None,
    match: Any = None,
) -> _WorkflowDecorator: ...
def workflow(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    version: str = "1",
    retry: Retry | None = None,
    deadline: Duration | None = None,
    retention: Duration | None = "30d",
    queue: str = "default",
    max_crashes: int = 5,
    journal_limit: int = 50_000,
    on_event: str | None = None,
    match: Any = None,
) -> Any:
    """Make a function durable: it survives crashes, restarts and deploys, and goes on where it left off.

        @workflow
        async def checkout(order: Order) -> Receipt:
            payment = await charge(order.card, order.cents)
            await holdfast.sleep("1d")
            return await ship(order, payment)

    The body is `def` or `async def` and must be deterministic: everything that touches the world belongs in steps,
    and time, randomness and ids come from `holdfast.now`, `rng` and `uuid4`. On replay the body runs again from its
    start and gets the recorded results in the recorded order. If it then asks for something else than the journal
    holds, the run is blocked with JournalDiverged: intact, and tried again when fixed code is deployed.

    Start it with `client.start(checkout, order)`, call it in another body as a child, or execute it in this process
    with `holdfast.run`. Called outside any run it raises NotInRun. Arguments and result pass through the codec by
    their annotations. An exception that leaves the body fails the run, and `run.result()` raises RunFailed with it as
    its cause. CancelledError cancels the run. After either, compensations run, last registered first.

    `name` and `version` identify the workflow in the journal; both together are unique. `retry` tries a failed run
    again from its last failure. `on_event` begins a run for each published event of that name whose payload holds
    `match`, with the payload as its argument. Runs wait in `queue` for workers that serve it. After `deadline` a run is
    cancelled. It is kept for `retention` after its end (None: for ever). A run that takes its worker down `max_crashes`
    times without progress is stopped. `journal_limit` bounds the inputs that a run may take in.
    """

    def decorate(fn: Callable[..., Any]) -> Any:
        if isinstance(fn, Workflow):
            raise DefinitionError(f"{fn.name!r} is a workflow already; use .options(...) to vary how it is started")
        if not inspect.isfunction(fn):
            raise DefinitionError(f"@workflow expects a function, not {fn!r}; decorate a `def` or an `async def`")
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise DefinitionError(
                f"workflow {fn.__name__!r} is a generator; a workflow returns one value: return a list, or emit items"
            )
        refuse_method(fn, f"workflow {fn.__name__!r}")
        cls: Any = AsyncWorkflow if inspect.iscoroutinefunction(fn) else BlockingWorkflow
        return cls(
            fn, name=name, version=version, retry=retry, deadline=deadline, retention=retention, queue=queue,
            max_crashes=max_crashes, journal_limit=journal_limit, on_event=on_event, match=match,
        )  # fmt: skip  # one line a group reads better here

    return decorate if fn is None else decorate(fn)


def refuse_in_body(what: str, instead: str) -> None:
    """Raise if a body is advancing: a call to the outside would not be in its journal."""
    if is_body(current_scope.get()):
        raise IOInBody(
            f"{what} was called inside a workflow body, where it would happen again on every replay; {instead}"
        )
