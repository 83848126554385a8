"""Cancelling: what is refused, where the reason stays, and what a forced end leaves undone."""

from __future__ import annotations

import pytest

from holdfast.errors import DefinitionError, RunCancelled
from holdfast.model import RunStatus, Started, StepAsked
from tests.client.hands import at, total


async def test_a_handle_in_place_of_an_id_is_refused_with_its_id(client):
    run = await client.start(total, 1)
    for call in (client.cancel, client.retry, client.journal, client.explain):
        with pytest.raises(DefinitionError, match=f"is not a run's id; give its id, '{run.id}'"):
            await call(run)
    assert (await run.refresh()).status is RunStatus.PENDING


@pytest.mark.parametrize("run_id", [5, None, b"id", "\ud800"])
async def test_a_cancel_of_an_invalid_id_is_refused(client, run_id):
    with pytest.raises(DefinitionError, match="is not a run's id"):
        await client.cancel(run_id)


@pytest.mark.parametrize("given", [{"reason": 5}, {"reason": "\ud800"}, {"force": "yes"}])
async def test_a_wrong_option_is_refused_and_nothing_is_cancelled(client, given):
    run = await client.start(total, 1)
    with pytest.raises(DefinitionError, match=next(iter(given))):
        await client.cancel(run.id, **given)
    assert (await run.refresh()).status is RunStatus.PENDING


@pytest.mark.parametrize("force", [False, True])
async def test_a_run_cancelled_before_it_began_keeps_the_reason(client, force):
    run = await client.start(total, 1)
    await run.cancel(reason="sold out", force=force)
    with pytest.raises(RunCancelled, match="was cancelled: sold out; "):
        await run.result()
    explained = await client.explain(run.id)
    assert "because: sold out" in explained.text
    assert explained.details["reason"] == "sold out"
    assert (await client.journal(run.id))[-1].note == "cancelled: sold out"


async def test_a_forced_cancel_lists_what_it_skipped(client, hands):
    run = await client.start(total, 1)
    claimed = await hands.claim(run.id)
    await hands.write(claimed, Started(at(), claimed.seed), StepAsked("add", b"digest"))
    answer = await run.cancel(reason="stuck", force=True)
    undone = ("step 'add'", "the cleanup of its body")
    assert answer.skipped == undone
    assert "skipped: step 'add', the cleanup of its body" in str(answer)
    explained = await client.explain(run.id)
    assert explained.details["skipped"] == undone
    assert "by force, which skipped step 'add', the cleanup of its body" in explained.text
    assert (await client.journal(run.id))[-1].kind == "ended"
    with pytest.raises(RunCancelled, match=r"cancelled: stuck \(skipped: step 'add'"):
        await run.result()


async def test_a_cancel_without_force_skips_nothing(client, hands):
    run = await client.start(total, 1)
    await hands.claim(run.id)
    assert (await run.cancel()).skipped == ()


async def test_a_forced_cancel_of_an_ended_run_lists_nothing(client, hands):
    run = await client.start(total, 1)
    await hands.complete(run.id, 1)
    assert (await run.cancel(force=True)).skipped == ()
