"""Handles: results typed by the workflow, failures with their own exception, timeouts that leave the run alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from holdfast.client import AsyncClient
from holdfast.define import current_scope, workflow
from holdfast.errors import (
    BadDuration,
    DefinitionError,
    IOInBody,
    RunCancelled,
    RunFailed,
    RunNotFound,
    StepFailed,
    StoreAway,
)
from holdfast.model import Cancel, Ended, Lane, RowChange, RunStatus
from tests.client.hands import Hands, at, ship, total


@dataclass
class Receipt:
    number: int


@workflow
async def pay() -> Receipt:
    return Receipt(1)


class Declined(Exception):
    pass


async def test_a_result_that_is_there_is_returned(client, hands):
    run = await client.start(total, 1)
    await hands.complete(run.id, 42)
    assert await run.result() == 42
    assert run.status is RunStatus.COMPLETED


async def test_a_result_is_waited_for(client, hands):
    run = await client.start(total, 1)
    waiting = asyncio.create_task(run.result(timeout="60s"))
    await asyncio.sleep(0)
    await hands.complete(run.id, 42)
    assert await waiting == 42


async def test_a_result_comes_back_by_the_workflows_annotation_or_as_plain_data(client):
    hands = Hands(client)
    await hands.register(Lane("pay", "1"))
    run = await client.start(pay)
    await hands.complete(run.id, Receipt(3))
    assert await run.result() == Receipt(3)
    assert await (await client.get_run(pay, id=run.id)).result() == Receipt(3)
    assert await (await client.get_run(run.id)).result() == {"number": 3}


async def test_a_wait_hears_of_an_end_in_another_process(client, database_url):
    run = await client.start(total, 1)
    waiting = asyncio.create_task(run.result(timeout="60s"))
    async with AsyncClient(database_url) as other:
        await Hands(other).complete(run.id, 42)
        assert await waiting == 42


async def test_a_failed_run_raises_with_its_own_exception_as_the_cause(client, hands):
    run = await client.start(total, 1)
    await hands.fail(run.id, Declined("card expired"))
    with pytest.raises(RunFailed, match=f"run {run.id} of 'total' failed: Declined: card expired") as failed:
        await run.result()
    assert isinstance(failed.value.__cause__, Declined)
    assert failed.value.run_id == run.id
    assert await run.wait() is RunStatus.FAILED


async def test_a_failure_whose_class_is_not_loaded_here_is_still_described(client, hands, monkeypatch):
    run = await client.start(total, 1)
    await hands.fail(run.id, Declined("card expired"))
    monkeypatch.delattr(f"{__name__}.Declined")
    with pytest.raises(RunFailed, match="failed: Declined: card expired") as failed:
        await (await client.get_run(run.id)).result()
    assert isinstance(failed.value.__cause__, StepFailed)
    assert failed.value.__cause__.type.endswith("Declined")


async def test_a_cancelled_run_raises_with_the_reason(client, hands):
    run = await client.start(total, 1)
    claimed = await hands.claim(run.id)
    change = RowChange(status=RunStatus.CANCELLED)
    await hands.write(claimed, Cancel(at(), "sold out"), Ended(at(), "cancelled"), change=change)
    with pytest.raises(RunCancelled, match=f"run {run.id} of 'total' was cancelled: sold out") as cancelled:
        await run.result()
    assert cancelled.value.run_id == run.id
    assert await run.wait() is RunStatus.CANCELLED


@pytest.mark.parametrize("timeout", [0, 0.01, "20ms"])
async def test_a_timeout_leaves_the_run_alone_and_says_so(client, hands, timeout):
    run = await client.start(total, 1)
    with pytest.raises(TimeoutError, match=f"run {run.id} of 'total' has not ended after .*; it goes on"):
        await run.result(timeout=timeout)
    assert (await run.refresh()).status is RunStatus.PENDING
    await hands.complete(run.id, 5)
    assert await run.result(timeout=0) == 5


async def test_a_wait_that_times_out_while_the_store_is_away_raises_a_timeout_that_says_so(client, monkeypatch):
    run = await client.start(total, 1)

    async def away(*args, **options):
        raise StoreAway("the cable is out")

    monkeypatch.setattr(client.store, "read_ended", away)
    monkeypatch.setattr(client.store, "get_run", away)
    with pytest.raises(TimeoutError, match=f"run {run.id} of 'total' has not ended after 20ms.*the cable is out"):
        await run.result(timeout="20ms")


@pytest.mark.parametrize("timeout", [0, "1ms"])
async def test_a_timeout_of_a_wait_says_that_the_run_was_deleted(client, hands, timeout):
    run = await client.start(total, 1)
    await hands.complete(run.id, 1)
    await client.delete(run.id)
    with pytest.raises(RunNotFound, match=run.id):
        await run.result(timeout=timeout)


async def test_an_invalid_timeout_is_refused(client):
    run = await client.start(total, 1)
    with pytest.raises(BadDuration, match="timeout"):
        await run.result(timeout="soon")


async def test_a_timeout_of_the_caller_s_own_is_raised_as_it_is(client):
    run = await client.start(total, 1)
    with pytest.raises(TimeoutError) as late:
        async with asyncio.timeout(0.01):
            await run.result(timeout="1h")
    assert "it goes on" not in str(late.value)


async def test_a_handle_shows_what_was_last_seen_until_it_is_refreshed(client, hands):
    run = await client.start(total, 1)
    await hands.complete(run.id, 1)
    assert (run.status, run.record) == (RunStatus.PENDING, None)
    assert (await run.refresh()).status is RunStatus.COMPLETED
    assert run.record.output == b"1"


async def test_runs_are_found_by_id_and_by_key(client):
    run = await client.start(total, 1, key="k")
    for found in (
        await client.get_run(run.id),
        await client.get_run(total, key="k"),
        await client.get_run("total", key="k"),
        await client.get_run(total, id=run.id),
    ):
        assert (found.id, found.workflow, found.key, found.created) == (run.id, "total", "k", None)


async def test_an_unknown_run_raises_an_error_with_advice(client):
    run = await client.start(total, 1)
    with pytest.raises(RunNotFound, match="there is no run 'nobody' in the namespace 'default'"):
        await client.get_run("nobody")
    with pytest.raises(RunNotFound, match="no run of 'total' has the key 'k'"):
        await client.get_run(total, key="k")
    with pytest.raises(RunNotFound, match="is one of 'total', not of 'ship'"):
        await client.get_run(ship, id=run.id)
    with pytest.raises(RunNotFound):
        await client.cancel("nobody")


@pytest.mark.parametrize("options", [{}, {"key": "a", "id": "b"}])
async def test_looking_a_run_up_by_its_workflow_alone_is_refused(client, options):
    with pytest.raises(DefinitionError, match="either key= or id="):
        await client.get_run(total, **options)


async def test_namespaces_do_not_see_each_other(database_url):
    async with AsyncClient(database_url) as one, AsyncClient(database_url, namespace="other") as other:
        run = await one.start(total, 1, key="k")
        with pytest.raises(RunNotFound, match="namespace 'other'"):
            await other.get_run(run.id)
        assert (await other.start(total, 1, key="k")).created


async def test_cancelling_a_run_that_never_began_ends_it(client):
    run = await client.start(total, 1)
    answer = await run.cancel()
    assert answer
    assert str(answer) == f"run {run.id} was pending and has been asked to end"
    assert await run.wait(timeout=0) is RunStatus.CANCELLED


async def test_cancelling_a_live_run_sends_it_a_message_with_the_reason(client, hands):
    run = await client.start(total, 1)
    await hands.claim(run.id)
    assert await client.cancel(run.id, reason="sold out")
    assert await client.cancel(run.id)
    [message] = await client.store.read_inbox("hands")
    assert (message.kind, message.payload) == ("cancel", b"sold out")


async def test_cancelling_an_ended_run_changes_nothing_and_says_so(client, hands):
    run = await client.start(total, 1)
    await hands.complete(run.id, 1)
    answer = await client.cancel(run.id)
    assert not answer
    assert str(answer) == f"run {run.id} had ended already (completed); nothing was changed"
    assert await run.result() == 1


async def test_a_forced_cancel_ends_a_run_at_once(client, hands):
    run = await client.start(total, 1)
    await hands.claim(run.id)
    answer = await run.cancel(force=True)
    assert "ended at once" in str(answer)
    assert (await run.refresh()).status is RunStatus.CANCELLED


async def test_handles_are_refused_in_a_body(client):
    run = await client.start(total, 1)
    token = current_scope.set(object())
    try:
        for call in (run.result, run.wait, run.refresh, run.cancel):
            with pytest.raises(IOInBody):
                await call()
    finally:
        current_scope.reset(token)
