"""Retry: a new run that goes on where the old one stopped."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import DefinitionError, KeyTaken, NotRetryable, RunNotFound, StoreAway
from holdfast.model import (
    Claimed,
    Ended,
    RunFilter,
    RunRetrying,
    RunStatus,
    Started,
    StepAsked,
    StepCompleted,
    history_of,
    microseconds,
)
from tests.client.hands import entries_of, failed, total


async def test_a_retry_is_a_new_run_of_the_same_chain_and_the_old_one_stays(client, hands):
    old = await failed(client, hands, key="k", tags={"a": "b"}, priority=4)
    new = await client.retry(old.id)
    record, before = (await new.refresh()).record, (await old.refresh()).record
    assert new.created
    assert (record.forked_from, record.chain_id, record.input) == (old.id, before.chain_id, before.input)
    assert (record.key, record.tags, record.priority, record.queue) == ("k", {"a": "b"}, 4, "default")
    assert (record.status, before.status) == (RunStatus.PENDING, RunStatus.FAILED)
    assert (await client.get_run(total, key="k")).id == new.id


async def test_a_retry_keeps_the_history_up_to_the_last_failure_and_the_seed(client, hands):
    old = await failed(client, hands)
    new = await client.retry(old.id)
    entries = await entries_of(client, new.id)
    assert not any(isinstance(entry, (Ended, Claimed)) for entry in entries)
    assert isinstance(entries[-1], RunRetrying)
    assert entries[-1].attempt == 0
    assert entries[-1].error == (await old.refresh()).record.error
    history = history_of(entries)
    assert [type(entry) for entry in history.entries] == [Started, StepAsked, StepCompleted, StepAsked]
    claimed = await hands.claim(new.id)
    assert claimed.seed == history.entries[0].seed
    assert claimed.next_seq == 1


async def test_a_retry_is_never_stamped_earlier_than_the_history_it_goes_on_from(client, hands):
    old = await failed(client, hands)
    entries = await entries_of(client, (await client.retry(old.id)).id)
    times = [entry.at for entry in entries if not isinstance(entry, StepAsked)]
    assert times == sorted(times)


async def test_a_run_cancelled_before_it_began_is_retried_from_nothing(client):
    old = await client.start(total, 1, key="k")
    await client.cancel(old.id)
    new = await client.retry(old.id)
    assert await client.store.read_journal(new.id) == []
    assert (await client.get_run(total, key="k")).id == new.id


async def test_a_retry_keeps_the_seed_of_a_run_whose_first_turn_was_never_written(client, hands):
    old = await client.start(total, 1)
    seed = (await hands.claim(old.id)).seed
    await client.cancel(old.id, force=True)
    new = await client.retry(old.id)
    assert await client.store.read_journal(new.id) == []
    assert (await hands.claim(new.id)).seed == seed


async def test_a_retry_keeps_the_seed_of_its_history_when_the_run_is_deleted_before_it_begins(
    client, hands, monkeypatch
):
    old = await failed(client, hands)
    start_runs = client.store.start_runs

    async def later(*args, **kwargs):
        await client.store.delete_runs([old.id])
        return await start_runs(*args, **kwargs)

    monkeypatch.setattr(client.store, "start_runs", later)
    new = await client.retry(old.id)
    [started] = [entry for entry in await entries_of(client, new.id) if isinstance(entry, Started)]
    assert (await hands.claim(new.id)).seed == started.seed


@pytest.mark.parametrize("retention", ["2h", None])
async def test_a_retry_is_kept_as_long_as_the_run_it_goes_on_from(client, hands, retention):
    old = await failed(client, hands, retention=retention)
    new = await client.retry(old.id)
    assert (await new.refresh()).record.retention == (None if retention is None else microseconds(retention))


async def test_a_retried_run_can_fail_and_be_retried_again(client, hands):
    old = await failed(client, hands, key="k")
    second = await client.retry(old.id)
    await hands.fail(second.id, ValueError("again"))
    third = await client.retry(second.id)
    record = (await third.refresh()).record
    assert (record.forked_from, record.chain_id) == (second.id, old.id)
    kinds = [entry.kind for entry in await client.journal(third.id)]
    assert kinds.count("run_retrying") == 2
    assert kinds.count("ended") == 0


async def test_retrying_a_run_with_a_key_again_returns_the_first_retry(client, hands):
    old = await failed(client, hands, key="k")
    first, second = await asyncio.gather(client.retry(old.id), client.retry(old.id))
    assert first.id == second.id
    assert sorted([first.created, second.created]) == [False, True]


async def test_a_retry_with_an_id_that_is_asked_for_again_is_one_run(client, hands):
    old = await failed(client, hands)
    first = await client.retry(old.id, id="again")
    second = await client.retry(old.id, id="again")
    assert (first.id, first.created) == ("again", True)
    assert (second.id, second.created) == ("again", False)
    assert (await second.refresh()).record.forked_from == old.id


async def test_a_retry_whose_answer_was_lost_is_found_by_its_id(client, hands, monkeypatch):
    old = await failed(client, hands)
    start_runs = client.store.start_runs

    async def lose(runs, **options):
        await start_runs(runs, **options)
        raise StoreAway("the answer was lost")

    monkeypatch.setattr(client.store, "start_runs", lose)
    with pytest.raises(StoreAway):
        await client.retry(old.id, id="again")
    monkeypatch.undo()
    assert (await client.retry(old.id, id="again")).id == "again"
    assert len([run async for run in client.runs()]) == 2


async def test_a_retry_that_is_deleted_while_it_is_asked_for_again_is_made_anew_whatever_the_keys(
    client, hands, monkeypatch
):
    old = await failed(client, hands)
    await client.start(total, 1, key="None")
    again = await client.retry(old.id, id="again")
    await hands.fail(again.id, ValueError("no"))
    get_run = client.store.get_run

    async def deleted(run_id):
        if run_id == "again" and await client.store.delete_runs(["again"]):
            return None
        return await get_run(run_id)

    monkeypatch.setattr(client.store, "get_run", deleted)
    retried = await client.retry(old.id, id="again")
    assert (retried.id, retried.created) == ("again", True)


async def test_the_id_of_another_run_is_refused_for_a_retry(client, hands):
    old, other = await failed(client, hands), await client.start(total, 1)
    with pytest.raises(KeyTaken) as refused:
        await client.retry(old.id, id=other.id)
    assert refused.value.run_id == other.id


async def test_an_id_is_refused_for_a_retry_of_many_runs(client):
    with pytest.raises(DefinitionError, match="names one new run"):
        await client.retry(RunFilter(), id="again")


@pytest.mark.parametrize("id", [7, "a\0b"], ids=["a number", "a NUL"])
async def test_an_invalid_id_of_a_retry_is_refused_before_anything_is_written(client, hands, id):
    old = await failed(client, hands)
    with pytest.raises(DefinitionError, match="is not a run's id"):
        await client.retry(old.id, id=id)
    assert [run.id async for run in client.runs()] == [old.id]


async def test_a_run_whose_key_another_run_has_taken_is_not_retried(client, hands):
    old = await failed(client, hands, key="k")
    other = await client.start(total, 1, key="k", on_conflict="restart")
    with pytest.raises(KeyTaken, match=f"which run {other.id} has now") as taken:
        await client.retry(old.id)
    assert taken.value.run_id == other.id


async def test_a_retry_takes_its_key_back_from_a_run_that_was_deleted(client, hands):
    old = await failed(client, hands, key="k")
    other = await client.start(total, 1, key="k", on_conflict="restart")
    await client.cancel(other.id)
    await client.delete(other.id)
    again = await client.retry(old.id)
    assert again.created
    assert (await client.get_run(total, key="k")).id == again.id


@pytest.mark.parametrize("deed", ["retry", "fork"])
async def test_a_run_that_is_deleted_before_its_history_was_read_does_not_begin_anew(client, hands, monkeypatch, deed):
    old = await failed(client, hands)
    read = client.store.read_journal

    async def delete_and_read(run_id):
        await client.store.delete_runs([run_id])
        return await read(run_id)

    monkeypatch.setattr(client.store, "read_journal", delete_and_read)
    with pytest.raises(RunNotFound):
        await getattr(client, deed)(old.id)
    assert await client.count(RunFilter()) == 0


async def test_retrying_a_run_that_is_deleted_meanwhile_raises_run_not_found(client, hands, monkeypatch):
    old = await failed(client, hands, key="k")
    read_journal = client.store.read_journal

    async def read_and_delete(run_id):
        rows = await read_journal(run_id)
        await client.store.delete_runs([run_id])
        return rows

    monkeypatch.setattr(client.store, "read_journal", read_and_delete)
    with pytest.raises(RunNotFound):
        await client.retry(old.id)


async def test_a_retry_of_many_runs_passes_by_those_deleted_meanwhile(client, hands, monkeypatch):
    kept, gone = await failed(client, hands, key="kept"), await failed(client, hands, key="gone")
    read_journal = client.store.read_journal

    async def read_and_delete(run_id):
        rows = await read_journal(run_id)
        await client.store.delete_runs([run_id] if run_id == gone.id else [])
        return rows

    monkeypatch.setattr(client.store, "read_journal", read_and_delete)
    assert await client.retry(RunFilter(workflow=total)) == 1
    assert (await client.get_run(total, key="kept")).id != kept.id


async def test_a_live_or_completed_run_is_not_retried(client, hands):
    run = await client.start(total, 1)
    with pytest.raises(NotRetryable, match="has not ended"):
        await client.retry(run.id)
    await hands.complete(run.id, 1)
    with pytest.raises(NotRetryable, match="did not fail") as refused:
        await client.retry(run.id)
    assert refused.value.run_id == run.id


async def test_retrying_an_unknown_run_raises_run_not_found(client):
    with pytest.raises(RunNotFound):
        await client.retry("nobody")


async def test_a_start_with_retry_goes_on_with_a_failed_run(client, hands):
    old = await failed(client, hands, key="k")
    new = await client.start(total, 1, key="k", on_conflict="retry")
    assert new.created
    assert (await new.refresh()).record.forked_from == old.id
    again = await client.start(total, 1, key="k", on_conflict="retry")
    assert (again.id, again.created) == (new.id, False)


async def test_a_start_with_retry_returns_a_completed_run(client, hands):
    run = await client.start(total, 1, key="k")
    await hands.complete(run.id, 7)
    again = await client.start(total, 1, key="k", on_conflict="retry")
    assert (again.id, again.created, await again.result()) == (run.id, False, 7)


async def test_many_starts_with_retry_at_once_make_one_retry(client, hands):
    await failed(client, hands, key="k")
    runs = await asyncio.gather(*(client.start(total, 1, key="k", on_conflict="retry") for _ in range(10)))
    assert len({run.id for run in runs}) == 1


async def test_a_start_by_id_and_key_with_retry_finds_the_run_that_has_the_key_now(client, hands):
    await failed(client, hands, id="mine", key="k")
    new = await client.start(total, 1, id="mine", key="k", on_conflict="retry")
    again = await client.start(total, 1, id="mine", key="k", on_conflict="retry")
    assert new.id != "mine"
    assert again.id == new.id
