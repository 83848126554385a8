"""Which runs a worker takes, how many at once, in which order, and what each of them costs."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from holdfast import (
    AsyncClient,
    BadArguments,
    DefinitionError,
    DuplicateWorkflow,
    PayloadTooLarge,
    Retry,
    UnknownWorkflow,
    Worker,
    current_run,
    sleep,
    step,
    workflow,
)
from holdfast.model import Lane, microseconds
from holdfast.store import SqliteStore
from tests.worker.stage import stage, until

PATIENCE = "20s"


@step
async def add(a: int, b: int) -> int:
    return a + b


@workflow
async def chain(n: int) -> int:
    total = 0
    for k in range(n):
        total = await add(total, k)
    return total


@workflow
def def_chain(n: int) -> int:
    total = 0
    for k in range(n):
        total = add(total, k)  # type: ignore[assignment]
    return total


# -- how many at once --------------------------------------------------------------------------------------------------


async def test_concurrency_bounds_the_runs_with_a_step_in_flight(database_url):
    busy, most, go_on = 0, 0, asyncio.Event()

    @step
    async def work() -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        if busy == 2:
            go_on.set()
        await go_on.wait()
        await asyncio.sleep(0.005)
        busy -= 1

    @workflow
    async def body() -> None:
        await work()

    async with stage(database_url, body, concurrency=2) as on:
        for run in await on.client.start_many(body, [()] * 10):
            await run.result(PATIENCE)
    assert most == 2


async def test_a_run_that_waits_for_a_retry_takes_no_room(database_url):
    attempts: list[int] = []

    @step(retry=Retry(attempts=2, initial="1h", jitter=0))
    async def flaky() -> None:
        attempts.append(1)
        raise ValueError

    @workflow
    async def retrying() -> None:
        await flaky()

    async with stage(database_url, retrying, chain, concurrency=1) as on:
        run = await on.client.start(retrying)
        await until(lambda: attempts)
        assert await (await on.client.start(chain, 2)).result(PATIENCE) == 1
        assert not (await on.record(run)).status.is_final


async def test_two_workers_share_the_work(database_url):
    """Each takes one run, and each run's step waits for the other's."""
    began: list[int] = []

    @step
    async def meet() -> None:
        began.append(1)
        await until(lambda: len(began) == 2)

    @workflow
    async def body() -> None:
        await meet()

    async with stage(database_url) as on, on.worker(body, concurrency=1), on.worker(body, concurrency=1):
        for run in await on.client.start_many(body, [(), ()]):
            await run.result(PATIENCE)


async def test_two_workers_never_execute_a_step_twice(database_url):
    effects: list[str] = []

    @step
    async def mark() -> None:
        effects.append(current_run().id)
        await asyncio.sleep(0)

    @workflow
    async def body() -> None:
        await mark()

    async with stage(database_url) as on, on.worker(body), on.worker(body):
        for run in await on.client.start_many(body, [()] * 100):
            await run.result(PATIENCE)
    assert len(effects) == len(set(effects)) == 100


# -- in which order ----------------------------------------------------------------------------------------------------


@pytest.fixture
def marked():
    """A workflow that says when it is its turn."""
    order: list[str] = []

    @step
    async def mark(name: str) -> None:
        order.append(name)

    @workflow
    async def body(name: str) -> None:
        await mark(name)

    return body, order


async def test_a_larger_priority_goes_first(database_url, marked):
    body, order = marked
    async with stage(database_url) as on:
        runs = [await on.client.start(body, str(n), priority=n) for n in (0, 5, 9, 3)]
        async with on.worker(body, concurrency=1):
            for run in runs:
                await run.result(PATIENCE)
    assert order == ["9", "5", "3", "0"]


async def test_within_a_priority_the_oldest_goes_first(database_url, marked):
    body, order = marked
    async with stage(database_url) as on:
        runs = [await on.client.start(body, str(n)) for n in range(5)]
        async with on.worker(body, concurrency=1):
            for run in runs:
                await run.result(PATIENCE)
    assert order == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("priority", [-1, 10, "high"])
async def test_a_priority_out_of_range_is_refused_and_changes_nothing(database_url, priority, marked):
    body, _ = marked
    async with stage(database_url) as on:
        with pytest.raises(DefinitionError, match="priority"):
            await on.client.start(body, "x", priority=priority)
        assert [run async for run in on.client.runs()] == []


async def test_a_delayed_run_begins_when_it_is_due(database_url, marked):
    body, order = marked
    async with stage(database_url, body) as on:
        run = await on.client.start(body, "late", delay="1h")
        other = await on.client.start(body, "early")
        await other.result(PATIENCE)
        assert order == ["early"]
        on.skip("61m")
        await run.result(PATIENCE)
    assert order == ["early", "late"]


# -- which -------------------------------------------------------------------------------------------------------------


async def test_a_worker_leaves_alone_what_it_does_not_know(database_url):
    @workflow
    async def unknown() -> str:
        return "known at last"

    async with stage(database_url, chain) as on:
        run = await on.client.start(unknown)
        await (await on.client.start(chain, 1)).result(PATIENCE)
        assert (await on.record(run)).status == "pending"
        async with on.worker(unknown):
            assert await run.result(PATIENCE) == "known at last"


async def test_a_worker_leaves_other_versions_alone(database_url):
    @workflow(name="order", version="1")
    async def first() -> str:
        return "1"

    @workflow(name="order", version="2")
    async def second() -> str:
        return "2"

    async with stage(database_url) as on:
        run = await on.client.start(first)
        async with on.worker(second):
            assert await (await on.client.start(second)).result(PATIENCE) == "2"
            assert (await on.record(run)).status == "pending"
        async with on.worker(first):
            assert await run.result(PATIENCE) == "1"


async def test_a_worker_serves_only_its_queues(database_url):
    @workflow
    async def body() -> str:
        return "done"

    async with stage(database_url, body, queues=["slow"]) as on:
        run = await on.client.start(body)
        await (await on.client.start(body, queue="slow")).result(PATIENCE)
        assert (await on.record(run)).status == "pending"


async def test_tags_are_seen_in_the_body(database_url):
    @workflow
    async def body() -> str:
        return current_run().tags["customer"]

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body, tags={"customer": "c-1"})).result(PATIENCE) == "c-1"


async def test_a_duplicate_workflow_name_is_refused():
    @workflow(name="order")
    async def one() -> None: ...

    @workflow(name="order")
    async def two() -> None: ...

    with pytest.raises(DuplicateWorkflow, match="order"):
        Worker("sqlite:///:memory:", workflows=[one, two])


async def test_the_same_workflow_twice_is_no_duplicate():
    Worker("sqlite:///:memory:", workflows=[chain, chain, chain.options(key="x")])


async def test_wrong_arguments_are_refused_at_start_and_change_nothing(database_url):
    async with stage(database_url) as on:
        with pytest.raises(BadArguments, match="n"):
            await on.client.start(chain, "three")  # type: ignore[arg-type]
        assert [run async for run in on.client.runs()] == []


async def test_too_many_arguments_are_refused_at_start(database_url):
    async with stage(database_url) as on:
        with pytest.raises(BadArguments):
            await on.client.start(chain, 1, 2)  # type: ignore[call-arg]
        assert [run async for run in on.client.runs()] == []


async def test_oversized_arguments_are_refused_at_start_and_change_nothing(database_url):
    @workflow
    async def body(text: str) -> None: ...

    async with stage(database_url, client={"max_payload": 1_000}) as on:
        with pytest.raises(PayloadTooLarge):
            await on.client.start(body, "x" * 2_000)
        assert [run async for run in on.client.runs()] == []


async def test_an_unknown_name_is_refused_at_start(database_url):
    async with stage(database_url) as on:
        with pytest.raises(UnknownWorkflow, match="no_such"):
            await on.client.start("no_such")


# -- what it costs -----------------------------------------------------------------------------------------------------


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


# -- bad bodies --------------------------------------------------------------------------------------------------------


async def test_a_body_that_blocks_is_reported_with_its_line(database_url, caplog):
    @workflow
    async def body() -> None:
        time.sleep(0.4)  # the line

    caplog.set_level(logging.WARNING)
    async with stage(database_url, body, blocked_after="50ms") as on:
        await (await on.client.start(body)).result(PATIENCE)
        await until(lambda: "time.sleep(0.4)" in caplog.text)
    assert "body" in caplog.text


async def test_a_def_body_that_blocks_is_reported_with_its_line(database_url, caplog):
    @workflow
    def body() -> None:
        time.sleep(0.4)  # the line

    caplog.set_level(logging.WARNING)
    async with stage(database_url, body, blocked_after="50ms") as on:
        await (await on.client.start(body)).result(PATIENCE)
        await until(lambda: "time.sleep(0.4)" in caplog.text)


async def test_io_in_a_body_blocks_the_run_and_leaves_it_intact(database_url):
    @workflow(name="order")
    async def broken() -> int:
        n = await add(1, 1)
        await asyncio.to_thread(print, n)
        return n

    @workflow(name="order")
    async def fixed() -> int:
        return await add(1, 1)

    async with stage(database_url) as on:
        run = await on.client.start(broken)
        async with on.worker(broken):
            assert "move this into a step" in await on.until_blocked(run)
            assert (await on.record(run)).status == "waiting"
        async with on.worker(fixed):
            assert await run.result(PATIENCE) == 2


async def test_changed_code_blocks_the_run_and_fixed_code_goes_on(database_url):
    @workflow(name="order")
    async def before() -> int:
        n = await add(1, 1)
        await sleep("1h")
        return n

    @workflow(name="order")
    async def changed() -> int:
        n = await add(2, 2)
        await sleep("1h")
        return n

    async with stage(database_url) as on:
        run = await on.client.start(before)
        async with on.worker(before):
            await on.until_waiting(run)
        on.skip("2h")
        async with on.worker(changed):
            assert "does not match its journal" in await on.until_blocked(run)
            assert (await on.record(run)).status == "waiting"
        async with on.worker(before):
            assert await run.result(PATIENCE) == 2


async def test_a_blocked_run_is_tried_again_by_itself(database_url):
    """With backoff: nobody has to start a worker for it."""
    lives: list[int] = []

    @workflow
    async def body() -> str:
        lives.append(1)
        if len(lives) == 1:
            add.start(1, 1)
        return "done"

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_blocked(run)

        async def is_ended() -> bool:
            on.skip("1h")
            return (await on.record(run)).status.is_final

        await until(is_ended)
        assert await run.result(PATIENCE) == "done"


async def test_a_blocked_run_counts_neither_as_an_error_nor_as_a_crash(database_url):
    @workflow(max_crashes=1)
    async def body() -> None:
        add.start(1, 1)

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        for _ in range(5):
            await on.until_blocked(run)
            on.skip("1d")
            await asyncio.sleep(0.02)
        record = await on.record(run)
    assert (record.status.is_final, record.crashes) == (False, 0)


async def test_an_input_that_no_longer_fits_blocks_the_run(database_url):
    @workflow(name="order")
    async def before(n: int) -> None: ...

    @workflow(name="order")
    async def after(n: dict[str, int]) -> None: ...

    async with stage(database_url) as on:
        run = await on.client.start(before, 1)
        async with on.worker(after):
            await on.until_blocked(run)
            assert (await on.record(run)).status == "waiting"
        async with on.worker(before):
            assert await run.wait(PATIENCE) == "completed"
