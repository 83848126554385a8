"""The lease: renewed while the worker lives, also while user code holds its loop up, and its clock set right."""

from __future__ import annotations

import threading

from holdfast import AsyncClient, Worker, step, workflow
from holdfast.model import Instant
from holdfast.store import SqliteStore
from holdfast.store.sqlite.transactions import host_clock
from holdfast.worker.clock import SystemClock
from tests.worker.samples import ready
from tests.worker.stage import LATER, PATIENCE, stage, until

SHORT = "6s"
"""Renewed soon enough to be waited for, and long enough for a machine that stands still for a while."""


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


async def test_a_claim_sets_the_clock_right_as_a_renewal_does(database_url):
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
