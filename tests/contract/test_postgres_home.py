"""Turns that are one statement go out on the loop of whoever commits them, over a connection that lives there."""

import asyncio
import contextlib
import gc
import threading

import asyncpg
import psycopg
import pytest
import uvloop

from holdfast.errors import StoreAway, StoreError
from holdfast.model import Out, OutSignal
from holdfast.store import open_store
from holdfast.store.postgres import connections, links
from holdfast.testing.contract.stage import LANE, LEASE, PATIENCE, Stage, turn, until
from tests.servers.wire import Wire


@pytest.fixture
def url(postgres):
    return postgres.create_database()


async def opened(url) -> Stage:
    stage = Stage(lambda **more: open_store(url, **more))
    await stage.store.open()
    return stage


def pids(stage: Stage) -> list[int]:
    """The server's processes at the other end."""
    links = stage.store._commits.home._links.values()
    return [link._connection.get_server_pid() for link in links if link._connection is not None]


async def gone(url, *pids: int) -> bool:
    """The server takes its time to notice that a connection was closed."""
    asking = await asyncpg.connect(url)
    try:
        for _ in range(1000):
            if not await asking.fetch("SELECT 1 FROM pg_stat_activity WHERE pid = ANY ($1::integer[])", pids):
                return True
            await asyncio.sleep(0.01)
        return False
    finally:
        await asking.close()


async def test_a_turn_is_committed_without_another_thread(url, monkeypatch):
    stage = await opened(url)
    first, second, third = [await stage.held() for _ in range(3)]
    with monkeypatch.context() as without:
        without.setattr(stage.store._thread, "call", None)
        assert await stage.commit(turn(first)) == [True]
        assert await stage.commit(turn(second), turn(third)) == [True, True]
    assert [data for _, _, data in await stage.journal(first.id)] == [b"turn"]
    await stage.close()


async def test_turns_are_sent_before_the_call_that_commits_them_returns(url):
    """It may compute for milliseconds: the server works meanwhile."""
    stage = await opened(url)
    first, second = await stage.held(), await stage.held()
    for turns in ([turn(first)], [turn(first, after=1)], [turn(first, after=2), turn(second)]):
        # The connection is there after this, and knows both statements.
        await stage.commit(*turns)
    with psycopg.connect(url, autocommit=True) as looking:
        for turns in ([turn(first, after=3)], [turn(first, after=4), turn(second, after=1)]):
            before = _rows(looking)
            written = stage.store.commit_turns(turns)
            # The loop does not turn while this looks.
            assert any(_rows(looking) == before + len(turns) for _ in range(10_000))
            assert await written == [True] * len(turns)
    await stage.close()


def _rows(connection: psycopg.Connection) -> int:
    [found] = connection.execute("SELECT count(*) FROM holdfast.journal").fetchone()
    return found


async def test_the_connection_for_a_worker_s_first_turn_is_already_open(url, monkeypatch):
    stage = await opened(url)
    run = await stage.held()
    await stage.store.register_worker("two", [LANE], LEASE)
    with monkeypatch.context() as without:
        without.setattr(links, "connect", None)
        assert await stage.commit(turn(run)) == [True]
    await stage.close()


async def test_registering_waits_for_no_connection_as_the_lease_has_begun(url, monkeypatch):
    async with Wire(url) as wire:
        stage = await opened(wire.url)
        run = await stage.held()
        monkeypatch.setattr(connections, "CONNECT_TIMEOUT", 3600.0)
        wire.is_slow = True
        async with asyncio.timeout(PATIENCE):
            await stage.store.register_worker("two", [LANE], LEASE)
        # It is being made, and nobody answers.
        assert await until(lambda: wire.unanswered == 1)
        assert stage.store._commits.home.here().is_busy
        wire.is_slow = False
        wire.cut_all()
        while True:
            with contextlib.suppress(StoreAway):
                assert await stage.commit(turn(run)) == [True]
                break
        await stage.close()


async def test_a_worker_can_not_register_in_a_store_that_was_never_opened(url):
    with pytest.raises(StoreError, match="not open"):
        await open_store(url).register_worker("one", [LANE], LEASE)


async def test_a_turn_alone_is_answered_like_one_among_others(url):
    stage = await opened(url)
    run = await stage.held()
    # The first makes the connection, the others find it there.
    assert await stage.commit(turn(run)) == [True]
    assert await stage.commit(turn(run, after=1)) == [True]
    # The same again: its answer was lost.
    assert await stage.commit(turn(run, after=1)) == [True]
    assert await stage.commit(turn(run, after=1, epoch=run.epoch + 1)) == [False]
    assert await stage.commit(turn(run, run_id="nobody")) == [False]
    assert len(await stage.journal(run.id)) == 2
    await stage.close()


async def test_a_commit_of_turns_counts_as_one_write_whichever_way_it_takes(url):
    stage = await opened(url)
    first, second = [await stage.held() for _ in range(2)]
    ways = [
        [turn(first)],
        [turn(first, after=1), turn(second)],
        [turn(first, after=2, out=Out(signals=(OutSignal(second.id, "said", b""),)))],
    ]
    writes = []
    for turns in ways:
        before = stage.store.stats.writes
        assert await stage.commit(*turns) == [True] * len(turns)
        writes.append(stage.store.stats.writes - before)
    assert writes == [1, 1, 1]
    await stage.close()


async def test_a_cut_connection_is_made_anew_and_the_turn_is_written_once(url):
    stage = await opened(url)
    run = await stage.held()
    await stage.commit(turn(run))
    [pid] = pids(stage)
    asking = await asyncpg.connect(url)
    await asking.fetch("SELECT pg_terminate_backend($1)", pid)
    await asking.close()
    answers = None
    while answers is None:
        try:
            answers = await stage.commit(turn(run, after=1))
        except StoreAway:
            continue
    assert answers == [True]
    assert len(await stage.journal(run.id)) == 2
    await stage.close()


async def test_the_connection_is_closed_when_its_worker_leaves_and_opened_for_the_next(url):
    stage = await opened(url)
    run = await stage.held()
    await stage.commit(turn(run))
    [pid] = pids(stage)
    await stage.store.remove_worker("one")
    assert await gone(url, pid)
    await stage.store.register_worker("two", [LANE], LEASE)
    assert await stage.commit(turn(run, after=1)) == [True]
    await stage.close()


async def test_a_connection_made_while_its_worker_leaves_is_closed_with_the_store(url):
    stage = await opened(url)
    run, other = await stage.held(), await stage.held()
    await stage.commit(turn(run))
    under_way = stage.store.commit_turns([turn(run, after=1), turn(other)])
    leaving = asyncio.create_task(stage.store._commits.home.close_here())
    await asyncio.sleep(0)
    # Of another worker on the same loop: it stands in line behind the one that closes.
    behind = stage.store.commit_turns([turn(run, after=2), turn(other, after=1)])
    await leaving
    assert await under_way == await behind == [True, True]
    [pid] = pids(stage)
    await stage.close()
    assert await gone(url, pid)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_a_store_that_is_closed_leaves_no_connection_on_any_loop(url):
    """One loop still turns, one was closed with its connection open, and one is our own."""
    stage = await opened(url)
    mine, still, past = [await stage.held() for _ in range(3)]
    turning = asyncio.new_event_loop()
    thread = threading.Thread(target=turning.run_forever)
    thread.start()
    commit = asyncio.run_coroutine_threadsafe(stage.commit(turn(still)), turning)
    assert await asyncio.wrap_future(commit) == [True]
    assert await stage.commit(turn(mine)) == [True]
    assert await asyncio.to_thread(lambda: asyncio.run(stage.commit(turn(past)))) == [True]
    open_ones = pids(stage)
    assert len(open_ones) == 3
    await stage.close()
    assert await gone(url, *open_ones)
    turning.call_soon_threadsafe(turning.stop)
    thread.join()
    turning.close()
    gc.collect()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_the_connection_of_a_closed_loop_is_closed_when_another_loop_commits(url):
    stage = await opened(url)
    first, second = await stage.held(), await stage.held()
    assert await asyncio.to_thread(lambda: asyncio.run(stage.commit(turn(first)))) == [True]
    [past] = pids(stage)
    assert await asyncio.to_thread(lambda: asyncio.run(stage.commit(turn(second)))) == [True]
    assert await gone(url, past)
    assert len(pids(stage)) == 1
    await stage.close()
    gc.collect()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_closing_a_store_closes_the_connection_of_a_uvloop_that_has_ended(url):
    stage = await opened(url)
    run = await stage.held()
    assert await asyncio.to_thread(lambda: uvloop.run(stage.commit(turn(run)))) == [True]
    open_ones = pids(stage)
    await stage.close()
    assert await gone(url, *open_ones)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("count", [1, 2])
async def test_a_loop_may_end_while_turns_are_on_their_way(url, count):
    stage = await opened(url)
    runs = [await stage.held() for _ in range(count)]
    with psycopg.connect(url) as holding:

        async def work() -> None:
            for number in range(2):
                assert await stage.commit(*(turn(run, after=number) for run in runs)) == [True] * count
            holding.execute("LOCK TABLE holdfast.journal IN EXCLUSIVE MODE")
            stage.store.commit_turns([turn(run, after=2) for run in runs])

        await asyncio.to_thread(asyncio.run, work())
        # Whatever it left behind is collected without a word.
        gc.collect()
    assert await stage.commit(*(turn(run, after=2) for run in runs)) == [True] * count
    await stage.close()
    gc.collect()


async def test_closing_the_store_does_not_wait_for_a_loop_that_the_closing_call_blocks(url, monkeypatch):
    monkeypatch.setattr(links, "PARTING", 0.01)
    stage = await opened(url)
    run = await stage.held()
    blocked, is_closed = asyncio.new_event_loop(), threading.Event()
    thread = threading.Thread(target=blocked.run_forever)
    thread.start()
    commit = asyncio.run_coroutine_threadsafe(stage.commit(turn(run)), blocked)
    assert await asyncio.wrap_future(commit) == [True]
    open_ones = pids(stage)
    blocked.call_soon_threadsafe(is_closed.wait)
    async with asyncio.timeout(60):
        await stage.close()
    is_closed.set()
    assert await gone(url, *open_ones)
    blocked.call_soon_threadsafe(blocked.stop)
    thread.join()
    blocked.close()


async def test_turns_through_a_pooler_are_not_committed_on_the_loop(url):
    stage = await opened(f"{url}?pooler=transaction")
    run = await stage.held()
    assert await stage.commit(turn(run)) == [True]
    assert stage.store._commits.home._links == {}
    await stage.close()
