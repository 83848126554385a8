"""patched(): code that changes under live runs, at the end of what their journals know and after the next change."""

from holdfast import patched, sleep, workflow
from holdfast.model import Patched, StepAsked
from tests.engine.samples import double, echo


def test_a_change_is_still_known_when_the_code_no_longer_asks_about_the_one_before_it(begin):
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


def test_a_run_that_only_waits_behind_the_point_goes_the_new_way_at_once(begin):
    drive = begin(waiting)
    drive.complete("double")
    again = drive.replay(workflow=asking)
    assert list(again.commands) == ["echo"]


def test_what_is_asked_beyond_the_journal_is_written_before_it_begins(begin):
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
