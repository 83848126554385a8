"""A real worker on a real SQLite file, in this process, with a clock that can skip ahead.

Time goes on as usual; `skip` adds to it, so that a test need not wait for an hour's sleep. Leases are long here: they
are real time's affair, and other tests'.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from holdfast import AsyncClient, Retry, RunFailed, Worker
from holdfast.client import AsyncRun
from holdfast.define import Workflow
from holdfast.model import Duration, Entry, Instant, RunRecord, RunStatus, decode_entries, microseconds
from holdfast.store import SqliteStore
from holdfast.worker import Alarm

PATIENCE = 60
"""Seconds. Nothing here takes long; it is how long a test waits before it says that something never came."""
ONCE = Retry(attempts=1)
QUICK = Retry(attempts=3, initial=0.01, max=0.01, jitter=0)
LATER = 3_600_000_000
"""An hour, in microseconds."""


class _Set:
    def __init__(self, when: Instant, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.handle: asyncio.TimerHandle | None = None
        self.is_off = False

    def cancel(self) -> None:
        self.is_off = True
        if self.handle is not None:
            self.handle.cancel()


class SkippingClock:
    """The host's time, and what was skipped."""

    def __init__(self) -> None:
        self.skipped = 0
        self._alarms: list[_Set] = []

    def now(self) -> Instant:
        return time.time_ns() // 1_000 + self.skipped

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000

    def observe(self, store_now: Instant, asked_at: int) -> None:
        pass

    def store_time(self) -> Instant | None:
        return self.now()

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Alarm:
        alarm = _Set(when, callback)
        self._alarms.append(alarm)
        self._arm(alarm)
        return alarm

    def skip(self, duration: Duration) -> None:
        self.skipped += microseconds(duration)
        self._alarms = [alarm for alarm in self._alarms if not alarm.is_off]
        for alarm in self._alarms:
            if alarm.handle is not None:
                alarm.handle.cancel()
            self._arm(alarm)

    def _arm(self, alarm: _Set) -> None:
        wait = max(alarm.when - self.now(), 0) / 1_000_000
        alarm.handle = asyncio.get_running_loop().call_later(wait, self._ring, alarm)

    def _ring(self, alarm: _Set) -> None:
        if not alarm.is_off:
            alarm.is_off = True
            alarm.callback()


class StandingClock(SkippingClock):
    """A clock that moves only when it skips: for what has to happen before a short time is over, on any machine."""

    def __init__(self) -> None:
        super().__init__()
        self._began = super().now()

    def now(self) -> Instant:
        return self._began + self.skipped

    def _arm(self, alarm: _Set) -> None:
        if alarm.when <= self.now():
            super()._arm(alarm)


class Stalling(SkippingClock):
    """A clock of a process that stands still for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.stalled = 0

    def monotonic(self) -> int:
        return super().monotonic() + self.stalled


class SkippingStore(SqliteStore):
    """A SQLite file that takes the time from the test's clock."""

    def __init__(self, url: str, clock: SkippingClock) -> None:
        super().__init__(url.removeprefix("sqlite:///"), url, "default", clock=clock.now)
        self.clock = clock.now


class Stage:
    """A client, a clock, and any number of workers."""

    def __init__(self, url: str, *, clock: SkippingClock | None = None, **options: Any) -> None:
        self.clock = clock or SkippingClock()
        self.store = SkippingStore(url, self.clock)
        self.client = AsyncClient(self.store, **options)

    def worker(self, *workflows: Workflow[..., Any], **options: Any) -> Worker:
        """Another worker, which the test has to enter."""
        options = {"lease": "1000d", "grace": "5s", **options}
        return Worker(self.client, workflows=workflows, clock=self.clock, **options)

    def skip(self, duration: Duration) -> None:
        self.clock.skip(duration)

    async def entries(self, run: AsyncRun[Any]) -> list[Entry]:
        """The run's journal."""
        return [entry for row in await self.store.read_journal(run.id) for entry in decode_entries(row.data)]

    async def kinds(self, run: AsyncRun[Any]) -> list[str]:
        return [entry.kind for entry in await self.entries(run)]

    async def record(self, run: AsyncRun[Any]) -> RunRecord:
        record = (await run.refresh()).record
        assert record is not None
        return record

    async def until_status(self, run: AsyncRun[Any], *status: RunStatus) -> RunRecord:
        async def is_so() -> bool:
            return (await self.record(run)).status in status

        await until(is_so)
        return await self.record(run)

    async def until_waiting(self, run: AsyncRun[Any]) -> RunRecord:
        """Until the run waits for its time or a message, parked or with its worker."""

        async def is_so() -> bool:
            record = await self.record(run)
            return record.status is RunStatus.WAITING

        await until(is_so)
        return await self.record(run)

    async def until_blocked(self, run: AsyncRun[Any]) -> str:
        async def is_so() -> bool:
            return (await self.record(run)).blocked is not None

        await until(is_so)
        return str((await self.record(run)).blocked)


@asynccontextmanager
async def stage(
    url: str,
    *workflows: Workflow[..., Any],
    client: dict[str, Any] | None = None,
    clock: SkippingClock | None = None,
    **options: Any,
) -> AsyncIterator[Stage]:
    """A stage with one worker for these workflows; without workflows it has no worker."""
    made = Stage(url, clock=clock, **(client or {}))
    async with AsyncExitStack() as stack:
        await made.store.open()
        stack.push_async_callback(made.store.close)
        await stack.enter_async_context(made.client)
        if workflows:
            await stack.enter_async_context(made.worker(*workflows, **options))
        yield made


async def reap(on: Stage, later: int = LATER) -> list[str]:
    """Has somebody else reap every worker as of a later time, and moves the clock to that time."""
    dead = await on.store.reap_workers("somebody", now=on.clock.now() + later)
    on.skip(later / 1_000_000)
    return dead


async def failure_of(run: AsyncRun[Any]) -> BaseException:
    """What the body of a run that fails has raised."""
    with pytest.raises(RunFailed) as caught:
        await run.result(PATIENCE)
    assert caught.value.__cause__ is not None
    return caught.value.__cause__


async def items(run: AsyncRun[Any], name: str) -> list[tuple[Any, ...]]:
    """What was sent to a stream of the run, in order: value, step, attempt, and whether it begins anew."""
    return [(item.value, item.step, item.attempt, item.reset) async for item in run.stream(name)]


async def until(what: Callable[[], Any]) -> None:
    """Waits until the condition holds. How long that takes is nobody's promise."""
    for _ in range(PATIENCE * 500):
        found = what()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        await asyncio.sleep(0.002)
    raise AssertionError(f"it did not come to be within {PATIENCE} seconds")
