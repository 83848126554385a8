"""What comes with an old time is found by whoever is told of it, though claims and looks begin at a floor.

Walks from the beginning would find it by themselves, sooner or later: here they never come again.
"""

import asyncio
import time

import asyncpg
import pytest

from holdfast.model import SECOND, NewWait, Out, RowChange, RowWrite, RunStatus
from holdfast.store import open_store
from holdfast.store.postgres import floors
from holdfast.testing.contract.stage import LANE, LEASE, PATIENCE, Stage, new_run, turn


@pytest.fixture(autouse=True)
def no_whole_walks(monkeypatch):
    monkeypatch.setattr(floors, "_OFTEN", 10**9)


@pytest.fixture
def on_stage(postgres):
    url = postgres.create_database()
    return url, Stage(lambda: open_store(url))


async def listening(store, heard):
    """From here on it hears of others. That begins with a wake-up of its own, which would be taken for theirs."""
    store.subscribe(heard.set)
    await asyncio.wait_for(heard.wait(), PATIENCE)
    heard.clear()


async def begun(stage, heard, *, is_parked):
    """A run that began a minute ago and waits for an event; "one" has looked for work since."""
    store = stage.store
    await store.open()
    await listening(store, heard)
    a_minute_ago = round(time.time() * SECOND) - 60 * SECOND
    await store.register_worker("one", [LANE], LEASE)
    await stage.start_one(now=a_minute_ago)
    [run] = await store.claim_runs("one", [LANE], 1)
    waits = Out(waits=(NewWait(number=1, kind="event", name="paid"),))
    parked = RowChange(status=RunStatus.WAITING, release=is_parked)
    assert await store.commit_turns([turn(run, out=waits, change=parked)]) == [True]
    await looked(store, is_parked)
    return run, a_minute_ago


async def looked(store, is_parked):
    """Whether there is something for the run."""
    if is_parked:
        return await store.next_due([LANE]) is not None
    return bool(await store.read_inbox("one"))


@pytest.mark.parametrize("is_parked", [True, False], ids=["parked", "held"])
@pytest.mark.parametrize("is_elsewhere", [True, False], ids=["matched elsewhere", "matched here"])
async def test_an_event_that_was_published_long_before_it_met_its_wait_is_found_at_once(
    on_stage, is_parked, is_elsewhere
):
    _, stage = on_stage
    heard = asyncio.Event()
    try:
        _, a_minute_ago = await begun(stage, heard, is_parked=is_parked)
        matching = await stage.open() if is_elsewhere else stage.store
        await matching.publish_event("paid", b"1", now=a_minute_ago + SECOND)
        await looked(stage.store, is_parked)
        found = await matching.read_unmatched(10)
        heard.clear()
        assert await matching.deliver_event(found.events[0], found.waits) == 1
        await asyncio.wait_for(heard.wait(), PATIENCE)
        heard.clear()
        while is_elsewhere and not await looked(stage.store, is_parked):
            # Of several notifications the first may be that of the publish. Cleared before each look: one that comes
            # during it counts.
            await asyncio.wait_for(heard.wait(), PATIENCE)
            heard.clear()
        assert await looked(stage.store, is_parked)
    finally:
        await stage.close()


@pytest.mark.parametrize("when", ["due_at", "deadline_at"])
@pytest.mark.parametrize("is_guest", [True, False], ids=["in a caller's transaction", "by itself"])
async def test_a_start_whose_time_has_passed_long_ago_is_found_at_once(on_stage, when, is_guest):
    url, stage = on_stage
    heard = asyncio.Event()
    connection = await asyncpg.connect(url)
    try:
        _, a_minute_ago = await begun(stage, heard, is_parked=True)
        late = new_run(**{when: a_minute_ago})
        heard.clear()
        if is_guest:
            async with connection.transaction():
                await stage.store.guest(connection).start_runs([late])
        else:
            await stage.store.start_runs([late])
        await asyncio.wait_for(heard.wait(), PATIENCE)
        assert await stage.store.next_due([LANE]) is not None
        assert [run.id for run in await stage.store.claim_runs("one", [LANE], 1)] == [late.id]
    finally:
        await connection.close()
        await stage.close()


async def test_a_signal_in_a_transaction_that_was_open_for_long_is_found_at_its_commit(on_stage, monkeypatch):
    # Every transaction is open for long: whatever was sent before the last look is below the floor.
    monkeypatch.setattr(floors, "SLACK", 0)
    url, stage = on_stage
    heard = asyncio.Event()
    connection = await asyncpg.connect(url)
    try:
        run, _ = await begun(stage, heard, is_parked=True)
        async with connection.transaction():
            await stage.store.guest(connection).send_signal(run.id, "go", b"1")
            assert not await looked(stage.store, True)
            heard.clear()
        await asyncio.wait_for(heard.wait(), PATIENCE)
        assert await looked(stage.store, True)
    finally:
        await connection.close()
        await stage.close()


async def test_a_run_that_is_given_back_unbegun_is_found_at_once_by_whoever_has_looked_since(on_stage):
    _, stage = on_stage
    heard = asyncio.Event()
    try:
        store, other = stage.store, await stage.open()
        await store.open()
        await listening(other, heard)
        for worker, at in (("one", store), ("two", other)):
            await at.register_worker(worker, [LANE], LEASE)
        a_minute_ago = round(time.time() * SECOND) - 60 * SECOND
        run_id = await stage.start_one(now=a_minute_ago)
        [run] = await store.claim_runs("one", [LANE], 1)
        assert await other.next_due([LANE]) is None
        pending = RowChange(status=RunStatus.PENDING, due_at=run.due_at, release=True)
        write = RowWrite(run_id=run_id, worker_id="one", epoch=run.epoch, next_seq=run.next_seq, change=pending)
        assert await store.write_rows([write]) == [True]
        while not (claimed := await other.claim_runs("two", [LANE], 1)):
            # What is told of the start may come as late as this. Cleared before each look, as above.
            await asyncio.wait_for(heard.wait(), PATIENCE)
            heard.clear()
        assert [one.id for one in claimed] == [run_id]
    finally:
        await stage.close()
