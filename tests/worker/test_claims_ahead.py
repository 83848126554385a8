"""Runs that a worker claims before it has room for them: they begin when it has, or go back untouched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from holdfast import Worker, step, wait_for_signal, workflow
from holdfast.client import AsyncRun
from holdfast.errors import StoreAway
from holdfast.worker import upkeep
from holdfast.worker.ahead import Ahead
from tests.worker.stage import PATIENCE, SkippingStore, Stage, StandingClock, until

CROWD = 10
MOMENT = 50_000
RUNS = 4 * CROWD


class Freed(StandingClock):
    """A clock whose monotonic time only the test moves, too: places are freed as fast as the test says."""

    passed = 0

    def monotonic(self) -> int:
        return self.passed


class Remote(SkippingStore):
    """A SQLite store that claims to be on a remote server."""

    is_remote = True
    loses_answers = 0
    meanwhile: Callable[[], Awaitable[None]] | None = None
    """What happens while a claim is under way."""

    async def claim_runs(self, *args, **options):
        claimed = await super().claim_runs(*args, **options)
        if self.loses_answers and claimed:
            self.loses_answers -= 1
            raise StoreAway("the answer was lost")
        if self.meanwhile is not None:
            await self.meanwhile()
        return claimed


class Crowd(Stage):
    """Forty runs of a step that waits for its own gate, and a worker with room for ten."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.clock = Freed()
        self.store = Remote(url, self.clock)
        self.client = type(self.client)(self.store)
        self.gates: dict[int, asyncio.Event] = {number: asyncio.Event() for number in range(RUNS)}
        self.begun: list[int] = []
        self.flying: set[int] = set()
        self.most = 0

        @step
        async def work(number: int) -> int:
            self.begun.append(number)
            self.flying.add(number)
            self.most = max(self.most, len(self.flying))
            await self.gates[number].wait()
            self.flying.discard(number)
            return number

        @workflow
        async def body(number: int) -> int:
            return await work(number)

        @workflow
        async def told(number: int) -> int:
            # Not for long, so that it stays with its worker.
            return await work(await wait_for_signal("go", type=int, timeout="9s"))

        self.body, self.told = body, told

    async def end(self, *numbers: int) -> None:
        """Let these steps end; others take their places."""
        before = len(self.begun)
        for number in numbers:
            self.gates[number].set()
        await until(lambda: len(self.begun) == before + len(numbers))

    async def claim_ahead(self, worker: Worker) -> None:
        """Free places so fast that the worker claims ten runs more."""
        await until(lambda: len(self.begun) == CROWD)
        await self.end(*range(CROWD))
        assert len(worker._session.ahead) == 0
        self.clock.passed += MOMENT
        await self.end(CROWD)
        await until(lambda: len(worker._session.ahead) == CROWD)


@asynccontextmanager
async def crowd(url: str) -> AsyncIterator[Crowd]:
    made = Crowd(url)
    await made.store.open()
    async with made.client:
        yield made
    await made.store.close()


async def owned(on: Crowd, runs: list[AsyncRun[int]]) -> int:
    """How many of the runs have an owner."""
    return sum([(await on.record(run)).owner is not None for run in runs])


async def is_owned(on: Crowd, runs: list[AsyncRun[int]], count: int) -> bool:
    return await owned(on, runs) == count


async def test_runs_claimed_ahead_begin_as_places_are_freed_and_never_more_than_those(database_url):
    async with crowd(database_url) as on:
        runs = await on.client.start_many(on.body, [(number,) for number in range(RUNS)])
        async with on.worker(on.body, concurrency=CROWD) as worker:
            await on.claim_ahead(worker)
            assert on.begun == list(range(2 * CROWD + 1))
            assert await owned(on, runs) == 2 * CROWD
            await on.end(CROWD + 1)
            assert len(on.flying) == CROWD
            for number in range(RUNS):
                on.gates[number].set()
            assert [await run.result(PATIENCE) for run in runs] == list(range(RUNS))
    assert on.begun == list(range(RUNS))
    assert on.most == CROWD


async def test_a_run_claimed_ahead_for_long_is_handed_back_untouched_and_taken_by_another_worker(database_url):
    async with crowd(database_url) as on:
        runs = await on.client.start_many(on.body, [(number,) for number in range(RUNS)])
        async with on.worker(on.body, concurrency=CROWD) as worker:
            await on.claim_ahead(worker)
            ahead = list(worker._session.ahead.ids)
            on.skip("0.1s")
            await until(lambda: len(worker._session.ahead) == 0)
            await until(lambda: is_owned(on, runs, CROWD))
            for run in runs:
                if run.id in ahead:
                    record = await on.record(run)
                    assert (record.status, record.started_at, record.due_at) == ("pending", None, record.created_at)
            for number in range(2 * CROWD + 1, RUNS):
                on.gates[number].set()
            async with on.worker(on.body, concurrency=CROWD):
                for run in runs[2 * CROWD + 1 :]:
                    await run.result(PATIENCE)
            assert set(ahead) <= {run.id for run in runs[2 * CROWD + 1 :]}
            for number in range(RUNS):
                on.gates[number].set()
            for run in runs:
                await run.result(PATIENCE)
                assert "claimed" not in await on.kinds(run)
    assert sorted(on.begun) == list(range(RUNS))


async def test_a_worker_that_stops_hands_back_what_it_has_claimed_ahead(database_url):
    async with crowd(database_url) as on:
        runs = await on.client.start_many(on.body, [(number,) for number in range(RUNS)])
        async with on.worker(on.body, concurrency=CROWD, grace=0) as worker:
            await on.claim_ahead(worker)
        assert await owned(on, runs) == 0
        begun = len(on.begun)
        for number in range(RUNS):
            on.gates[number].set()
        async with on.worker(on.body, concurrency=CROWD):
            for run in runs:
                await run.result(PATIENCE)
                assert "claimed" not in await on.kinds(run), "nobody died"
    assert sorted(on.begun[begun:]) == list(range(CROWD + 1, RUNS))


async def test_a_claim_that_is_under_way_when_the_worker_stops_leaves_its_runs_as_they_were(database_url):
    async with crowd(database_url) as on:
        asked, answer = asyncio.Event(), asyncio.Event()

        async def wait() -> None:
            asked.set()
            await answer.wait()

        on.store.meanwhile = wait
        runs = await on.client.start_many(on.body, [(number,) for number in range(CROWD)])
        worker = on.worker(on.body, concurrency=CROWD)
        async with worker:
            await asked.wait()
            worker.stop()
            answer.set()
        for run in runs:
            record = await on.record(run)
            assert (record.status, record.started_at, record.owner) == ("pending", None, None)
    assert on.begun == []


async def test_a_message_for_a_run_claimed_ahead_is_there_when_it_begins(database_url, monkeypatch):
    # The worker does not look by itself: it only goes by what it knows it has missed.
    monkeypatch.setattr(upkeep, "_REAP_EVERY", 3600.0)
    async with crowd(database_url) as on:
        first = 2 * CROWD + 1
        await on.client.start_many(on.body, [(number,) for number in range(first)])
        runs = await on.client.start_many(on.told, [(number,) for number in range(first, RUNS)])
        async with on.worker(on.body, on.told, concurrency=CROWD) as worker:
            await on.claim_ahead(worker)
            ahead = worker._session.ahead
            run = next(run for run in runs if run.id == ahead.ids[0])
            on.gates[first].set()
            await run.signal("go", first)
            await until(lambda: any(one.inbox for one in ahead._runs))
            on.gates[CROWD + 1].set()
            assert await run.result(PATIENCE) == first
            assert worker._session.runs.held


async def test_a_backlog_keeps_no_message_from_a_run_that_waits(database_url):
    async with crowd(database_url) as on:
        waiting = await on.client.start(on.told, 0)
        last = RUNS - 1
        async with on.worker(on.body, on.told, concurrency=CROWD) as worker:
            await on.until_waiting(waiting)
            await on.client.start_many(on.body, [(number,) for number in range(last)])
            await on.claim_ahead(worker)
            runs = worker._session.runs

            async def room_is_made() -> None:
                """There is room whenever a claim has come to its end."""
                for number in on.flying:
                    on.gates[number].set()
                await until(lambda: runs.busy < CROWD)

            on.store.meanwhile = room_is_made
            await waiting.signal("go", last)
            on.gates[last].set()
            on.gates[CROWD + 1].set()
            assert await waiting.result(PATIENCE) == last
            assert on.begun[-1] != last or len(on.begun) < RUNS, "it came after all the others"


async def test_a_run_claimed_ahead_that_is_paused_begins_when_it_is_resumed(database_url):
    async with crowd(database_url) as on:
        runs = await on.client.start_many(on.body, [(number,) for number in range(RUNS)])
        async with on.worker(on.body, concurrency=CROWD) as worker:
            await on.claim_ahead(worker)
            ahead = worker._session.ahead
            [run] = [run for run in runs if run.id == ahead.ids[0]]
            await on.client.pause(run.id)
            await until(lambda: any(one.is_paused for one in ahead._runs))
            for number in range(RUNS):
                on.gates[number].set()
            for other in runs:
                if other is not run:
                    await other.result(PATIENCE)
            record = await on.record(run)
            assert (record.status, record.started_at, record.paused) == ("pending", None, True)
            await on.client.resume(run.id)
            assert await run.result(PATIENCE) == 2 * CROWD + 1
    assert sorted(on.begun) == list(range(RUNS))


async def test_a_lost_answer_to_a_claim_gives_back_no_run_that_was_claimed_ahead(database_url):
    async with crowd(database_url) as on:
        runs = await on.client.start_many(on.body, [(number,) for number in range(RUNS)])
        async with on.worker(on.body, concurrency=CROWD) as worker:
            await on.claim_ahead(worker)
            on.store.loses_answers = 1
            # When few enough runs are left ahead for a claim to be worth it, the worker claims again.
            await on.end(*range(CROWD + 1, CROWD + 7))
            await until(lambda: on.store.loses_answers == 0)
            assert len(worker._session.ahead) == CROWD - 6
            for number in range(RUNS):
                on.gates[number].set()
            assert [await run.result(PATIENCE) for run in runs] == list(range(RUNS))
    assert sorted(on.begun) == list(range(RUNS)), "none was given back and claimed again beside itself"


@pytest.mark.parametrize(("concurrency", "is_remote"), [(9, True), (201, True), (CROWD, False)])
async def test_no_run_is_claimed_ahead_on_a_local_store_or_with_few_places(database_url, concurrency, is_remote):
    async with crowd(database_url) as on:
        on.store.is_remote = is_remote
        worker = on.worker(on.body, concurrency=concurrency)
        async with worker:
            ahead = worker._session.ahead
            for _ in range(1000):
                ahead.freed()
            assert ahead.wanted(on.clock.passed + MOMENT) == 0


def test_the_number_of_runs_to_claim_ahead_is_that_of_the_places_freed_in_a_moment_as_lately():
    ahead = Ahead(1000, 100)
    assert ahead.wanted(0) == 0, "nothing is known yet"
    for _ in range(40):
        ahead.freed()
    assert ahead.wanted(249) == 0, "it is too early to tell"
    assert ahead.wanted(2000) == 20
    assert ahead.wanted(2249) == 20, "it holds for the next quarter of a moment"
    assert ahead.wanted(2250) == 0, "nothing was freed in that one"
    for _ in range(10):
        ahead.freed()
    assert ahead.wanted(2500) == 40, "ten in a quarter"
    for _ in range(1000):
        ahead.freed()
    assert ahead.wanted(2750) == 100, "no more than there are places"


def test_no_claim_is_made_for_only_a_few_runs_ahead():
    ahead = Ahead(1000, 100)
    for _ in range(100):
        ahead.freed()
    assert ahead.wanted(1000) == 100
    ahead.add([object()] * 60)
    assert ahead.wanted(1100) == 0
    assert len(ahead.take(20)) == 20
    assert ahead.wanted(1100) == 60
    assert len(ahead.clear()) == 40
    assert ahead.wanted(1100) == 0, "it was wrong"


def test_no_run_is_claimed_ahead_for_a_quarter_of_a_second_after_a_claim_that_other_workers_won():
    ahead = Ahead(1000, 100)
    for _ in range(100):
        ahead.freed()
    assert ahead.wanted(1000) == 100
    ahead.rest(1000)
    for now in (1001, 100_000, 250_999):
        ahead.freed()
        assert ahead.wanted(now) == 0
    for _ in range(50):
        ahead.freed()
    assert ahead.wanted(252_000) > 0
