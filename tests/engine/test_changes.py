"""patched(): code that changes under live runs, at the end of what their journals know and after the next change."""

import asyncio

from holdfast import patched, sleep, wait_for_event, workflow
from holdfast.model import Patched, StepAsked
from tests.engine.drive import note
from tests.engine.samples import double, echo


def test_a_recorded_change_is_found_when_the_code_no_longer_asks_about_an_earlier_one(begin):
    @workflow(name="body")
    async def asking_both() -> None:
        if patched("first") and patched("second"):
            await double(1)

    @workflow(name="body")
    async def asking_one() -> None:
        if patched("second"):
            await double(1)
        else:
            await echo("old")

    assert list(begin(asking_both).replay(workflow=asking_one).commands) == ["double"]


def test_a_run_that_waits_at_the_changed_place_takes_the_new_branch_at_once(begin):
    drive = begin(waiting)
    drive.complete("double")
    again = drive.replay(workflow=asking)
    assert list(again.commands) == ["echo"]


def test_a_step_asked_for_beyond_the_journal_is_written_before_it_begins(begin):
    drive = begin(waiting)
    drive.complete("double")
    again = drive.replay(workflow=asking)
    assert again.is_unwritten
    done = again.advance([])
    assert [type(entry) for entry in done.entries] == [Patched, StepAsked]
    assert not again.is_unwritten


def test_a_body_that_ends_beyond_its_journal_ends_with_the_next_turn(begin):
    @workflow(name="body")
    async def ending() -> str:
        await double(1)
        if patched("change"):
            return "early"
        await sleep("1h")
        return "late"

    drive = begin(waiting)
    drive.complete("double")
    done = drive.replay(workflow=ending).advance([])
    assert done.ended is not None
    assert done.ended.status == "completed"


def test_a_run_that_took_the_old_branch_once_takes_it_beyond_its_journal_too(begin):
    @workflow(name="body")
    async def asking_twice() -> None:
        note(patched("change"))
        await double(1)
        note(patched("change"))
        await sleep("1h")

    drive = begin(waiting)
    drive.complete("double")
    assert drive.replay(workflow=asking_twice).run.notes == [False, False]


def test_a_recorded_wait_that_new_code_gives_up_beyond_the_journal_is_closed(begin):
    @workflow(name="body")
    async def listening() -> None:
        paid = asyncio.create_task(wait_for_event("paid"))
        await double(1)
        await paid

    @workflow(name="body")
    async def giving_up() -> None:
        paid = asyncio.create_task(wait_for_event("paid"))
        await double(1)
        if patched("change"):
            paid.cancel()
            await echo("new")

    drive = begin(listening)
    assert [wait.number for wait in drive.out[0].waits] == [1]
    drive.complete("double")
    done = drive.replay(workflow=giving_up).advance([])
    assert done.out is not None
    assert done.out.closed == (1,)


@workflow(name="body")
async def waiting() -> None:
    await double(1)
    await sleep("1h")


@workflow(name="body")
async def asking() -> None:
    await double(1)
    if patched("change"):
        await echo("new")
    await sleep("1h")
