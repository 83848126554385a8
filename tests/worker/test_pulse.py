"""The pulse of a worker, beat by beat: what a renewal makes of the lease and the clock, and what it says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast import AsyncClient, Worker, workflow
from holdfast.errors import StoreAway
from holdfast.model import Instant, Lane, Swept
from holdfast.store import SqliteStore
from holdfast.store.sqlite.transactions import host_clock
from holdfast.worker import upkeep
from holdfast.worker.clock import SystemClock
from holdfast.worker.lease import Lease, Pulse
from holdfast.worker.upkeep import Upkeep
from tests.worker.stage import LATER, PATIENCE, until

LENGTH = 30_000_000


@workflow
async def body() -> None:
    pass


class Standing(SystemClock):
    """A machine's own clock, which the test sets."""

    def __init__(self) -> None:
        self.at = 0
        super().__init__()

    def monotonic(self) -> int:
        return self.at


class Watched(SqliteStore):
    """A store whose clock may be ahead, whose answers take their time, and which may be away."""

    def __init__(self, url: str, clock: Standing) -> None:
        super().__init__(url.removeprefix("sqlite:///"), url, "default", clock=lambda: host_clock() + self.ahead)
        self.ahead = self.takes = 0
        self.is_away = False
        self._machine = clock

    def renew_lease(self, worker_id: str, lease: int, *, now: Instant | None = None) -> Instant | None:
        self._machine.at += self.takes
        if self.is_away:
            raise StoreAway("the cable is out")
        return super().renew_lease(worker_id, lease, now=now)


class Watch:
    """A pulse that beats when the test says so."""

    def __init__(self, url: str) -> None:
        self.clock = Standing()
        self.lease = Lease(self.clock, LENGTH)
        self.store = Watched(url, self.clock)
        self.told: list[str] = []
        self.advancing: tuple[object] | None = None
        self.pulse = Pulse(
            self.store,
            "me",
            self.lease,
            self.clock,
            stall=300_000_000,
            blocked_after=1_000_000,
            advancing=lambda: self.advancing,
            lost=lambda: self.told.append("lost"),
            renewed=lambda: self.told.append("renewed"),
        )


@asynccontextmanager
async def watching(url: str) -> AsyncIterator[Watch]:
    made = Watch(url)
    await made.store.open()
    await made.store.register_worker("me", [Lane("body", "1")], LENGTH)
    yield made
    await made.store.close()


def test_a_lost_lease_does_not_hold_whatever_time_is_left():
    lease = Lease(Standing(), LENGTH)
    lease.renewed(0)
    lease.is_lost = True
    assert not lease.holds()
    assert not lease.has_held(LENGTH)


def test_a_lease_that_lapsed_before_it_was_renewed_has_not_held_all_the_time():
    clock = Standing()
    lease = Lease(clock, LENGTH)
    lease.renewed(0)
    end = lease.until
    assert lease.has_held(end)
    clock.at = end
    lease.renewed(clock.at)
    assert lease.holds()
    assert not lease.has_held(end)


def test_a_lease_is_not_shortened_by_an_answer_that_was_overtaken():
    lease = Lease(Standing(), LENGTH)
    lease.renewed(5)
    lease.renewed(2)
    assert lease.until == 5 + LENGTH


def test_a_worker_whose_own_lease_has_lapsed_reaps_no_other_worker():
    clock = Standing()
    lease = Lease(clock, LENGTH)
    assert not lease.may_reap()
    lease.renewed(0)
    assert lease.may_reap()
    clock.at = LENGTH
    assert not lease.may_reap()


def test_after_an_outage_other_workers_get_the_time_of_a_renewal_before_they_are_reaped():
    clock = Standing()
    lease = Lease(clock, LENGTH)
    lease.renewed(0)
    clock.at = 2 * LENGTH
    lease.renewed(clock.at)
    assert not lease.may_reap()
    clock.at += LENGTH // 3
    assert lease.may_reap()


async def test_a_renewal_that_failed_is_an_outage_though_the_lease_still_holds(database_url):
    async with watching(database_url) as watch:
        watch.pulse._renew(0)
        watch.store.is_away = True
        watch.clock.at = LENGTH // 3
        assert not watch.pulse._renew(watch.clock.at)
        watch.store.is_away = False
        watch.clock.at += 1_000_000
        assert watch.pulse._renew(watch.clock.at)
        assert watch.lease.holds()
        assert not watch.lease.may_reap()
        watch.clock.at += LENGTH // 3
        assert watch.pulse._renew(watch.clock.at)
        assert watch.lease.may_reap()


async def test_a_worker_reaps_when_its_own_lease_holds_and_not_before(database_url):
    async with watching(database_url) as watch:
        await watch.store.register_worker("dead", [Lane("body", "1")], 1)
        reaped = asyncio.Event()
        task = Upkeep(watch.store, watch.clock, "me", watch.lease, reaped.set, lambda: None)
        for is_held in (False, True):
            if is_held:
                watch.pulse._renew(0)
            looking = asyncio.create_task(task.run())
            # It looks at once.
            await asyncio.wait([asyncio.ensure_future(reaped.wait())], timeout=PATIENCE if is_held else 0.5)
            looking.cancel()
            assert reaped.is_set() is is_held


async def test_a_failed_renewal_is_tried_again_soon_while_the_lease_holds_and_less_often_afterwards(database_url):
    async with watching(database_url) as watch:
        watch.pulse._renew(0)
        watch.store.is_away = True
        assert [watch.pulse._next_pause() for _ in range(5)] == [200_000, 400_000, 800_000, 1_000_000, 1_000_000]
        watch.clock.at = LENGTH
        assert [watch.pulse._next_pause() for _ in range(4)] == [1_000_000, 2_000_000, 4_000_000, 5_000_000]
        watch.store.is_away = False
        watch.pulse._renew(watch.clock.at)
        assert watch.pulse._next_pause() == 200_000


async def test_a_renewal_counts_from_when_it_was_asked_for_however_long_its_answer_took(database_url):
    async with watching(database_url) as watch:
        watch.store.takes = 7_000_000
        assert watch.pulse._renew(0)
        assert (watch.clock.at, watch.lease.until) == (7_000_000, LENGTH)
        await until(lambda: watch.told == ["renewed"])


async def test_a_renewal_corrects_the_clock(database_url):
    async with watching(database_url) as watch:
        watch.store.ahead = LATER
        watch.pulse._renew(0)
        assert watch.clock.now() - host_clock() > LATER // 2


async def test_a_lease_that_another_worker_has_reaped_is_lost_at_once(database_url):
    async with watching(database_url) as watch:
        watch.pulse._renew(0)
        await watch.store.reap_workers("somebody", now=host_clock() + LATER)
        watch.pulse._renew(0)
        assert not watch.lease.holds()
        await until(lambda: watch.told == ["renewed", "lost"])


async def test_a_failed_renewal_and_the_next_successful_one_are_logged_once_each(database_url, caplog):
    async with watching(database_url) as watch:
        for is_away in (True, True, False, False):
            watch.store.is_away = is_away
            assert watch.pulse._renew(0) is not is_away
        assert caplog.messages == [
            "the lease can't be renewed, work goes on until it ends: the cable is out",
            "the lease could be renewed again",
        ]


async def test_a_body_that_blocks_is_reported_once_and_the_next_one_again(database_url, caplog):
    async with watching(database_url) as watch:
        for body in ("one", "one again"):
            watch.advancing = (body,)
            for _ in range(3):
                watch.pulse._watch_body(watch.clock.at)
                watch.clock.at += 1_000_000
        assert [message.partition(" has blocked")[0] for message in caplog.messages] == [
            "the body of 'one'",
            "the body of 'one again'",
        ]


async def test_the_pulse_keeps_asking_whether_the_loop_turns(database_url):
    async with watching(database_url) as watch:
        for at in (2_000_000, 4_000_000):
            watch.clock.at = at
            watch.pulse._ask_loop()
            assert watch.pulse._is_asked
            await asyncio.sleep(0)
            assert (watch.pulse._turned, watch.pulse._is_asked) == (at, False)


async def test_a_loop_that_does_not_answer_is_reported_once_and_the_next_time_again(database_url, caplog):
    async with watching(database_url) as watch:
        for _ in range(2):
            watch.clock.at += 2_000_000
            watch.pulse._ask_loop()
            for _ in range(10):
                watch.pulse._watch_loop()
            await asyncio.sleep(0)
            watch.pulse._watch_loop()
        assert [message.partition(",")[0] for message in caplog.messages] == [
            "this worker's loop has been blocked for 1s",
            "this worker's loop has been blocked for 1s",
        ]


async def test_a_loop_that_a_body_blocks_is_not_reported_beside_that_body(database_url, caplog):
    async with watching(database_url) as watch:
        watch.clock.at += 2_000_000
        watch.pulse._ask_loop()
        watch.advancing = ("one",)
        for _ in range(10):
            watch.pulse._watch_loop()
        assert caplog.messages == []


async def test_giving_up_the_wait_for_the_end_of_a_pulse_leaves_no_thread_behind(database_url):
    async with watching(database_url) as watch:
        before = {*threading.enumerate()}
        watch.pulse.start()
        joining = asyncio.create_task(watch.pulse.join())
        await asyncio.sleep(0)
        begun = {*threading.enumerate()} - before
        assert len(begun) == 2
        joining.cancel()
        await asyncio.wait([joining])
        watch.pulse.stop()
        await until(lambda: not any(thread.is_alive() for thread in begun))


class Littered(SqliteStore):
    """A store in which there is always more to remove, and which tells whether leases are ended meanwhile."""

    def __init__(self, url: str) -> None:
        super().__init__(url.removeprefix("sqlite:///"), url, "default")
        self.is_sweeping = False
        self.reaped = asyncio.Event()

    async def sweep(self, limit: int, *, events_before: Instant, now: Instant | None = None) -> Swept:
        self.is_sweeping = True
        return Swept((), 0, is_all=False)

    async def reap_workers(self, worker_id: str, *, now: Instant | None = None) -> list[str]:
        if self.is_sweeping:
            self.reaped.set()
        return await super().reap_workers(worker_id, now=now)


async def test_a_long_sweep_does_not_delay_the_takeover_of_a_dead_worker_s_runs(database_url, monkeypatch):
    monkeypatch.setattr(upkeep, "_SWEEP_EVERY", 1)
    monkeypatch.setattr(upkeep, "_REAP_EVERY", 0.01)
    store = Littered(database_url)
    async with AsyncClient(store), Worker(store, workflows=[body]):
        assert await asyncio.wait_for(store.reaped.wait(), PATIENCE)
