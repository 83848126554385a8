"""What `status` and `client.explain` say of a run in each state, with a real worker."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AlreadyCompensated, Retry, RunFailed, compensate, sleep, step, wait_for_signal, workflow
from holdfast.client import AsyncRun
from tests.worker.samples import nothing
from tests.worker.stage import PATIENCE, Stage, stage, until


async def told(on: Stage, run: AsyncRun[object]) -> tuple[str, str]:
    found = await on.client.explain(run.id)
    return str(found.reason), str(found)


@pytest.fixture
def gated():
    """A workflow whose second step stays until it is let go."""
    go_on, begun = asyncio.Event(), asyncio.Event()

    @step
    async def gate() -> None:
        begun.set()
        await go_on.wait()

    @workflow
    async def body() -> None:
        await nothing()
        await gate()

    return body, begun, go_on


async def test_a_run_that_nobody_knows_says_what_it_needs(database_url, gated):
    body, _, _ = gated
    async with stage(database_url) as on:
        run = await on.client.start(body)
        reason, text = await told(on, run)
        assert (run.status, reason) == ("pending", "no_worker")
        assert "no worker is alive" in text
        assert "'body' version '1'" in text


async def test_a_run_that_the_live_workers_do_not_know_names_what_they_do(database_url, gated):
    body, _, _ = gated

    @workflow
    async def other() -> None: ...

    async with stage(database_url, other) as on:
        run = await on.client.start(body)
        reason, text = await told(on, run)
        assert reason == "no_worker"
        assert "other version 1 on default" in text


async def test_a_delayed_run_says_when_it_begins(database_url, gated):
    body, _, _ = gated
    async with stage(database_url, body) as on:
        run = await on.client.start(body, delay="1h")
        reason, text = await told(on, run)
        assert (run.status, reason) == ("pending", "not_due")
        assert "it begins at" in text


async def test_a_run_behind_others_waits_for_room(database_url, gated):
    body, begun, go_on = gated
    async with stage(database_url, body, concurrency=1) as on:
        await on.client.start(body)
        await begun.wait()
        second = await on.client.start(body)
        reason, text = await told(on, second)
        assert reason == "capacity"
        assert "1 live worker" in text
        go_on.set()
        await second.result(PATIENCE)


async def test_a_step_in_flight_is_named_with_its_worker(database_url, gated):
    body, begun, go_on = gated
    async with stage(database_url) as on, on.worker(body) as worker:
        run = await on.client.start(body)
        await begun.wait()
        reason, text = await told(on, run)
        assert reason == "step"
        assert "'gate'" in text
        assert str(worker.id) in text
        assert (await run.refresh()).status == "running"
        go_on.set()
        await run.result(PATIENCE)


async def test_a_first_step_in_flight_is_named_after_a_while(database_url):
    go_on = asyncio.Event()

    @step
    async def gate() -> None:
        await go_on.wait()

    @workflow
    async def body() -> None:
        await gate()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)

        async def is_named() -> bool:
            return (await told(on, run))[0] == "step"

        await until(is_named)
        assert "'gate'" in (await told(on, run))[1]
        go_on.set()
        await run.result(PATIENCE)


async def test_a_run_that_waits_for_a_retry_says_when_it_comes_and_after_which_error(database_url):
    @step(retry=Retry(attempts=2, initial="1h", max="1h"))
    async def shaky() -> None:
        raise ConnectionError("the line is dead")

    @workflow
    async def body() -> None:
        await shaky()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        reason, text = await told(on, run)
        assert reason == "retrying"
        assert "the line is dead" in text
        assert "'shaky'" in text


async def test_a_run_in_a_long_sleep_says_until_when(database_url):
    @workflow
    async def body() -> None:
        await nothing()
        await sleep("30d")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        record = await on.until_waiting(run)
        await until(lambda: _is_parked(on, run))
        reason, text = await told(on, run)
        assert reason == "sleeping"
        assert record.due_at is not None
        assert f"{record.due_at:%Y-%m-%d %H:%M}" in text


async def test_a_signal_of_the_wrong_name_is_shown_as_sent_and_not_read(database_url):
    @workflow
    async def body() -> None:
        await wait_for_signal("go")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.signal("Go")
        reason, text = await told(on, run)
        assert reason == "waiting"
        assert text.endswith("In its inbox, sent and not read: signal 'Go' (1).")
        await run.signal("go")
        await run.result(PATIENCE)


async def test_a_run_in_a_short_sleep_says_until_when_and_on_which_worker(database_url):
    @workflow
    async def body() -> None:
        await nothing()
        await sleep("9s")

    async with stage(database_url) as on, on.worker(body) as worker:
        run = await on.client.start(body)
        record = await on.until_waiting(run)
        reason, text = await told(on, run)
        assert reason == "sleeping"
        assert record.due_at is not None
        assert f"{record.due_at:%Y-%m-%d %H:%M}" in text
        assert str(worker.id) in text


async def test_a_run_tried_again_as_a_whole_says_so(database_url):
    @workflow(retry=Retry(attempts=2, initial="1h", max="1h"))
    async def body() -> None:
        await nothing()
        raise LookupError("nothing there")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        reason, text = await told(on, run)
        assert reason == "retrying"
        assert "as a whole" in text
        assert "nothing there" in text


async def test_a_blocked_run_shows_its_report(database_url):
    @workflow
    async def body() -> None:
        nothing()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_blocked(run)
        reason, text = await told(on, run)
        assert reason == "blocked"
        assert "NeverAwaited" in text
        assert (await run.refresh()).status == "waiting"


async def test_a_completed_run_says_when(database_url):
    @workflow
    async def body() -> None:
        await nothing()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await run.result(PATIENCE)
        reason, text = await told(on, run)
        assert reason == "ended"
        assert "completed at" in text
        assert (await run.refresh()).status == "completed"


async def test_a_failed_run_says_its_error_and_how_to_retry_it(database_url):
    @workflow
    async def body() -> None:
        raise LookupError("nothing there")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        with pytest.raises(RunFailed):
            await run.result(PATIENCE)
        reason, text = await told(on, run)
        assert reason == "ended"
        assert "nothing there" in text
        assert "client.retry" in text


async def test_a_failed_run_that_was_compensated_does_not_advise_a_retry_that_is_refused(database_url):
    @workflow
    async def body() -> None:
        compensate(nothing)
        raise ValueError("no")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        with pytest.raises(RunFailed):
            await run.result(PATIENCE)
        _, text = await told(on, run)
        assert "with ValueError: no; it was compensated, so only a new run can go on." in text
        with pytest.raises(AlreadyCompensated):
            await on.client.retry(run.id)


async def test_a_cancelled_run_that_cleans_up_says_so(database_url):
    go_on, begun = asyncio.Event(), asyncio.Event()

    @step
    async def clean_up() -> None:
        begun.set()
        await go_on.wait()

    @workflow
    async def body() -> None:
        try:
            await nothing()
            await sleep("30d")
        finally:
            await clean_up()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.cancel(reason="no longer needed")
        await begun.wait()
        _, text = await told(on, run)
        assert "no longer needed" in text
        assert "cleanup has not ended" in text
        go_on.set()
        await on.until_status(run, "cancelled")


async def _is_parked(on: Stage, run: AsyncRun[object]) -> bool:
    return (await on.record(run)).owner is None


async def test_a_cancelled_run_whose_workflow_is_gone_says_what_to_do(database_url):
    @workflow
    async def gone() -> None:
        await sleep(3600)

    async with stage(database_url, gone) as on:
        run = await on.client.start(gone)
        while (await run.refresh()).status != "waiting":
            await asyncio.sleep(0.01)
    async with stage(database_url) as on:
        await on.client.cancel(run.id, reason="sold out")
        _, text = await told(on, run)
        assert "A cancel was asked for (sold out) at" in text
        assert "is delivered when a worker that knows it starts; a cancel with force=True" in text


async def test_a_parent_whose_child_joined_another_run_by_its_key_does_not_name_a_run_that_is_not_there(database_url):
    @workflow
    async def shipping() -> None:
        await sleep("1h")

    @workflow
    async def joins() -> None:
        await shipping.options(key="parcel 7").start()

    async with stage(database_url, shipping, joins) as on:
        await on.client.start(shipping, key="parcel 7")
        run = await on.client.start(joins)
        await on.until_waiting(run)
        reason, text = await told(on, run)
        assert reason == "waiting"
        assert "'joins' waits for a run of 'shipping' that it joined by its key. Nothing else would wake it." in text
