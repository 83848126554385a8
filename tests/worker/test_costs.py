"""What runs cost: n steps in sequence are n + 1 commits, and what happens at once shares them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast import AsyncClient, Worker, step, wait_for_signal, workflow
from holdfast.model import Lane, Message, microseconds
from holdfast.store import SqliteStore
from tests.worker.samples import add, chain, ready
from tests.worker.stage import PATIENCE, SkippingStore, stage, until


@workflow
def def_chain(n: int) -> int:
    total = 0
    for k in range(n):
        total = add(total, k)  # type: ignore[assignment]
    return total


async def commits_of(store: SqliteStore, client: AsyncClient, body, n: int) -> int:
    before = store.stats.commits
    await (await client.start(body, n)).result(PATIENCE)
    return store.stats.commits - before


@pytest.mark.parametrize("body", [chain, def_chain], ids=["async", "def"])
async def test_n_steps_in_sequence_cost_n_and_one_commits(database_url, body):
    """The start and one a step; the claim, which a batch shares, is one more."""
    async with stage(database_url, body) as on:
        await (await on.client.start(body, 1)).result(PATIENCE)
        for n in (1, 5, 20):
            assert await commits_of(on.store, on.client, body, n) == 1 + 1 + n


async def test_n_steps_in_sequence_are_n_rows(database_url):
    async with stage(database_url, chain) as on:
        run = await on.client.start(chain, 7)
        await run.result(PATIENCE)
        assert len(await on.store.read_journal(run.id)) == 7


async def test_steps_at_once_share_commits(database_url):
    @workflow
    async def wide(n: int) -> int:
        return sum(await asyncio.gather(*(add(k, 0) for k in range(n))))

    async with stage(database_url, wide) as on:
        await (await on.client.start(wide, 1)).result(PATIENCE)
        assert await commits_of(on.store, on.client, wide, 50) < 25


LARGE = "x" * 4_000_000


async def test_large_results_that_come_at_once_are_taken_in_by_turns_that_a_row_can_hold(database_url):
    begun, go_on = [], asyncio.Event()

    @step
    async def large(n: int) -> str:
        begun.append(n)
        await go_on.wait()
        return LARGE

    @workflow
    async def wide() -> int:
        return sum(map(len, await asyncio.gather(*(large(n) for n in range(8)))))

    async with stage(database_url, wide) as on:
        run = await on.client.start(wide)
        await until(lambda: len(begun) == 8)
        go_on.set()
        assert await run.result(PATIENCE) == 8 * len(LARGE)
        assert max(len(row.data) for row in await on.store.read_journal(run.id)) < 5 * len(LARGE)
    assert len(begun) == 8


async def test_large_messages_that_come_at_once_are_taken_in_by_turns_that_a_row_can_hold(database_url):
    @workflow
    async def listening() -> list[int]:
        return [len(await wait_for_signal(name, type=str)) for name in "abcdefgh"]

    async with stage(database_url) as on:
        run = await on.client.start(listening)
        for number, name in enumerate("abcdefgh"):
            await run.signal(name, LARGE[number:])
        async with on.worker(listening):
            assert await run.result(PATIENCE) == [len(LARGE) - number for number in range(8)]
        assert max(len(row.data) for row in await on.store.read_journal(run.id)) < 5 * len(LARGE)


async def test_many_runs_at_once_share_commits(database_url):
    async with stage(database_url, chain) as on:
        before = on.store.stats.commits
        runs = await on.client.start_many(chain, [(4,)] * 100)
        for run in runs:
            await run.result(PATIENCE)
        assert on.store.stats.commits - before < 200


async def test_the_statements_of_a_claim_do_not_grow_with_its_size(database_url):
    async with stage(database_url) as on:
        lanes = [Lane("chain", "1")]
        await on.store.register_worker("hands", lanes, microseconds("1h"))
        costs = []
        for size in (1, 100):
            await on.client.start_many(chain, [(1,)] * size)
            before = on.store.stats.statements
            assert len(await on.store.claim_runs("hands", lanes, 200)) == size
            costs.append(on.store.stats.statements - before)
    assert costs[0] == costs[1]


async def test_messages_that_nobody_takes_are_read_once(database_url):
    read: list[int] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    class Counting(SkippingStore):
        async def read_inbox(self, worker_id: str, *, known: Sequence[int] = ()) -> list[Message]:
            found = await super().read_inbox(worker_id, known=known)
            read.extend(message.id for message in found)
            return found

    @step
    async def act() -> None:
        begun.set()
        await go_on.wait()

    @workflow
    async def body() -> list[object]:
        await act()
        return [await wait_for_signal("go") for _ in range(20)]

    async with stage(database_url) as on:
        store = Counting(database_url, on.clock)
        await store.open()
        run = await on.client.start(body)
        async with Worker(store, workflows=[body, ready], clock=on.clock, lease="1000d"):
            # A message sent before would come with the claim.
            await begun.wait()
            for number in range(20):
                await run.signal("go", number)
                # Each other run brings at least one look, and another at its end.
                await (await on.client.start(ready)).result(PATIENCE)
            await until(lambda: len(read) >= 20)
            go_on.set()
            assert await run.result(PATIENCE) == list(range(20))
        await store.close()
    assert len(read) == len(set(read)) == 20
