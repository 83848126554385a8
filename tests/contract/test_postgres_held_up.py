"""What a caller's open transaction holds keeps nobody else waiting: a turn that needs it comes again by itself, and a
worker that begins goes on without it."""

import asyncio
import contextlib
from functools import partial
from unittest.mock import ANY

import asyncpg
import pytest

from holdfast.errors import StoreAway, StoreError
from holdfast.model import Out
from holdfast.store.postgres import commits, ends, hold_ups, links
from holdfast.testing.contract.stage import LANE, LEASE, T0, after, new_run, turn
from tests.contract.staging import MEANWHILE, staged
from tests.contract.test_postgres_locks import locked, url

__all__ = ["url"]


@pytest.fixture
def waits(monkeypatch):
    """The locks that were waited for in vain, by the error."""
    found = []
    run = links.Link.run

    async def noted(link, deed, **how):
        try:
            return await run(link, deed, **how)
        except StoreAway as error:
            found.append(error)
            raise

    monkeypatch.setattr(links.Link, "run", noted)
    return found


@pytest.fixture
def sent(monkeypatch):
    """The ids of the runs that were sent together."""
    found = []
    write_batch = commits.write_batch

    async def noted(link, write, items, **how):
        found.append([item.run_id for item in items])
        return await write_batch(link, write, items, **how)

    monkeypatch.setattr(commits, "write_batch", noted)
    return found


@contextlib.asynccontextmanager
async def held_keys(stage, url, *keys):
    """A caller's open transaction that has started runs with these keys."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await stage.store.guest(connection).start_runs([new_run(key=key) for key in keys])
            yield
    finally:
        await connection.close()


def asking(run, *keys):
    """A turn that asks for children with these keys."""
    return turn(run, out=Out(children=tuple(new_run(parent_id=run.id, parent_key=key, key=key) for key in keys)))


def setting(run, place):
    return turn(run, after=place, out=Out(values=(("at", b"1"),)))


def are_away(answers):
    return [isinstance(answer, StoreAway) for answer in answers]


async def test_a_turn_that_waits_for_a_key_in_a_caller_s_transaction_is_tried_apart_from_the_others(
    url, sent, monkeypatch
):
    monkeypatch.setattr(hold_ups, "REST", 0)
    async with staged(url) as stage:
        asker, other = await stage.held(), await stage.held()
        asks = asking(asker, "k")
        async with held_keys(stage, url, "k"):
            for place in range(2):
                sent.clear()
                first, is_accepted = await stage.commit(asks, setting(other, place))
                assert isinstance(first, StoreAway)
                assert is_accepted is True
            assert sent == [[other.id], [asker.id]]
        assert await stage.commit(asks, setting(other, 2)) == [True, True]
        assert await stage.store.get_run(asks.out.children[0].id) is None
        # From here on it goes with the others again.
        sent.clear()
        assert await stage.commit(setting(asker, 1), setting(other, 3)) == [True, True]
        assert sent == [[asker.id, other.id]]


async def test_however_many_runs_ask_for_a_held_key_a_batch_waits_for_it_once_and_they_all_go_on_together(
    url, sent, waits, monkeypatch
):
    monkeypatch.setattr(hold_ups, "REST", 0)
    async with staged(url) as stage:
        await stage.start(13)
        *askers, other = await stage.claim()
        asks = [asking(asker, "k") for asker in askers]
        async with held_keys(stage, url, "k"):
            answers = await stage.commit(*asks, setting(other, 0))
            assert len(waits) <= hold_ups.MOST_WAITS
            for place in range(1, 3):
                waits.clear()
                answers = await stage.commit(*asks, setting(other, place))
                assert are_away(answers) == [True] * 12 + [False]
                assert len(waits) == 1
        waits.clear()
        sent.clear()
        assert await stage.commit(*asks) == [True] * 12
        assert waits == []
        assert [len(part) for part in sent] == [1, 11]


async def test_a_run_goes_on_when_its_key_is_free_though_more_are_held_than_a_batch_waits_for(url, waits, monkeypatch):
    monkeypatch.setattr(hold_ups, "REST", 0)
    monkeypatch.setattr(hold_ups, "MOST_WAITS", 3)
    async with staged(url) as stage:
        await stage.start(9)
        *askers, other = await stage.claim()
        asks = [asking(asker, str(number)) for number, asker in enumerate(askers)]
        async with held_keys(stage, url, *"0123567"):
            async with held_keys(stage, url, "4"):
                for _ in range(6):
                    waits.clear()
                    answers = await stage.commit(*asks, setting(other, 0))
                    assert 1 <= len(waits) <= 3
                assert are_away(answers) == [True] * 8 + [False]
            for _ in range(3):
                waits.clear()
                answers = await stage.commit(*asks)
                assert len(waits) <= 3
            assert answers == [*answers[:4], True, *answers[5:]]
            assert sum(are_away(answers)) == 7
        waits.clear()
        assert await stage.commit(*asks) == [True] * 8
        assert waits == []


async def test_no_held_up_turn_is_sent_in_the_rest_after_a_wait_unless_it_was_passed_over_several_times(
    url, sent, monkeypatch
):
    monkeypatch.setattr(hold_ups, "REST", 1_000_000)
    async with staged(url) as stage:
        asker, other = await stage.held(), await stage.held()
        asks = asking(asker, "k")
        async with held_keys(stage, url, "k"):
            assert are_away(await stage.commit(asks)) == [True]
            sent.clear()
            for place in range(4):
                assert are_away(await stage.commit(asks, setting(other, place))) == [True, False]
            assert sent == [[other.id]] * 4 + [[asker.id]]
        for _ in range(hold_ups.MOST_PASSED_OVER):
            assert are_away(await stage.commit(asks)) == [True]
        assert await stage.commit(asks) == [True]


async def test_a_run_that_wants_a_free_key_goes_on_beside_one_that_wants_that_and_a_held_one(url, monkeypatch):
    monkeypatch.setattr(hold_ups, "REST", 0)
    async with staged(url) as stage:
        await stage.start(3)
        both, one, other = await stage.claim()
        asks_both = asking(both, "free", "held")
        async with held_keys(stage, url, "held"):
            assert are_away(await stage.commit(asks_both)) == [True]
            assert await stage.commit(asks_both, asking(one, "free")) == [ANY, True]
            assert are_away(await stage.commit(asking(other, "held"), asks_both)) == [True, True]
        assert await stage.commit(asking(other, "held"), asks_both) == [True, True]


async def test_a_blocked_run_that_is_locked_holds_up_no_worker_that_registers(url):
    async with staged(url) as stage:
        await stage.start(2)
        runs = await stage.claim()
        for run in runs:
            assert await stage.hand_back(run, blocked="why", due_at=after(60)) is True
        async with locked(url, runs[0].id):
            await stage.store.register_worker("two", [LANE], LEASE, now=T0)
            assert (await stage.claim_one(worker="two")).id == runs[1].id


async def test_calls_that_wait_for_a_locked_run_keep_no_others_waiting(url):
    async with staged(url) as stage:
        run = await stage.held()
        async with locked(url, run.id):
            # More than the store has connections.
            waiting = [asyncio.ensure_future(stage.store.cancel_run(run.id, now=T0)) for _ in range(12)]
            async with asyncio.timeout(MEANWHILE):
                for _ in range(10):
                    other = await stage.start_one()
                    assert (await stage.claim_one(worker="two")).id == other
                    await stage.store.read_inbox("one")
            assert not any(task.done() for task in waiting)
        assert {found.id for found in await asyncio.gather(*waiting)} == {run.id}
        assert [message.kind for message in await stage.store.read_inbox("one")] == ["cancel"]


def cancel(stage, run, patience):
    deed = partial(ends.cancel_run, run_id=run.id, reason=None, force=False, now=T0)
    return stage.store._thread.call(partial(stage.store._pool.run, deed, patience=patience))


async def test_a_call_that_has_waited_too_long_for_a_lock_advises_to_look_for_an_open_transaction(url):
    async with staged(url) as stage:
        run = await stage.held()
        async with locked(url, run.id):
            with pytest.raises(StoreAway, match=r"lock timeout.* Another transaction holds .* left open"):
                await cancel(stage, run, 0.2)
        assert (await cancel(stage, run, 0.2)).id == run.id


async def test_a_call_that_waits_for_a_lock_makes_no_connection_once_the_pool_is_closed(url):
    async with staged(url) as stage:
        run = await stage.held()
        async with locked(url, run.id):
            waiting = asyncio.ensure_future(cancel(stage, run, 20))
            await asyncio.sleep(0.3)
            await stage.store._thread.call(stage.store._pool.close)
            with pytest.raises(StoreError, match="closed"):
                await waiting
        assert stage.store._pool._links == []
