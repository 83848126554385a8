"""Drives a worker's session by hand: everything happens that can, then time jumps to the next alarm, and so on.

Here is no thread, no poll and no real wait, except in steps that really wait. A step in flight takes no time by the
environment's clock, so time stands still until the step has ended. A step that waits for the environment itself (by
`takes`, or for another run's result) is resting: time moves without it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar

from holdfast.define import StepInfo, current_scope
from holdfast.errors import HoldfastError, MisplacedCall
from holdfast.model import Instant
from holdfast.worker import Plan, Session

from .clock import ManualClock

T = TypeVar("T")
_CALM = 8
"""After so many quiet turns of the event loop nothing more will happen. Other tasks need some to say what they do."""


class Stuck(Exception):
    """A wait would never end: nothing is under way and no alarm is set, or time was moved too often."""


class Driver:
    """One session and its clock. `settle` lets everything happen that can happen now; `until` and `skip` move time."""

    def __init__(self, plan: Plan, clock: ManualClock, resources: Mapping[object, Any], stand_in: Any) -> None:
        self.session: Session
        self.most_jumps = 10_000
        """How often one wait may move time before it counts as endless."""
        self._plan = plan
        self._clock = clock
        self._resources = resources
        self._stand_in = stand_in
        self._lock = asyncio.Lock()
        self._resting: Counter[asyncio.Task[Any]] = Counter()
        self._news: asyncio.Future[None] | None = None
        self._waiters: dict[object, int] = {}
        """The waits for which time may move, each with the moment of its last look."""
        self._moment = 0
        """Counts everything that happens, so that a wait can tell whether its last look is still valid."""
        self._jumps = 0
        self._is_stale = True
        self._is_interrupted = False
        self._unsubscribe: Callable[[], None] = _nothing
        self._loop: asyncio.AbstractEventLoop | None = None

    async def enter(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = self._plan.store.subscribe(self.wake)
        await self.begin_session()

    async def begin_session(self) -> None:
        session = Session(self._plan, self._resources, self._interrupted)
        await session.register()
        session.runs.attempts.stand_in = self._stand_in
        session.runs.attempts.dice = lambda: 0.5
        session.runs.is_lenient = True
        self.session = session
        self._is_stale = True

    async def end_session(self) -> None:
        """End the session as a crash would: nothing is written, and steps in flight are cancelled."""
        tasks = set(self.session.runs.attempts.tasks)
        self.session.leave()
        if tasks:
            await asyncio.wait(tasks)

    async def leave(self) -> None:
        self._unsubscribe()
        await self.end_session()

    async def rest(self) -> None:
        """As `settle`, one caller at a time; a step that calls this is resting meanwhile."""
        self._refuse_other_loop()
        with self.resting():
            async with self._lock:
                await self.settle()

    async def settle(self) -> None:
        """Let everything happen that can happen now."""
        calm = 0
        self._is_stale = True
        while calm < _CALM:
            calm += 1
            if self._is_interrupted:
                self._is_interrupted = False
                raise KeyboardInterrupt
            is_busy = await self.recover()
            if self._is_stale:
                self._is_stale = False
                is_busy |= await self.look() > 0
            is_busy |= self._clock.ring() > 0
            is_busy |= await self._pass()
            if is_busy:
                calm = 0
                self._moment += 1

    async def look(self) -> int:
        """Let the session look for work; returns how much it found."""
        return await self.session.look()

    async def recover(self) -> bool:
        """Put right what must be before going on; True if there was something. For derived classes."""
        return False

    async def _pass(self) -> bool:
        """Let the event loop turn, or wait for a step in flight; True if something was under way."""
        runs = self.session.runs
        is_writing = any(held.is_committing for held in runs.held.values())
        in_flight = runs.attempts.tasks - self._resting.keys()
        if in_flight and not is_writing and not self._is_stale:
            self._news = asyncio.get_running_loop().create_future()
            await asyncio.wait([*in_flight, self._news], return_when=asyncio.FIRST_COMPLETED)
            self._news = None
            self._is_stale = True
            return True
        await asyncio.sleep(0)
        return is_writing or bool(in_flight) or self._is_stale

    def wake(self) -> None:
        """Something may have happened: the session should look again."""
        self._is_stale = True
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def until(self, found: Callable[[], Awaitable[T | None]], timeout: int | None = None) -> T:
        """Move time until `found` returns a value. Raises TimeoutError after `timeout` by the clock, or Stuck."""
        self._refuse_other_loop()
        end = None if timeout is None else self._clock.now() + timeout
        first = self._jumps
        with self._stop_at(end), self.resting(), self._waiting() as me:
            while self._jumps - first <= self.most_jumps:
                async with self._lock:
                    await self.settle()
                    answer = await found()
                    if answer is not None:
                        return answer
                    if end is not None and self._clock.now() >= end:
                        raise TimeoutError
                    if self._may_jump(me) and not self.jump():
                        raise Stuck("nothing is under way and no timer is set")
        raise Stuck(f"time was moved {self.most_jumps} times, to {self._clock.moment}")

    async def skip(self, duration: int) -> None:
        """Move time by `duration`, with a stop at each alarm on the way."""
        self._refuse_other_loop()
        end = self._clock.now() + duration
        with self._stop_at(end), self.resting(), self._waiting() as me:
            while True:
                async with self._lock:
                    await self.settle()
                    if self._clock.now() >= end:
                        return
                    if self._may_jump(me):
                        self.jump()

    def _refuse_other_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            # Commits and steps are tasks of the loop that was entered. It stands still, so this wait would never end.
            raise MisplacedCall(
                "this environment was entered in another event loop, and only that one can move it; enter it in the "
                "test itself, or have its fixture share the loop of the test (pytest-asyncio: the same loop_scope)"
            )

    @property
    def is_waited_for(self) -> bool:
        """Whether some wait may move time."""
        return bool(self._waiters)

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[object]:
        me = object()
        self._waiters[me] = -1
        try:
            yield me
        finally:
            del self._waiters[me]

    def _may_jump(self, me: object) -> bool:
        """Whether every wait has looked since the last thing happened, and still needs time to move."""
        self._waiters[me] = self._moment
        return all(seen == self._moment for seen in self._waiters.values())

    async def sleep(self, duration: int) -> None:
        """Wait for `duration` by the clock; for stubs."""
        over = asyncio.Event()
        alarm = self._clock.call_at(self._clock.now() + duration, over.set)
        try:
            with self.resting():
                await over.wait()
        finally:
            alarm.cancel()

    def jump(self) -> bool:
        """Move time to the next alarm and ring it; False if none is set."""
        when = self._clock.next_alarm()
        if when is None:
            return False
        if when > self._clock.now():
            self._clock.move_to(when)
            self._renew()
        self._jumps += 1
        self._moment += 1
        self._clock.ring()
        return True

    def _renew(self) -> None:
        # Before any alarm rings: a real worker would have renewed its lease many times by now.
        now = self._clock.now()
        session = self.session
        if self._plan.store.renew_lease(session.worker_id, self._plan.lease, now=now) is None:
            raise HoldfastError("the environment's worker lost its lease; this is a defect of holdfast.testing")
        session.lease.renewed(now)
        session.renewed()

    @contextlib.contextmanager
    def _stop_at(self, when: Instant | None) -> Iterator[None]:
        alarm = None if when is None else self._clock.call_at(when, _nothing)
        try:
            yield
        finally:
            if alarm is not None:
                alarm.cancel()

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Inside, the calling step, if it is one, counts as waiting for the environment and not as under way."""
        scope = current_scope.get()
        task = self._task_of(scope) if isinstance(scope, StepInfo) else None
        if task is None:
            yield
            return
        self._resting[task] += 1
        self.wake()
        try:
            yield
        finally:
            self._resting[task] -= 1
            if not self._resting[task]:
                del self._resting[task]

    def _task_of(self, info: StepInfo) -> asyncio.Task[Any] | None:
        for held in self.session.runs.held.values():
            if held.attempts.get(info.key) is info.whole:
                return held.attempts[info.key].task  # type: ignore[no-any-return]  # attempts are Any to a run
        return None

    def _interrupted(self) -> None:
        self._is_interrupted = True
        self.wake()


def _nothing() -> None:
    pass
