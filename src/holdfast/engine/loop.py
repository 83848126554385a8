"""The deterministic event loop that one body lives on, be it an `async def` or a `def`.

It offers what asyncio's pure primitives need and nothing that reaches outside: no sockets, threads or subprocesses.
Its time is the time of the last entry delivered, its timers are durable, its tasks and futures are numbered in
creation order and hash by that number. It never runs by itself: the execution pumps it until it is quiet.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from types import CodeType, FrameType
from typing import Any, NoReturn, Protocol, TypeVar

from greenlet import greenlet

from holdfast.define import current_scope
from holdfast.errors import IOInBody, Suspended
from holdfast.model import Instant

from .divergence import own_line
from .endings import is_unseen
from .tasks import BodyFuture, BodyTask, StrangeFuture

T = TypeVar("T")
_LONGEST = 1_000 * 366 * 86_400 * 1_000_000
_FEW = 16
"""So many cancelled timers may stay in the list, however few are open: sorting them out is not worth it."""
_ENSURE_FUTURE = frozenset({"ensure_future", "_ensure_future"})
_WAIT_FOR = asyncio.wait_for.__code__
"""On Python 3.11 wait_for sets a timer of its own; on later versions it uses asyncio.timeout."""
_KNOWN = ("asyncio.", "holdfast.")
_STRANGE = (StrangeFuture, asyncio.Future)
"""asyncio.Future itself is what a library makes by hand, as anyio does for its threads."""


class LoopOwner(Protocol):
    """What a loop needs of the execution it belongs to."""

    hub: greenlet | None
    """The greenlet that pumps the execution; None while it is not pumped."""
    is_dead: bool
    main: BodyTask[Any] | None
    time: Instant

    def next_number(self) -> int: ...

    def hash_of(self, number: int) -> int: ...

    def stop_with(self, error: Exception) -> NoReturn: ...

    def refuse(self) -> NoReturn: ...

    def refuse_outsider(self) -> NoReturn: ...

    def check_limit(self) -> None: ...

    def unhandled(self, context: dict[str, Any]) -> None: ...


class _Gone:
    """Stands in for an execution that was put away, so that nothing keeps that alive."""

    hub: greenlet | None = None
    is_dead = True
    main: BodyTask[Any] | None = None
    time = 0

    def next_number(self) -> int:
        return 0

    def hash_of(self, number: int) -> int:
        return number

    def stop_with(self, error: Exception) -> NoReturn:
        raise Suspended

    def refuse(self) -> NoReturn:
        raise Suspended

    def refuse_outsider(self) -> NoReturn:
        raise Suspended

    def check_limit(self) -> None:
        raise Suspended

    def unhandled(self, context: dict[str, Any]) -> None:
        """Nothing that happens here matters any more."""


_GONE = _Gone()


class Handle:
    """A callback that is ready to run. The execution's pump calls it."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled


class Timer(Handle):
    """A durable timer: it fires when the journal says so."""

    __slots__ = ("_loop", "due_at", "length", "number")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context,
        loop: BodyLoop,
        number: int,
        due_at: Instant,
        length: int | None,
    ) -> None:
        super().__init__(callback, args, context)
        self._loop = loop
        self.number = number
        self.due_at = due_at
        self.length = length
        """The length of a timeout, which raises when it fires; None for other timers."""

    def cancel(self) -> None:
        self._cancelled = True
        self._args = ()  # As asyncio does: the callback's target mostly refers to this timer, too.
        self._loop.timers.pop(self.number, None)

    def when(self) -> float:
        return self.due_at / 1_000_000


class BodyLoop(asyncio.AbstractEventLoop):
    """The loop of one run. `ready` is borrowed from the worker's runners; between advances it is always empty."""

    __slots__ = ("_due", "_owner", "_prune_at", "_ready", "dropped", "tasks", "timer_count", "timers")

    def __init__(self, owner: LoopOwner, ready: deque[Handle | greenlet]) -> None:
        self._owner = owner
        self._ready = ready
        self.timer_count = 0
        """How many timers were ever set: the number of the next one."""
        self._due: list[tuple[Instant, int]] | tuple[()] = ()
        """A heap by due time, which may still hold cancelled timers. Before the first timer there is no list."""
        self.timers: dict[int, Timer] = {}
        self.tasks: dict[int, BodyTask[Any]] = {}
        self._prune_at = 16
        self.dropped: tuple[tuple[asyncio.Task[Any] | None, CodeType, int], ...] = ()
        """The lines at which coroutines that nobody had awaited were thrown away, and the tasks in which that
        happened."""

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._owner.is_dead

    def time(self) -> float:
        return self._owner.time / 1_000_000

    def call_soon(  # type: ignore[override]  # our own, smaller handles
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, contextvars.copy_context() if context is None else context)
        if self._owner.hub is not None:
            self._ready.append(handle)
        elif not self._owner.is_dead:
            # Otherwise the next run to be pumped would execute the callback, and no journal would know of it.
            self._owner.refuse_outsider()
        return handle

    def call_later(  # type: ignore[override]  # as above
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        is_timeout = sys._getframe(1).f_code is _WAIT_FOR
        return self.call_after(_within(delay, _LONGEST), callback, *args, context=context, is_timeout=is_timeout)

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        now = self._owner.time
        is_timeout = isinstance(getattr(callback, "__self__", None), asyncio.Timeout)
        delay = _within(when, now + _LONGEST) - now
        return self.call_after(delay, callback, *args, context=context, is_timeout=is_timeout)

    def call_after(
        self,
        delay: int,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
        may_be_soon: bool = True,
        is_timeout: bool = False,
    ) -> Handle:
        """Set a durable timer, `delay` microseconds from the run's time. Without a delay it is no timer if it
        `may_be_soon`."""
        if self._owner.is_dead:
            self._owner.refuse()
        if delay <= 0 and may_be_soon:
            return self.call_soon(callback, *args, context=context)
        self._owner.check_limit()
        number = self.timer_count
        self.timer_count = number + 1
        due_at = self._owner.time + delay
        context = contextvars.copy_context() if context is None else context
        timer = Timer(callback, args, context, self, number, due_at, delay if is_timeout else None)
        self.timers[number] = timer
        if not self._due:
            self._due = [(due_at, number)]
        elif len(self._due) > 2 * len(self.timers) + _FEW:
            self._sort_due()
        else:
            heapq.heappush(self._due, (due_at, number))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        frame = sys._getframe(1)
        if frame.f_code.co_name == "wrap_future":
            # The future is resolved by another thread, which no replay waits for.
            self._owner.stop_with(_io("asyncio.wrap_future()", frame, self._owner.main))
        is_known = frame.f_globals.get("__name__", "").startswith(_KNOWN)
        return (BodyFuture if is_known else StrangeFuture)(self._owner.next_number(), self)

    def create_task(  # type: ignore[override]  # asyncio's signature grows with each version
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_: Any,
    ) -> BodyTask[T]:
        if self._owner.is_dead:
            coro.close()
            self._owner.refuse()
        if sys._getframe(1).f_code.co_name in _ENSURE_FUTURE:
            self._refuse_as_completed(coro)
        number = self._owner.next_number()
        context = contextvars.copy_context() if context is None else context
        if current_scope not in context:
            # An empty context was given. A step called in it would be a plain call, which the body executes on every
            # replay.
            context.run(current_scope.set, self._owner)
        hashed = self._owner.hash_of(number)
        task = BodyTask(coro, loop=self, hash=hashed, name=name or f"task-{number}", context=context)
        self.tasks[number] = task
        if len(self.tasks) >= self._prune_at:
            # A task whose failure nobody has looked at stays, so that the failure is reported at the end.
            self.tasks = {n: task for n, task in self.tasks.items() if not task.done() or is_unseen(task)}
            self._prune_at = 2 * len(self.tasks) + 16
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._owner.unhandled(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self._owner.unhandled(context)

    def get_exception_handler(self) -> None:
        return None

    def get_task_factory(self) -> None:
        return None

    def drop(self, frame: FrameType) -> None:
        """Note that a coroutine which nobody has awaited is thrown away here."""
        place = (asyncio.current_task(self), frame.f_code, frame.f_lasti)
        if place not in self.dropped:
            self.dropped += (place,)

    def next_timer(self) -> Timer | None:
        """The timer that is due first; of two that are due together, the one that was set first."""
        while self._due:
            found = self.timers.get(self._due[0][1])
            if found is not None:
                return found
            heapq.heappop(self._due)
        return None

    @property
    def awaits_stranger(self) -> bool:
        """Whether a task waits for a future that somebody else may have to resolve, such as a library's thread."""
        return any(type(task._fut_waiter) in _STRANGE for task in self.tasks.values())  # type: ignore[attr-defined]

    def disown(self) -> None:
        """Cut the tie to an execution that was put away. Code that still finds this loop finds it dead."""
        self._owner = _GONE
        self.dropped = ()

    def due_timers(self, now: Instant) -> list[Timer]:
        """All timers that are due, in the order in which they fire."""
        first = self.next_timer()
        if first is None or first.due_at > now:
            return []
        found = [timer for timer in self.timers.values() if timer.due_at <= now]
        return sorted(found, key=lambda timer: (timer.due_at, timer.number))

    def begin_timeouts_anew(self, now: Instant) -> None:
        """The run goes on from a cut, perhaps days later: without this, no time would be left of any timeout."""
        for timer in self.timers.values():
            if timer.length is not None:
                timer.due_at = now + timer.length
        if self.timers:
            self._sort_due()

    def _sort_due(self) -> None:
        """Sort anew without cancelled timers, which would otherwise stay as long as any timer due before them."""
        self._due = sorted((timer.due_at, timer.number) for timer in self.timers.values())

    def fire(self, number: int) -> None:
        """Make a timer's callback ready."""
        self._ready.append(self.timers.pop(number))

    def _refuse_as_completed(self, coro: Coroutine[Any, Any, Any]) -> None:
        # as_completed() puts bare coroutines into a set, and so starts them in the order of their addresses.
        frame = sys._getframe(2)
        for _ in range(4):
            if frame.f_code.co_name == "as_completed" or "AsCompleted" in type(frame.f_locals.get("self")).__name__:
                coro.close()
                self._owner.stop_with(
                    IOInBody(
                        "asyncio.as_completed() over bare coroutines starts them in no fixed order; "
                        "make them tasks first: as_completed([asyncio.create_task(c) for c in ...])"
                    )
                )
            if frame.f_back is None:
                return
            frame = frame.f_back


def _within(seconds: float, most: int) -> int:
    """Seconds as microseconds. asyncio allows a time that is infinitely far off; a thousand years will do here."""
    return round(min(seconds * 1_000_000, most))


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(self: BodyLoop, *args: Any, **kwargs: Any) -> NoReturn:
        for arg in args:
            if asyncio.iscoroutine(arg):
                arg.close()
        if self._owner.hub is None and not self._owner.is_dead:
            # The body waits, so this is another thread. It must be told why its call has no effect.
            self._owner.refuse_outsider()
        self._owner.stop_with(_io(f"loop.{name}()", sys._getframe(1), self._owner.main))

    refuse.__name__ = name
    return refuse


def _io(call: str, frame: FrameType, main: BodyTask[Any] | None) -> IOInBody:
    line = own_line(frame, main)
    at = "" if line is None else f" at {line},"
    return IOInBody(
        f"{call} was called{at} in a workflow body, which does no I/O and has no threads; move this into a step"
    )


for _name in (
    *("add_reader", "add_signal_handler", "add_writer", "call_soon_threadsafe", "close", "connect_accepted_socket"),
    *("connect_read_pipe", "connect_write_pipe", "create_connection", "create_datagram_endpoint", "create_server"),
    *("create_unix_connection", "create_unix_server", "getaddrinfo", "getnameinfo", "remove_reader"),
    *("remove_signal_handler", "remove_writer", "run_forever", "run_in_executor", "run_until_complete", "sendfile"),
    *("set_debug", "set_default_executor", "set_exception_handler", "set_task_factory", "shutdown_asyncgens"),
    *("shutdown_default_executor", "sock_accept", "sock_connect", "sock_recv", "sock_recv_into", "sock_recvfrom"),
    *("sock_recvfrom_into", "sock_sendall", "sock_sendfile", "sock_sendto", "start_tls", "stop", "subprocess_exec"),
    *("subprocess_shell",),
):
    setattr(BodyLoop, _name, _refusal(_name))
BodyLoop.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]  # every refusal above is an implementation
