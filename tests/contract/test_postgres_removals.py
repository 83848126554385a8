"""Runs on Postgres that are removed while others have to do with them: callers that send, and those who follow."""

import asyncio
from functools import partial

import asyncpg
import pytest

from holdfast.model import ClaimedRun, NewWait, Out, RowChange, RunStatus, Sent
from holdfast.store import Store
from holdfast.store.postgres.transactions import Transaction
from holdfast.testing.contract.chains import continued
from holdfast.testing.contract.children import end_in
from holdfast.testing.contract.stage import T0, Stage, ids_of, new_run, turn
from tests.contract.test_postgres_strays import follow, look_for_the_dead, play, url

__all__ = ["play", "url"]


async def later(stage: Stage, **fields) -> ClaimedRun:
    """A run of a chain that is not its first, which stays while others of the chain are kept."""
    return await continued(stage, await stage.held(), **fields)


async def remove(store: Store, run: ClaimedRun, way: str) -> list[str]:
    if way == "by hand":
        return await store.delete_runs([run.id])
    return list((await store.sweep(10, events_before=0, now=T0)).run_ids)


@pytest.mark.parametrize("way", ["by hand", "by its retention"])
def test_a_message_for_a_run_that_had_just_continued_reaches_its_successor_also_if_the_run_is_removed(url, play, way):
    async def act(stage: Stage) -> None:
        first = await later(stage, retention=0)
        connection = await asyncpg.connect(url)
        async with connection.transaction():
            assert await stage.store.guest(connection).send_signal(first.id, "n", b"", now=T0) is Sent.SENT
            second = await continued(stage, first)
        await connection.close()
        assert await remove(stage.store, first, way) == [first.id]
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [second.id]

    play(act)


@pytest.mark.parametrize("way", ["by hand", "by its retention"])
@pytest.mark.parametrize("kind", ["signal", "hook"])
def test_a_run_that_continued_is_not_removed_while_a_caller_sends_to_it(url, play, way, kind):
    async def act(stage: Stage) -> None:
        first = await later(stage, retention=0)
        hook = NewWait(number=1, kind="hook", name="ok", token="t")
        assert await stage.commit(turn(first, out=Out(waits=(hook,)))) == [True]
        connection = await asyncpg.connect(url)
        async with connection.transaction():
            guest = stage.store.guest(connection)
            if kind == "signal":
                assert await guest.send_signal(first.id, "n", b"", now=T0) is Sent.SENT
            else:
                assert await guest.resume_hook("t", b"", now=T0) is Sent.SENT
            second = await continued(stage, first, after=1)
            assert await remove(stage.store, first, way) == []
        await connection.close()
        assert await remove(stage.store, first, way) == [first.id]
        messages = await stage.store.read_inbox("one")
        assert [(message.run_id, message.kind) for message in messages] == [(second.id, kind)]

    play(act)


def test_runs_that_a_caller_s_open_transaction_keeps_hold_up_the_removal_of_no_others(url, play):
    async def act(stage: Stage) -> None:
        kept = [await stage.held(retention=0)]
        for _ in range(4):
            kept.append(await continued(stage, kept[-1], retention=0))
        runs = [await stage.held(retention=1) for _ in range(5)]
        for run in runs:
            await stage.end(run)
        connection = await asyncpg.connect(url)
        async with connection.transaction():
            assert await stage.store.guest(connection).send_signal(kept[0].id, "n", b"", now=T0) is Sent.SENT
            found = [await stage.store.sweep(2, events_before=0, now=T0 + 1) for _ in range(5)]
            assert [one.run_ids for one in found] == [(), (), *(tuple(ids_of(runs[i : i + 2])) for i in (0, 2, 4))]
            assert [one.is_all for one in found] == [False] * 4 + [True]
        await connection.close()
        # From the beginning again. The chain's first run stays as long as the chain.
        found = [await stage.store.sweep(2, events_before=0, now=T0 + 1) for _ in range(3)]
        assert [run_id for one in found for run_id in one.run_ids] == [run.id for run in kept[1:4]]
        assert [one.is_all for one in found] == [False, False, True]

    play(act)


@pytest.mark.parametrize("kind", ["signal", "hook"])
@pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
def test_a_caller_that_still_sees_a_run_that_was_removed_is_refused_by_the_server(url, play, level, kind):
    async def act(stage: Stage) -> None:
        first = await later(stage)
        hook = NewWait(number=1, kind="hook", name="ok", token="t")
        assert await stage.commit(turn(first, out=Out(waits=(hook,)))) == [True]
        connection = await asyncpg.connect(url)
        transaction = connection.transaction(isolation=level)
        await transaction.start()
        guest = stage.store.guest(connection)
        assert (await guest.get_run(first.id)) is not None
        await continued(stage, first, after=1)
        assert await stage.store.delete_runs([first.id]) == [first.id]
        send = partial(guest.send_signal, first.id, "n") if kind == "signal" else partial(guest.resume_hook, "t")
        with pytest.raises(asyncpg.SerializationError):
            await send(b"", now=T0)
        await transaction.rollback()
        await connection.close()

    play(act)


@pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
def test_a_caller_that_sees_nothing_younger_sends_to_a_run_that_continued_and_keeps_no_run_from_being_removed(
    url, play, level
):
    async def act(stage: Stage) -> None:
        first, ended = await stage.held(), await stage.held()
        connection = await asyncpg.connect(url)
        async with connection.transaction(isolation=level):
            guest = stage.store.guest(connection)
            assert (await guest.get_run(first.id)) is not None
            second = await continued(stage, first)
            for run in (first, ended):
                assert await guest.send_signal(run.id, "n", b"", now=T0) is Sent.SENT
            await stage.end(ended)
            assert await stage.store.delete_runs([ended.id]) == [ended.id]
        await connection.close()
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [second.id]

    play(act)


def test_a_caller_that_sends_to_many_runs_takes_no_lock_for_each(url, play):
    async def act(stage: Stage) -> None:
        ids = await stage.start(600)
        connection = await asyncpg.connect(url)
        async with connection.transaction():
            guest = stage.store.guest(connection)
            for run_id in ids:
                assert await guest.send_signal(run_id, "n", b"", now=T0) is Sent.SENT
            count = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
            assert await connection.fetchval(count) <= 256
        await connection.close()

    play(act)


@pytest.mark.parametrize("way", ["by hand", "by its retention"])
def test_an_end_that_a_follower_missed_is_told_before_the_run_is_removed(url, play, way):
    async def act(stage: Stage) -> None:
        follower, first = await stage.held(), await stage.held(worker="two", retention=0)
        last = await continued(stage, first, worker="two", retention=0)
        await stage.commit(turn(last, change=RowChange(status=RunStatus.FAILED, error=b"why")))
        await follow(url, first, follower)
        if way == "by hand":
            assert sorted(await stage.store.delete_runs([first.id, last.id])) == sorted([first.id, last.id])
        else:
            assert len((await stage.store.sweep(10, events_before=0, now=T0)).run_ids) == 2
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, end_in(message).run_id, end_in(message).error) == (follower.id, last.id, b"why")

    play(act)


@pytest.mark.parametrize("way", ["by hand", "by its retention"])
def test_an_end_that_a_follower_of_an_earlier_run_missed_is_told_before_the_last_run_is_removed(url, play, way):
    async def act(stage: Stage) -> None:
        follower, first = await stage.held(), await stage.held(worker="two")
        last = await continued(stage, first, worker="two", retention=0)
        await stage.commit(turn(last, change=RowChange(status=RunStatus.FAILED, error=b"why")))
        await follow(url, first, follower)
        assert await remove(stage.store, last, way) == [last.id]
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, end_in(message).run_id, end_in(message).error) == (follower.id, last.id, b"why")

    play(act)


def test_a_follower_of_an_earlier_run_is_told_of_the_last_one_s_end_though_one_between_them_is_removed(url, play):
    async def act(stage: Stage) -> None:
        follower, first = await stage.held(), await stage.held(worker="two")
        second = await continued(stage, first, worker="two")
        last = await continued(stage, second, worker="two")
        await follow(url, first, follower)
        assert await stage.store.delete_runs([second.id]) == [second.id]
        await look_for_the_dead(stage.store)
        await stage.end(last)
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, end_in(message).run_id) == (follower.id, last.id)

    play(act)


def test_a_run_that_joined_a_chain_is_told_that_its_last_run_was_removed(url, play):
    async def act(stage: Stage) -> None:
        follower, first = await stage.held(), await stage.held(worker="two")
        last = await continued(stage, first, worker="two")
        await stage.end(last)
        assert await stage.store.delete_runs([last.id]) == [last.id]
        await follow(url, first, follower)
        await look_for_the_dead(stage.store)
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, end_in(message).run_id) == (follower.id, first.id)

    play(act)


@pytest.mark.parametrize("taken", [{"id": "there"}, {"key": "k"}])
def test_a_child_that_would_join_a_run_just_being_removed_begins_anew(play, monkeypatch, taken):
    async def act(stage: Stage) -> None:
        other, here, ask = await stage.open(), asyncio.get_running_loop(), Transaction.all
        there, parent = await stage.held(**taken), await stage.held()
        await stage.end(there)

        async def all(tx, name, params):
            if name == "join_runs":
                gone = asyncio.run_coroutine_threadsafe(other.delete_runs([there.id]), here)
                await asyncio.wrap_future(gone)
            return await ask(tx, name, params)

        monkeypatch.setattr(Transaction, "all", all)
        child = new_run(parent_id=parent.id, parent_key="pay", **taken)
        assert await stage.commit(turn(parent, out=Out(children=(child,)))) == [True]
        assert (await stage.claim_one()).id == child.id
        assert await stage.store.read_inbox("one") == []

    play(act)


def test_a_run_is_not_removed_while_another_is_joining_it(url, play, monkeypatch):
    async def act(stage: Stage) -> None:
        other, here, ask = await stage.open(), asyncio.get_running_loop(), Transaction.all
        there, parent = await stage.held(worker="two", key="k", retention=0), await stage.held()
        swept = []

        async def all(tx, name, params):
            answer = await ask(tx, name, params)
            if name == "join_runs":
                swept.append(await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(end_and_sweep(), here)))
            return answer

        async def end_and_sweep() -> tuple[str, ...]:
            ended = turn(there, change=RowChange(status=RunStatus.COMPLETED))
            assert await other.commit_turns([ended], now=T0) == [True]
            return (await other.sweep(10, events_before=0, now=T0)).run_ids

        monkeypatch.setattr(Transaction, "all", all)
        child = new_run(parent_id=parent.id, parent_key="pay", key="k")
        assert await stage.commit(turn(parent, out=Out(children=(child,)))) == [True]
        assert swept == [()]
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, end_in(message).run_id) == (parent.id, there.id)
        assert (await other.sweep(10, events_before=0, now=T0)).run_ids == (there.id,)

    play(act)
