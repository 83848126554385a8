"""The lease: renewed while the worker lives, also while user code holds its loop up, and its clock set right."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from holdfast import AsyncClient, Worker, step, workflow
from holdfast.errors import DefinitionError
from holdfast.model import Instant
from holdfast.store import SqliteStore
from holdfast.store.sqlite.transactions import host_clock
from holdfast.worker.clock import SystemClock
from holdfast.worker.commits import GroupWriter
from holdfast.worker.lease import Lease
from tests.worker.samples import ready
from tests.worker.stage import LATER, PATIENCE, Stalling, stage, until

SHORT = "6s"
"""Short enough for tests to wait for a renewal, long enough for a machine that stalls for a while."""


async def test_renewals_are_seen_by_others(database_url):
    async with stage(database_url, ready, lease=SHORT) as on:
        (first,) = await on.store.list_workers()

        async def is_renewed() -> bool:
            (now,) = await on.store.list_workers()
            return now.renewed_at > first.renewed_at

        await until(is_renewed)
        (renewed,) = await on.store.list_workers()
        assert renewed.id == first.id
        assert renewed.lease_until > first.lease_until


async def test_a_renewal_that_fails_for_any_reason_is_tried_again(database_url, caplog):
    tried = 0

    class Broken(SqliteStore):
        def renew_lease(self, worker_id, lease, *, now=None):
            nonlocal tried
            tried += 1
            if tried == 1:
                raise LookupError("nobody expects this")
            return super().renew_lease(worker_id, lease, now=now)

    async with AsyncClient(Broken(database_url.removeprefix("sqlite:///"), database_url, "default")) as client:
        await client.store.open()
        async with Worker(client, workflows=[ready], lease=SHORT):
            await until(lambda: "the lease could be renewed again" in caplog.text)
        assert "nobody expects this" in caplog.text
        await client.store.close()


async def test_a_lease_is_renewed_while_a_step_blocks_the_loop(database_url):
    renewals: list[Instant | None] = []
    begun = threading.Event()

    class Watched(SqliteStore):
        def renew_lease(self, worker_id, lease, *, now=None):
            renewals.append(super().renew_lease(worker_id, lease, now=now))
            return renewals[-1]

    @step
    async def rude() -> int:
        begun.set()
        before = len(renewals)
        while len(renewals) == before:
            threading.Event().wait(0.01)
        return len(renewals)

    @workflow
    async def body() -> int:
        return await rude()

    store = Watched(database_url.removeprefix("sqlite:///"), database_url, "default")
    await store.open()
    async with Worker(store, workflows=[body], lease=SHORT), stage(database_url) as on:
        assert await (await on.client.start(body)).result(PATIENCE) >= 1
    await store.close()
    assert None not in renewals


async def test_a_claim_corrects_the_clock_as_a_renewal_does(database_url):
    ahead = [0]
    store = SqliteStore(
        database_url.removeprefix("sqlite:///"), database_url, "default", clock=lambda: host_clock() + ahead[0]
    )
    await store.open()
    clock = SystemClock()
    async with AsyncClient(store) as client, Worker(store, workflows=[ready], clock=clock, lease="1000d"):
        ahead[0] = LATER
        await (await client.start(ready)).result(PATIENCE)
        assert clock.now() - host_clock() > LATER // 2
    await store.close()


class Standing(SystemClock):
    """A machine's own clock, which the test sets."""

    def __init__(self) -> None:
        self.at = 0
        super().__init__()

    def monotonic(self) -> int:
        return self.at


class Written:
    """What a group writer has sent, and what became of it."""

    def __init__(self, lease: Lease) -> None:
        self.sent: list[str] = []
        self.told: list[object] = []
        self.writer: GroupWriter[str, None] = GroupWriter(self._write, lease)

    async def _write(self, items: Sequence[str]) -> list[bool]:
        self.sent += items
        return [True] * len(items)

    async def add(self, item: str) -> None:
        self.writer.add(item, lambda _, __, verdict: self.told.append(verdict), None)
        for _ in range(10):
            await asyncio.sleep(0)


def test_a_lease_lasts_from_when_its_renewal_was_asked_for():
    clock = Standing()
    lease = Lease(clock, 10)
    clock.at = 5
    lease.renewed(2)
    clock.at = 11
    assert lease.holds()
    clock.at = 12
    assert not lease.holds()


async def test_turns_wait_while_the_lease_has_lapsed_and_are_sent_when_it_is_renewed():
    clock = Standing()
    lease = Lease(clock, 10)
    written = Written(lease)
    await written.add("a turn")
    assert (written.sent, written.told) == ([], [])
    lease.renewed(0)
    written.writer.go_on()
    await written.writer.idle()
    assert (written.sent, written.told) == (["a turn"], [True])


async def test_a_turn_that_waits_when_the_lease_is_lost_is_refused_without_being_sent():
    lease = Lease(Standing(), 10)
    lease.renewed(0)
    lease.is_lost = True
    written = Written(lease)
    await written.add("a turn")
    assert (written.sent, written.told) == ([], [False])


class Renewed(SqliteStore):
    """A store that counts renewals."""

    def __init__(self, url: str) -> None:
        super().__init__(url.removeprefix("sqlite:///"), url, "default")
        self.renewals = 0

    def renew_lease(self, worker_id: str, lease: int, *, now: Instant | None = None) -> Instant | None:
        self.renewals += 1
        return super().renew_lease(worker_id, lease, now=now)


def hold_up(caplog: pytest.LogCaptureFixture, until_told: str) -> None:
    """Keep the loop from turning until somebody says so."""
    for _ in range(PATIENCE * 100):
        if until_told in caplog.text:
            return
        time.sleep(0.01)


async def test_the_lease_of_a_worker_whose_loop_does_not_turn_is_left_to_end(database_url, caplog):
    store, clock = Renewed(database_url), Stalling()
    await store.open()
    async with Worker(store, workflows=[ready], clock=clock, lease="1h", stall="5m"):
        clock.stalled = 30 * 60_000_000
        hold_up(caplog, "its lease is left to end")
        renewals = store.renewals
    await store.close()
    assert "the worker's loop has not turned" in caplog.text
    assert renewals == 0


def test_a_stall_limit_below_two_seconds_is_refused():
    with pytest.raises(DefinitionError, match=r"Worker\(stall='1s'\): expected at least 2s"):
        Worker("sqlite:///:memory:", workflows=[ready], stall="1s")
    Worker("sqlite:///:memory:", workflows=[ready], stall="2s")
