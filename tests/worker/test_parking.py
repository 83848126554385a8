"""Bodies of parked runs: kept while that is cheap, forgotten oldest first, never used once somebody else went on."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Retry, current_step, sleep, step, workflow
from holdfast.worker import memory, resting
from tests.worker.samples import nothing
from tests.worker.stage import PATIENCE, Stage, stage, until


class Lives:
    """A workflow that sleeps for long, twice, and says how often its body began."""

    def __init__(self) -> None:
        self.began: list[str] = []

    def workflow(self):
        @workflow
        async def body(name: str) -> str:
            self.began.append(name)
            await nothing()
            await sleep("30d")
            await nothing()
            await sleep("30d")
            return name

        return body


async def parked(on: Stage, run, times: int = 1) -> None:
    """Until the run is in the store alone, having slept so often."""

    async def is_so() -> bool:
        record = await on.record(run)
        kinds = await on.kinds(run)
        return record.owner is None and record.status == "waiting" and kinds.count("step_completed") == times

    await until(is_so)


async def test_a_parked_body_goes_on_without_replay_as_often_as_it_likes(database_url):
    lives = Lives()
    body = lives.workflow()
    async with stage(database_url, body) as on:
        run = await on.client.start(body, "one")
        await parked(on, run)
        on.skip("31d")
        await parked(on, run, 2)
        on.skip("31d")
        assert await run.result(PATIENCE) == "one"
    assert lives.began == ["one"]


async def test_the_oldest_bodies_are_forgotten_first(database_url):
    lives = Lives()
    body = lives.workflow()
    async with stage(database_url, body, keep_parked=2) as on:
        runs = []
        for name in ("a", "b", "c"):
            runs.append(await on.client.start(body, name))
            await parked(on, runs[-1])
        # None of the runs is due: all of them wake at once next time, and only "a" has to be rebuilt.
        lives.began.clear()
        on.skip("31d")
        for run in runs:
            await parked(on, run, 2)
        assert lives.began == ["a"]


@pytest.mark.parametrize("keep", [0, 1, 3])
async def test_every_run_goes_on_however_many_bodies_are_kept(database_url, keep):
    lives = Lives()
    body = lives.workflow()
    async with stage(database_url, body, keep_parked=keep) as on:
        runs = await on.client.start_many(body, [(str(n),) for n in range(5)])
        for times in (1, 2):
            for run in runs:
                await parked(on, run, times)
            on.skip("31d")
        assert [await run.result(PATIENCE) for run in runs] == [str(n) for n in range(5)]


async def test_a_parked_body_is_discarded_when_another_worker_went_on(database_url):
    lives = Lives()
    body = lives.workflow()
    gate = asyncio.Event()
    busy: list[int] = []

    @step
    async def hold() -> None:
        busy.append(1)
        await gate.wait()

    @workflow
    async def holds() -> None:
        await hold()

    async with stage(database_url) as on, on.worker(body, holds, concurrency=1):
        run = await on.client.start(body, "one")
        await parked(on, run)
        # The first worker is full, so that the second one must take the run when it wakes.
        await on.client.start(holds)
        await until(lambda: busy)
        async with on.worker(body):
            on.skip("31d")
            await parked(on, run, 2)
        assert lives.began == ["one", "one"]
        gate.set()
        on.skip("31d")
        # The first worker's body is one step behind: it is put away, and a third body is rebuilt.
        assert await run.result(PATIENCE) == "one"
        assert lives.began == ["one", "one", "one"]


async def test_a_parked_body_that_nobody_advanced_is_used_after_another_worker_came_and_went(database_url):
    lives = Lives()
    body = lives.workflow()
    async with stage(database_url, body) as on:
        run = await on.client.start(body, "one")
        await parked(on, run)
        async with on.worker(body):
            pass
        on.skip("31d")
        await parked(on, run, 2)
    assert lives.began == ["one"]


async def test_a_cancel_reaches_a_parked_body_without_replay(database_url):
    seen: list[str] = []

    @workflow
    async def body() -> None:
        seen.append("began")
        try:
            await nothing()
            await sleep("30d")
        finally:
            seen.append("cleaned up")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await parked(on, run)
        await run.cancel()
        await on.until_status(run, "cancelled")
    assert seen == ["began", "cleaned up"]


async def test_a_def_body_is_parked_and_goes_on_without_replay(database_url):
    began: list[int] = []

    @workflow
    def body() -> str:
        began.append(1)
        sleep("30d")
        return "woke"

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        on.skip("31d")
        assert await run.result(PATIENCE) == "woke"
    assert began == [1]


async def test_parked_bodies_are_put_away_with_their_worker(database_url):
    seen: list[str] = []

    @workflow
    async def body() -> None:
        try:
            await nothing()
            await sleep("30d")
        finally:
            seen.append("left")

    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body):
            await parked(on, run)
        assert seen == ["left"]
        assert (await on.record(run)).status == "waiting"


async def test_a_long_wait_leaves_its_worker_and_a_short_one_stays(database_url):
    @workflow
    async def waits(duration: str) -> None:
        await sleep(duration)

    async with stage(database_url, waits) as on:
        long = await on.client.start(waits, "30d")
        short = await on.client.start(waits, "9s")
        assert (await on.until_waiting(short)).owner is not None
        await on.until_waiting(long)

        async def is_parked() -> bool:
            return (await on.record(long)).owner is None

        await until(is_parked)


async def test_a_run_whose_step_is_tried_again_much_later_leaves_its_worker(database_url):
    @step(retry=Retry(attempts=2, initial="1h", jitter=0))
    async def fails_first() -> None:
        if current_step().attempt == 1:
            raise OSError("not yet")

    @workflow
    async def trying() -> None:
        await fails_first()

    async with stage(database_url, trying) as on:
        run = await on.client.start(trying)
        await on.until_waiting(run)

        async def is_parked() -> bool:
            return (await on.record(run)).owner is None

        await until(is_parked)
        on.skip("1h")
        await run.result(PATIENCE)


async def test_memory_is_looked_at_also_while_no_more_bodies_are_kept_than_before(database_url, monkeypatch):
    looks: list[int] = []
    monkeypatch.setattr(resting, "_LOOK_EVERY", 4)
    monkeypatch.setattr(resting, "is_tight", lambda: bool(looks.append(1)))
    body = Lives().workflow()
    async with stage(database_url, body, keep_parked=2) as on:
        for run in [await on.client.start(body, str(n)) for n in range(8)]:
            await parked(on, run)
    assert len(looks) == 2


def test_a_container_s_own_limit_counts_where_it_is_less_than_the_machine_has(tmp_path):
    limit, none = tmp_path / "memory.max", tmp_path / "missing"
    limit.write_text("4096\n")
    assert memory.granted((none, limit)) == 4096
    limit.write_text("max\n")
    assert memory.granted((limit, none)) > 4096
