"""An event loop whose time is virtual: when nothing is ready it jumps to the next timer. No threads, no waiting.

Every callback belongs to the domain in its context: a process, or the world itself. From the moment at which a domain
is killed, none of its callbacks runs any more; callbacks of a stalled domain wait until it goes on. So a crash or a
stall can come at any await, whatever the code under test does.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
_SPIN = 20_000
"""After so many callbacks at one instant of virtual time the world counts as spinning."""


class Spinning(Exception):
    """Callbacks go on and on without any time passing."""


class Stuck(Exception):
    """Nothing is ready, nothing is due, and the world has not ended."""


class Stray(Exception):
    """A callback that belongs to no domain: a fault of the simulation, not of the code under test."""


class Domain:
    """Everything that lives and dies together: one process, or the world."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_killed = False
        """It was killed, so errors in its tasks are nobody's."""
        self.is_stalled = False
        self.waiting: list[asyncio.Handle] = []
        """Callbacks that became ready while it was stalled."""
        self.handled = 0
        self.dies_at: int | None = None
        """It dies instead of running its callback of this number."""
        self.died: Callable[[], None] | None = None
        """Called when that happens."""

    def __repr__(self) -> str:
        return f"<domain {self.name}>"


domain_of: contextvars.ContextVar[Domain] = contextvars.ContextVar("simulated_domain")


class SimTask(asyncio.Task[T]):
    """A task that hashes by creation number, so that sets of tasks iterate alike in every execution of a seed."""

    def __init__(self, coro: Coroutine[Any, Any, T], *, number: int, **options: Any) -> None:
        # The C implementation hashes the task while it is being made, so the number comes first.
        self._number = number
        self.domain = (options.get("context") or contextvars.copy_context()).get(domain_of)
        super().__init__(coro, **options)
        self._log_destroy_pending = False
        self._log_traceback: bool

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.AbstractEventLoop):
    """The one loop of a world."""

    def __init__(self) -> None:
        self.microseconds = 0
        self.world = Domain("world")
        self.neutral = contextvars.Context()
        self.neutral.run(domain_of.set, self.world)
        self.current = self.world
        """The domain whose callback is running."""
        self.failures: list[dict[str, Any]] = []
        """What asyncio would have logged as unhandled exceptions."""
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._tasks: list[SimTask[Any]] = []
        self._is_closed = False
        self._halted: Exception | None = None

    def time(self) -> float:
        return self.microseconds / 1_000_000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._is_closed

    def call_soon(  # type: ignore[override]  # typeshed's signature takes a TypeVarTuple
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # as above

    def call_later(  # type: ignore[override]  # as above
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self._call_at(self.microseconds + max(round(delay * 1_000_000), 0), callback, args, context)

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self._call_at(round(when * 1_000_000), callback, args, context)

    def _call_at(
        self, when: int, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when / 1_000_000, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio reports a cancelled timer here. It is skipped when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # asyncio's signature grows with each version
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> SimTask[T]:
        self._count += 1
        task: SimTask[T] = SimTask(coro, number=self._count, loop=self, name=name or f"t{self._count}", context=context)
        self._tasks.append(task)
        return task

    def get_task_factory(self) -> None:
        """There is none: all tasks are made here."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._is_closed or self.current.is_dead:
            return
        self.failures.append(context)
        error = context.get("exception")
        if self.current is self.world and "handle" in context and isinstance(error, Exception):
            # This code carries requests and checks answers. If it fails, whoever waits for an answer would wait for
            # ever.
            self.halt(error)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the world's own to its end, and everything beside it."""
        events._set_running_loop(self)
        try:
            task = self.create_task(main, context=self.neutral.copy())
            spun_at, spun = -1, 0
            while not task.done():
                if not self._ready:
                    self._jump()
                if self.microseconds != spun_at:
                    spun_at, spun = self.microseconds, 0
                spun += 1
                if spun > _SPIN:
                    raise Spinning(f"{_SPIN} callbacks and time stands still; the last was {self._ready[0]!r}")
                self._step()
                if self._halted is not None:
                    raise self._halted
            return task.result()
        finally:
            events._set_running_loop(None)

    def halt(self, error: Exception) -> None:
        """Stop after the callback that is running; `run` raises this."""
        self._halted = error

    def _step(self) -> None:
        handle = self._ready.popleft()
        if handle._cancelled:
            return
        domain = handle._context.get(domain_of)  # type: ignore[attr-defined]  # asyncio's own, as long as there is asyncio
        if domain is None:
            raise Stray(f"{handle!r} belongs to no process, so none could take it along when it dies")
        if domain.is_dead:
            return
        if domain.is_stalled:
            domain.waiting.append(handle)
            return
        domain.handled += 1
        if domain.handled == domain.dies_at and domain.died is not None:
            domain.died()
            return
        self.current = domain
        try:
            handle._run()
        finally:
            self.current = self.world

    def _jump(self) -> None:
        while self._timers and self._timers[0][2]._cancelled:
            heapq.heappop(self._timers)
        if not self._timers:
            raise Stuck("nothing is ready, nothing is due")
        self.microseconds = max(self.microseconds, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self.microseconds:
            handle = heapq.heappop(self._timers)[2]
            if not handle._cancelled:
                self._ready.append(handle)

    def go_on(self, domain: Domain) -> None:
        """End a stall. Callbacks that waited run first."""
        domain.is_stalled = False
        waiting, domain.waiting = domain.waiting, []
        self._ready.extendleft(reversed(waiting))

    def lost_errors(self) -> list[BaseException]:
        """The errors that ended a callback, or a task of a process that was not killed, and that nobody looked at."""
        found = [context["exception"] for context in self.failures if "exception" in context]
        for task in self._tasks:
            is_unheard = task.domain is not None and task.domain.is_killed
            if task.done() and not task.cancelled() and task._log_traceback and not is_unheard:
                error = task.exception()
                if error is not None:
                    found.append(error)
        return found

    def finish(self, put_away: Sequence[Callable[[], None]], last: Coroutine[Any, Any, None]) -> None:
        """Do the last things, then close what is still suspended, so that the collector does not choose the moment."""
        self._halted = None
        events._set_running_loop(self)
        try:
            for one in put_away:
                one()
            self.run(last)
            self._is_closed = True
            events._set_running_loop(self)
            for task in reversed(self._tasks):
                if task.done():
                    task._log_traceback = False
                    continue
                try:
                    task.get_coro().close()
                except RuntimeError:
                    # The coroutine caught GeneratorExit and went on. Nothing in this world matters any more.
                    pass
        finally:
            events._set_running_loop(None)
        self._ready.clear()
        self._timers.clear()
        self._tasks.clear()


VirtualLoop.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]  # sockets and threads are not for simulations
