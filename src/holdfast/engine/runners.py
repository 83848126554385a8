"""The greenlets in which bodies run, shared by all runs of one thread.

A body's callbacks are pumped inside a runner. When a callback blocks (a `def` step, a `def` body), its greenlet is set
aside with the frames inside it, and the hub goes on with another runner: siblings, timers and timeouts of the same run
are not held up. A run whose tasks all await holds no greenlet at all.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextvars import Context
from typing import Any, Protocol, TypeAlias

from greenlet import getcurrent, greenlet

from .gathers import hash_by_members
from .own_tasks import find_in_order
from .unawaited import hear_of_unawaited


class Pumped(Protocol):
    """What a runner pumps."""

    hub: greenlet | None
    is_dead: bool

    def pump(self) -> greenlet | None:
        """Run what is ready until the body is quiet (None), or until a greenlet that was set aside can go on (that
        greenlet)."""

    def generator_begins(self, generator: AsyncGenerator[Any, Any]) -> None: ...

    def generator_lost(self, generator: AsyncGenerator[Any, Any]) -> None: ...


class _Blocked:
    pass


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


_IDLE = 64
Hooks: TypeAlias = tuple[Any, Any]
BLOCKED = _Blocked()
STUBBORN = _Blocked()
"""The outcome of a dead body that goes on calling: it is left behind in its greenlet."""


class _Collecting:
    """While the collector runs, the body that is advancing counts as dead.

    Finalizers run then, perhaps those of another run that was put away: their durable calls belong to no body.
    """

    def __init__(self, runners: Runners) -> None:
        self._runners = weakref.ref(runners, self.end)
        self._thread = threading.get_ident()
        self._paused: Pumped | None = None

    def __call__(self, phase: str, info: object) -> None:
        runners = self._runners()
        if runners is None or threading.get_ident() != self._thread:
            return
        if phase == "start":
            pumped = runners.pumped
            if pumped is not None and not pumped.is_dead:
                self._paused, pumped.is_dead = pumped, True
        elif self._paused is not None:
            self._paused.is_dead, self._paused = False, None

    @property
    def is_under_way(self) -> bool:
        return self._paused is not None

    def end(self, _: object = None) -> None:
        if self in gc.callbacks:
            gc.callbacks.remove(self)


def is_entered(error: BaseException) -> bool:
    """Whether the error says that a context could not be entered: a task that shares it with another is set aside
    inside it."""
    if type(error) is not RuntimeError or not str(error).startswith("cannot enter context"):
        return False
    # It was raised by entering, not by the code that was to run in the context.
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def run_beside(context: Context, callback: Callable[..., object], *args: Any) -> None:
    """Run a callback in a context that a task set aside has entered. That task does not run meanwhile."""
    me = getcurrent()
    outer, me.gr_context = me.gr_context, context
    try:
        callback(*args)
    finally:
        me.gr_context = outer


class Runners:
    """The runners of one thread, and the queue of ready callbacks that its runs borrow while they advance.

    Made on the event loop on which these runs advance, or on none. `stopped` is called with a body that was stopped
    while it waited, by the thread that has stopped it: nothing else may ever come for such a run that would let a
    worker notice.
    """

    def __init__(self, stopped: Callable[[Any], None] | None = None) -> None:
        hash_by_members()
        find_in_order()
        hear_of_unawaited()
        self.stopped = stopped
        self._idle: list[greenlet] = []
        self.ready: deque[Any] = deque()
        self.context = Context()
        """The context of the house's own callbacks, which look at no contextvar."""
        self.host = events._get_running_loop()
        """The loop on which these bodies advance, if any. Asking for it at every advance would be a system call."""
        self._host_hooks: Hooks = sys.get_asyncgen_hooks()
        self.pumped: Pumped | None = None
        self._collecting = _Collecting(self)
        gc.callbacks.append(self._collecting)
        self._begins = self._generator_begins
        self._lost = self._generator_lost
        self.kept: list[object] = []
        """Code that would not end when it was put away; see departure.py."""

    @property
    def is_collecting(self) -> bool:
        """Whether the body that is advancing counts as dead only while the collector runs."""
        return self._collecting.is_under_way

    def _generator_begins(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self.pumped is not None:
            self.pumped.generator_begins(generator)

    def _generator_lost(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self.pumped is not None:
            self.pumped.generator_lost(generator)

    def run(self, pumped: Pumped) -> None:
        """Pump until quiet. Raises errors that must not stay inside a body, such as KeyboardInterrupt.

        Meanwhile async generators of this thread belong to the body; after that they belong to the host again.
        """
        hub = pumped.hub = getcurrent()
        resumed: greenlet | None = None
        self.pumped = pumped
        sys.set_asyncgen_hooks(self._begins, self._lost)
        try:
            while True:
                if resumed is not None:
                    outcome = resumed.switch()
                else:
                    runner = self._idle.pop() if self._idle else greenlet(self._main, hub)
                    outcome = runner.switch()
                if outcome is None or outcome is STUBBORN:
                    return
                if isinstance(outcome, _Raised):
                    raise outcome.error
                resumed = None if outcome is BLOCKED else outcome
        finally:
            sys.set_asyncgen_hooks(*self._host_hooks)
            self.pumped = pumped.hub = None
            self.ready.clear()

    def close(self) -> None:
        """End the idle runners. The collector can't see into a greenlet: each would keep itself and everything here
        alive."""
        self._collecting.end()
        self.stopped = None
        idle, self._idle = self._idle, []
        for runner in idle:
            runner.throw()

    def _main(self) -> Any:
        me = getcurrent()
        while True:
            # Not passed as an argument: a greenlet keeps its first arguments for as long as it lives.
            pumped = self.pumped
            assert pumped is not None
            outcome: Any
            try:
                outcome = pumped.pump()
            except BaseException as error:
                outcome = _Raised(error)
            hub = pumped.hub
            assert hub is not None
            del pumped
            if len(self._idle) >= _IDLE:
                # After a crowd most runners are not needed any more: this one ends and leaves its outcome to the hub.
                me.parent = hub
                return outcome
            self._idle.append(me)
            hub.switch(outcome)
