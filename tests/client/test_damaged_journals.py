"""A journal that can't be read: tools name the run and the row, and those for many runs pass it by."""

from __future__ import annotations

import json

import pytest

from holdfast.errors import NotDecodable, RunCancelled
from holdfast.model import RowChange, RunFilter, RunStatus, Started
from tests.client.hands import at, damage, total


async def failed(client, hands):
    run = await client.start(total, 1)
    await hands.fail(run.id, ValueError("no"))
    damage(client, run.id)
    return run


async def test_reading_a_damaged_journal_raises_an_error_that_names_the_run_and_the_row(client, hands):
    run = await failed(client, hands)
    for call in (
        client.journal(run.id),
        client.export(run.id),
        client.retry(run.id),
        client.fork(run.id, at="second"),
    ):
        with pytest.raises(NotDecodable, match=f"the journal of run {run.id} can't be read at row 0: .* backup"):
            await call


async def test_a_run_with_a_damaged_journal_can_be_forked_from_the_start(client, hands):
    run = await failed(client, hands)
    again = await client.fork(run.id)
    assert (await again.refresh()).record.forked_from == run.id


async def test_explain_gives_the_stored_reason_of_a_blocked_run_with_a_damaged_journal(client, hands):
    run = await client.start(total, 1)
    claimed = await hands.claim(run.id)
    change = RowChange(status=RunStatus.WAITING, release=True, blocked="NotDecodable: as the worker has found")
    await hands.write(claimed, Started(at(), claimed.seed), change=change)
    damage(client, run.id)
    told = await client.explain(run.id)
    assert told.reason == "blocked"
    assert "as the worker has found" in str(told)
    assert str(told).count("can't be read") == 0


async def test_explain_mentions_a_damaged_journal_beside_the_run_s_status(client, hands):
    run = await failed(client, hands)
    told = await client.explain(run.id)
    assert told.reason == "ended"
    assert "failed at" in str(told)
    assert f"But the journal of run {run.id} can't be read at row 0" in str(told)


async def test_waiting_for_a_cancelled_run_with_a_damaged_journal_raises_run_cancelled(client, hands):
    run = await client.start(total, 1)
    await hands.claim(run.id)
    await client.cancel(run.id, force=True)
    damage(client, run.id)
    with pytest.raises(RunCancelled, match=r"was cancelled; the journal of run .* can't be read"):
        await run.result()


async def test_a_prune_leaves_a_run_with_a_damaged_journal_and_says_so(client, hands, tmp_path):
    bad = await failed(client, hands)
    good = await client.start(total, 1)
    await hands.complete(good.id, 3)
    pruned = await client.prune(older_than=0, archive=tmp_path / "runs.jsonl")
    assert (pruned.runs, pruned.unreadable) == (1, (bad.id,))
    assert json.loads((tmp_path / "runs.jsonl").read_text())["id"] == good.id
    assert [run.id async for run in client.runs()] == [bad.id]
    # Without an archive nobody needs to read it.
    assert (await client.prune(older_than=0)).runs == 1


async def test_retries_and_forks_by_a_filter_pass_by_a_run_with_a_damaged_journal(client, hands):
    await failed(client, hands)
    other = await client.start(total, 1)
    await hands.fail(other.id, ValueError("no"))
    assert await client.fork(RunFilter(status="failed"), at="second") == 1
    assert await client.retry(RunFilter(status="failed")) == 1
