"""@step: a unit of real work inside a run, and inline steps by `call`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    Optional,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    TypeVarTuple,
    cast,
    overload,
)

from holdfast.codec import known_hints
from holdfast.errors import DefinitionError
from holdfast.model import Duration, Retry, is_name, microseconds, quoted

from .coroutines import CoroutineFunction, is_coroutine_callable
from .methods import refuse_method
from .pending import Pending
from .scope import Body, StepInfo, body_for, current_scope
from .signatures import check_takes_connection, check_takes_result

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")
_DEFAULT_RETRY = Retry()


class Step(Generic[P, R]):
    """What @step makes of a function.

    `fn` is the function itself; outside any run, and inside another step, calling the step is calling the function.
    There a transactional step takes a connection first; `step.fn(connection, ...)` says that to readers and type
    checkers.
    """

    is_async: bool
    is_transactional: bool
    """Its first parameter is a connection to the store's own database, and its result is committed there."""

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        record_args: bool = False,
        compensate: Callable[..., Any] | Step[..., Any] | None = None,
        transaction: bool = False,
    ) -> None:
        if retry is not None and not isinstance(retry, Retry):
            raise DefinitionError(f"step {name_of(fn)!r}: retry={retry!r}: expected holdfast.Retry(...)")
        # Workflows are found by this attribute: their module imports this one. Looked up on the type, for a mock has
        # every attribute.
        if hasattr(type(fn), "continue_as_new"):
            raise DefinitionError(
                f"{name_of(fn)!r} is a workflow, and can be neither a step nor a compensation; expected a function, "
                "which may start it with a client"
            )
        self.fn = fn
        self.name = checked_name(name if name is not None else name_of(fn))
        self.retry = retry if retry is not None else _DEFAULT_RETRY
        self.timeout = None if timeout is None else microseconds(timeout, what=f"step {self.name!r}: timeout")
        self.record_args = record_args
        self.compensate: Step[..., Any] | None = None
        """The step that undoes this one, called with its result."""
        if compensate is not None:
            if not callable(compensate):
                raise DefinitionError(f"step {self.name!r}: compensate={compensate!r}: expected a step or a function")
            undo = self.compensate = compensate if isinstance(compensate, Step) else make_step(compensate)
            check_takes_result(undo.fn, undo.name, self.name, is_transactional=undo.is_transactional)
        self.is_transactional = transaction
        self.kind = "transaction" if transaction else "async" if self.is_async else "thread"
        """How it executes; see StepInfo."""
        if transaction:
            check_takes_connection(fn, self.name)
        self.shapes: Any = None
        """Whoever executes the step may keep the codecs of its arguments and result here."""
        # Attributes that others have set on the function, such as a `retry`, are not copied.
        functools.update_wrapper(cast(Any, self), fn, updated=())

    def options(self, *, name: str | None = None, retry: Retry | None = None, timeout: Duration | None = None) -> Self:
        """The same step under another name, retry policy or timeout: `await charge.options(name="again")(card, 5)`.

        What is not given stays as it was declared. Outside a body none of this matters.
        """
        other = type(self)(
            self.fn,
            name=self.name if name is None else name,
            retry=self.retry if retry is None else retry,
            timeout=timeout,
            record_args=self.record_args,
            compensate=self.compensate,
            transaction=self.is_transactional,
        )
        if timeout is None:
            other.timeout = self.timeout
        return other

    def chunk_hints(self) -> dict[str, Any]:
        """The annotations of a function that executes this step for a list of items."""
        # Without a resolved annotation, values keep whatever type they have. A default of None is a value, too.
        hints, first = known_hints(self.fn), next(iter(inspect.signature(self.fn).parameters.values()), None)
        item, result = hints.get(first.name if first else "", Any), hints.get("return", Any)
        item = Optional[item] if first and first.default is None else item  # noqa: UP045  # as below
        return {"items": list[item], "return": tuple[list[Optional[result]], dict[int, tuple[str, str]]]}  # type: ignore[valid-type]  # noqa: UP045  # made at run time, of whatever there is

    def to_undo(self, result: Any) -> list[Any]:
        """The arguments that `compensate` is called with, one call each: the result, or the results of a chunk's
        items."""
        return [result]

    def start(self, /, *args: P.args, **kwargs: P.kwargs) -> Pending[R]:
        """Ask for the step now and go on: a Pending to await, or to call `.result()` on in a `def` body.

            first, second = render.start(page), render.start(other)         # both are under way
            return [await first, await second]

        Only in a body: NotInRun outside any run, NotInBody in a step. BadArguments if the arguments don't fit.
        """
        body = body_for(f"{self.name}.start()")
        return cast("Pending[R]", body.ask_pending(self, args, kwargs))

    def __reduce__(self) -> str:
        """Pickled by name, as its function would be: a process pool may call it."""
        return str(getattr(self, "__qualname__", self.name))

    def __repr__(self) -> str:
        return f"<step {self.name}>"


class BlockingStep(Step[P, R]):
    """A step made of a `def`: it executes in a thread and returns its value, in any body."""

    is_async = False

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        scope = current_scope.get()
        if scope is None or isinstance(scope, StepInfo):
            return cast(R, self.fn(*args, **kwargs))
        return cast(R, scope.block(scope.ask_step(self, args, kwargs)))


class AsyncStep(CoroutineFunction, Step[P, R]):
    """A step made of an `async def`: it executes on the worker's loop. It is awaited in an async body, and blocks a
    `def` body."""

    is_async = True

    # Not Coroutine[Any, Any, R]: with that, mypy takes asyncio.gather over calls of different types for Any.
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[object, None, R]:
        scope = current_scope.get()
        if scope is None or isinstance(scope, StepInfo):
            return cast("Coroutine[object, None, R]", self.fn(*args, **kwargs))
        if scope.is_blocking:
            return cast("Coroutine[object, None, R]", scope.block(scope.ask_step(self, args, kwargs)))
        ticket = scope.new_ticket()
        asked: Coroutine[object, None, R] = scope.track(
            _ask(scope, ticket, self, args, kwargs), ticket, sys._getframe(1)
        )
        return asked


async def _ask(body: Body, ticket: int, step: Step[Any, R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
    body.redeem(ticket)
    value: R = await body.ask_step(step, args, kwargs)
    return value


class _StepDecorator(Protocol):
    """`@step(...)` with options, typed by whether it decorates a `def` or an `async def`."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncStep[P, R]: ...  # type: ignore[overload-overlap]  # a coroutine function is also a function; the first overload wins
    @overload
    def __call__(self, fn: Callable[P, R], /) -> BlockingStep[P, R]: ...


class _TransactionDecorator(Protocol):
    """`@step(transaction=True)`: the step is called without the connection that its function takes first."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /) -> AsyncStep[P, R]: ...  # type: ignore[overload-overlap]  # as above
    @overload
    def __call__(self, fn: Callable[Concatenate[Any, P], R], /) -> BlockingStep[P, R]: ...


@overload
def step(fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncStep[P, R]: ...  # type: ignore[overload-overlap]  # as above
@overload
def step(fn: Callable[P, R], /) -> BlockingStep[P, R]: ...
@overload
def step(
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    record_args: bool = False,
    compensate: Callable[..., Any] | Step[..., Any] | None = None,
    transaction: Literal[False] = False,
) -> _StepDecorator: ...
@overload
def step(
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    record_args: bool = False,
    compensate: Callable[..., Any] | Step[..., Any] | None = None,
    transaction: Literal[True],
) -> _TransactionDecorator: ...
def step(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    record_args: bool = False,
    compensate: Callable[..., Any] | Step[..., Any] | None = None,
    transaction: bool = False,
) -> Any:
    """Make a function a step: real work inside a run, recorded once and reused ever after.

        @step
        async def charge(card: str, cents: int) -> str: ...

        @step(retry=Retry(attempts=5), timeout="30s")
        def render(order: Order) -> bytes: ...

    Calling a step is calling the function. In a workflow body the call is recorded: the body asks, the worker executes
    the function (an `async def` on its loop, a `def` in a thread) and the result becomes an entry of the journal. On
    replay the recorded result is handed back and nothing is executed. Outside any run, and inside another step, the
    function is simply called, so it can be unit-tested as a function.

    Arguments and result pass through the codec by their annotations, live as on replay: a step works on copies. A value
    that can't be stored fails the step once, with its path; the side effect is not repeated because of it.

    On an error the attempt is recorded and tried again as `retry` says, durably: the delay runs through restarts.
    `timeout` is per attempt and raises StepTimeout. The last error is recorded like a result and raised in the body as
    its own class if its module was loaded when the worker started, else as StepFailed. If the process dies while the
    step executes, it executes again: at least once. `current_step().idempotency_key` is the same each time; pass it on
    to services that must not do things twice.

    `compensate=refund` undoes it if the run fails or is cancelled later: `refund` runs as a step and gets the result.

    With `transaction=True` the function takes a connection to the store's own database first: on Postgres an
    asyncpg.Connection, for an `async def`; on SQLite a sqlite3.Connection, for a `def`, which holds the write lock and
    has 5 seconds unless `timeout` says otherwise. The step is called without it. What the function writes there and its
    recorded result are one commit: both happen, exactly once, or neither does. It must not commit or roll back itself.

        @step(transaction=True)
        async def book(db: asyncpg.Connection, order: Order) -> int:
            return await db.fetchval("INSERT INTO bookings ... RETURNING id", order.id)

    `record_args=True` keeps the arguments in the journal, not only their digest. A step's name is its function's;
    `name=` keeps journals readable after a rename.
    """

    def decorate(fn: Callable[..., Any]) -> Any:
        if isinstance(fn, Step):
            raise DefinitionError(f"step {fn.name!r} is a step already; use .options(...) to vary it")
        if not callable(fn):
            raise DefinitionError(f"@step expects a function, not {fn!r}; decorate a `def` or an `async def`")
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise DefinitionError(
                f"step {name_of(fn)!r} is a generator; a step returns one value: return a list instead"
            )
        refuse_method(fn, f"step {name_of(fn)!r}", "; or make a step of one object's method: step(thing.method)")
        return make_step(
            fn, name=name, retry=retry, timeout=timeout, record_args=record_args, compensate=compensate,
            transaction=transaction,
        )  # fmt: skip  # one line a group reads better here

    return decorate if fn is None else decorate(fn)


def make_step(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    record_args: bool = False,
    compensate: Callable[..., Any] | Step[..., Any] | None = None,
    transaction: bool = False,
) -> AsyncStep[..., Any] | BlockingStep[..., Any]:
    """The step for a callable, be it a `def` or an `async def`."""
    cls: Any = AsyncStep if is_coroutine_callable(fn) else BlockingStep
    return cls(  # type: ignore[no-any-return]
        fn,
        name=name,
        retry=retry,
        timeout=timeout,
        record_args=record_args,
        compensate=compensate,
        transaction=transaction,
    )


@overload
def call(
    name: str,
    fn: Callable[[*Ts], Coroutine[Any, Any, R]],
    *args: *Ts,
    retry: Retry | None = None,
    timeout: Duration | None = None,
) -> Coroutine[object, None, R]: ...
@overload
def call(
    name: str,
    fn: Callable[[*Ts], R],
    *args: *Ts,
    retry: Retry | None = None,
    timeout: Duration | None = None,
) -> Coroutine[object, None, R]: ...
def call(  # type: ignore[misc]  # mypy can't match *args: Any with *Ts before keywords
    name: str,
    fn: Callable[..., Any],
    *args: Any,
    retry: Retry | None = None,
    timeout: Duration | None = None,
) -> Any:
    """An inline step from any callable: `await holdfast.call("charge", stripe.charge, card, cents)`.

    In an async body it is awaited, whether `fn` is a `def` or an `async def`; in a `def` body it blocks and returns the
    value. A lambda that calls an `async def` is neither: give that function and its arguments. The rest is as for
    @step: the result, or the last error, is recorded under `name` and handed back on replay without calling `fn`, and a
    call in flight when its process dies is made again. If `fn` is a step, its own options hold, except where `retry` or
    `timeout` are given here. DefinitionError if `fn` can't be called, and BadArguments if its arguments don't fit. Only
    in a body: NotInRun outside any run, NotInBody in a step, where you can simply call `fn`.
    """
    body = body_for("holdfast.call()")
    made = inline_step(name, fn, retry, timeout)
    if body.is_blocking:
        return body.block(body.ask_step(made, args, {}))
    ticket = body.new_ticket()
    return body.track(_ask(body, ticket, made, args, {}), ticket, sys._getframe(1))


def inline_step(
    name: str, fn: Callable[..., Any], retry: Retry | None, timeout: Duration | None
) -> AsyncStep[..., Any] | BlockingStep[..., Any]:
    """The step that `call` makes of a callable."""
    if not callable(fn):
        raise DefinitionError(f"call({name!r}, {fn!r}): expected a function, and its arguments behind it")
    if not isinstance(fn, (AsyncStep, BlockingStep)):
        return make_step(fn, name=name, retry=retry, timeout=timeout)
    if fn.is_transactional:
        raise DefinitionError(
            f"call({name!r}, ...): the step {fn.name!r} is transactional, which an inline step is not; call the step "
            f"itself: {fn.name}.options(name={name!r})(...)"
        )
    return fn.options(name=name, retry=retry, timeout=timeout)


def named_in(fn: Callable[..., Any]) -> Iterator[object]:
    """The objects that a function refers to by name, in its closure and its module. A name that is bound only later is
    left out."""
    fn = inspect.unwrap(fn)
    if inspect.isfunction(fn):
        for cell in fn.__closure__ or ():
            with contextlib.suppress(ValueError):  # an empty cell, for which inspect.getclosurevars raises
                yield cell.cell_contents
        yield from (fn.__globals__[name] for name in fn.__code__.co_names if name in fn.__globals__)


def name_of(fn: Callable[..., Any]) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return str(name)


def checked_name(name: object, *, what: str = "") -> str:
    if not is_name(name, 200):
        raise DefinitionError(
            f"{what}{quoted(name)} can't be a name; expected text of 1 to 200 characters, without a NUL or a lone "
            "surrogate"
        )
    return str(name)
