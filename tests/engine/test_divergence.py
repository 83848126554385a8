"""P10: code that no longer matches its journal stops with a report; the run is intact, and fixed code goes on."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from holdfast import current_run, sleep, workflow
from holdfast.define import Workflow
from holdfast.errors import JournalDiverged, NotDecodable
from holdfast.model import StepCompleted
from tests.engine.drive import Drive
from tests.engine.samples import Declined, double, echo, refuse, triple


@workflow
async def charge_and_ship() -> int:
    a = await double(1)
    await sleep("1h")
    return a + await double(2)


def report(drive: Drive, changed: Workflow[..., Any]) -> str:
    with pytest.raises(JournalDiverged) as caught:
        drive.replay(workflow=changed)
    return str(caught.value)


def line_of(text: str, body: Workflow[..., Any]) -> int:
    """The number of the body's line that holds the text."""
    lines, first = inspect.getsourcelines(body.fn)
    return first + next(number for number, line in enumerate(lines) if text in line)


@workflow
async def without_a_timer() -> int:
    return await double(1) + await asyncio.Event().wait()


@workflow
async def another_step_first() -> int:
    return await echo(1)  # changed


def test_another_step_is_reported_with_what_the_journal_holds(begin):
    assert "'double'" in report(begin(charge_and_ship), another_step_first)


def test_another_step_is_reported_with_what_the_code_asked_for(begin):
    assert "'echo'" in report(begin(charge_and_ship), another_step_first)


def test_another_step_is_reported_with_its_line(begin):
    line = line_of("# changed", another_step_first)
    assert f"test_divergence.py:{line}" in report(begin(charge_and_ship), another_step_first)


def test_a_report_names_the_run_and_its_workflow(begin):
    text = report(begin(charge_and_ship), another_step_first)
    assert "run-1" in text
    assert "charge_and_ship" in text


def test_a_report_counts_the_entries_up_to_the_one_that_does_not_match(begin):
    drive = begin(charge_and_ship)
    assert "at entry 1." in report(drive, another_step_first)
    drive.complete("double")
    drive.fire()
    assert [entry.kind for entry in drive.entries[:4]] == ["started", "step_asked", "step_completed", "timer_fired"]
    assert "at entry 3." in report(drive, without_a_timer)


def test_a_report_says_that_the_run_is_intact_and_what_to_do(begin):
    text = report(begin(charge_and_ship), another_step_first)
    assert "intact" in text
    assert "version" in text


@workflow
async def other_arguments() -> int:
    return await double(99)  # changed


def test_other_arguments_are_divergence(begin):
    text = report(begin(charge_and_ship), other_arguments)
    assert "argument" in text
    assert f"test_divergence.py:{line_of('# changed', other_arguments)}" in text


@workflow
async def one_less() -> int:
    await sleep("1h")
    return 0


def test_a_step_taken_away_is_divergence(begin):
    drive = begin(charge_and_ship)
    drive.complete("double")
    assert "'double'" in report(drive, one_less)


@workflow
async def ends_early() -> int:
    return await double(1)


def test_a_body_that_ends_before_its_journal_does_is_divergence(begin):
    drive = begin(charge_and_ship)
    drive.complete("double")
    drive.fire()
    text = report(drive, ends_early)
    assert "ended" in text or "the end" in text


def test_a_body_that_ends_where_its_journal_waits_is_divergence(begin):
    drive = begin(charge_and_ship)
    drive.complete("double")
    text = report(drive, ends_early)
    assert "the end" in text


@workflow
async def no_timer() -> int:
    a = await double(1)
    return a + await double(2)


def test_a_timer_taken_away_is_divergence(begin):
    drive = begin(charge_and_ship)
    drive.complete("double")
    drive.fire()
    text = report(drive, no_timer)
    assert "timer" in text


@workflow
async def raises_early() -> int:
    await double(1)
    raise ValueError("new code")


def test_a_body_that_fails_where_its_journal_goes_on_is_divergence(begin):
    drive = begin(charge_and_ship)
    drive.complete("double")
    drive.fire()
    assert "timer" in report(drive, raises_early)


@pytest.mark.parametrize("passed", [False, True], ids=["waits", "goes_on"])
def test_a_body_that_fails_is_reported_with_its_error_and_its_line(begin, passed: bool):
    drive = begin(charge_and_ship)
    drive.complete("double")
    if passed:
        drive.fire()
    line = line_of("raise ", raises_early)
    assert f"ValueError: new code, at test_divergence.py:{line} in raises_early" in report(drive, raises_early)


@workflow
async def swallows() -> int:
    try:
        return await echo(1)
    except BaseException:
        return await double(1)


def test_divergence_can_not_be_caught(begin):
    assert "'echo'" in report(begin(charge_and_ship), swallows)


@workflow
async def swallows_in_a_task() -> int:
    task = asyncio.create_task(echo(1))
    try:
        return await task  # type: ignore[return-value]
    except BaseException:
        return 1


def test_divergence_in_another_task_can_not_be_caught(begin):
    assert "'echo'" in report(begin(charge_and_ship), swallows_in_a_task)


def test_a_body_with_a_result_that_can_not_be_read_gets_nothing_of_what_came_behind_it(begin):
    seen: list[object] = []

    @workflow
    async def body() -> None:
        async def ship() -> None:
            seen.append(await echo("x"))

        await asyncio.gather(double(1), ship())

    drive = begin(body)
    unreadable = StepCompleted(drive.tick(), "double", 1, b'"two"')
    with pytest.raises(NotDecodable):
        drive.take(unreadable, drive.completed("echo"))
    assert seen == []


@workflow
def def_body() -> int:
    return triple(1) + triple(2)


@workflow
def def_body_changed() -> int:
    try:
        return triple(7)  # changed
    except BaseException:
        return triple(1)


def test_divergence_in_a_def_body_is_reported_with_its_line(begin):
    drive = begin(def_body)
    drive.complete("triple")
    text = report(drive, def_body_changed)
    assert f"test_divergence.py:{line_of('# changed', def_body_changed)}" in text


def helper_that_asks() -> Any:
    return double.start(5)


@workflow
async def asks_in_a_helper() -> int:
    return await helper_that_asks()


def test_the_line_is_that_of_the_call_even_in_a_helper(begin):
    line = inspect.getsourcelines(helper_that_asks)[1] + 1
    assert f"test_divergence.py:{line}" in report(begin(charge_and_ship), asks_in_a_helper)


def test_fixed_code_goes_on(begin):
    drive = begin(charge_and_ship)
    drive.complete("double")
    report(drive, another_step_first)
    drive.execution = drive.replay()
    assert drive.finish().check().result == 6


def test_code_that_changes_only_beyond_the_journal_goes_on(begin):
    @workflow(name="charge_and_ship")
    async def longer() -> int:
        a = await double(1)
        await sleep("1h")
        return a + await double(2) + triple(await double(3))

    drive = begin(charge_and_ship)
    drive.complete("double")
    drive.workflow = longer
    drive.execution = drive.replay()
    assert drive.finish().result == 24


def test_a_diverged_body_sends_nothing_out(begin):
    alerts: list[str] = []

    @workflow
    async def changed() -> None:
        try:
            await echo(1)
        finally:
            await double(1)
            alerts.append("went on")

    drive = begin(charge_and_ship)
    report(drive, changed)
    for one in drive.lives:
        one.put_away()
    assert alerts == []


def test_the_order_of_concurrent_asks_counts(begin):
    @workflow
    async def before() -> None:
        await asyncio.gather(double(1), echo("x"))

    @workflow
    async def after() -> None:
        await asyncio.gather(echo("x"), double(1))

    assert "'echo'" in report(begin(before), after)


def test_nondeterminism_by_a_global_is_divergence(begin):
    lives: list[int] = []

    @workflow
    async def body() -> int:
        lives.append(1)
        return await double(len(lives))

    assert "other arguments" in report(begin(body), body)


def test_an_exception_whose_class_is_gone_is_not_another_class(begin, monkeypatch):
    @workflow
    async def body() -> int:
        try:
            await refuse("visa")
        except Exception:
            pass
        return await double(1)

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    module = inspect.getmodule(Declined)
    monkeypatch.delattr(module, "Declined")
    with pytest.raises((JournalDiverged, NotDecodable), match="Declined"):
        drive.replay()


def test_a_result_that_no_longer_fits_its_type_blocks_the_run_and_never_enters_the_body(begin):
    @workflow
    async def body() -> str:
        try:
            await echo("text")
        except BaseException:
            return "swallowed"
        return await refuse("visa")

    drive = begin(body)
    drive.complete("echo")
    drive.entries[2] = type(drive.entries[2])(drive.entries[2].at, "echo", 1, b"\xff not json")
    with pytest.raises(NotDecodable):
        drive.replay()


def test_a_run_that_did_not_begin_has_no_journal_to_diverge_from(begin):
    drive = begin(charge_and_ship, begin=False)
    again = drive.replay()
    assert again.main is None or not again.main.done()


def test_a_retried_attempt_of_a_step_that_nobody_asked_for_is_divergence(begin):
    drive = begin(charge_and_ship)
    drive.retry_step("double", ValueError("again"))
    assert "'double'" in report(drive, one_less)


def test_a_body_may_look_at_its_run_while_it_replays(begin):
    @workflow
    async def body() -> int:
        length = current_run().journal_length
        await double(length)
        return current_run().journal_length

    assert begin(body).finish().check().result == 2


@workflow
async def before() -> int:
    await double(1)
    return await double(2)


@workflow
async def gathered() -> None:
    await asyncio.gather(double(1), echo("new"))  # changed


@workflow
async def in_a_task() -> None:
    task = asyncio.create_task(echo("new"))  # changed
    await task


@workflow
async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(echo("new"))  # changed


@workflow
async def under_wait_for() -> None:
    await asyncio.wait_for(echo("new"), 5)  # changed


@pytest.mark.parametrize("changed", [gathered, in_a_task, in_a_group, under_wait_for], ids=lambda one: one.name)
def test_a_step_handed_to_a_task_is_reported_with_its_line(begin, changed: Workflow[..., Any]):
    lines, first = inspect.getsourcelines(changed.fn)
    line = first + next(number for number, text in enumerate(lines) if "# changed" in text)
    drive = begin(before)
    drive.complete("double")
    with pytest.raises(JournalDiverged, match=f"test_divergence.py:{line}"):
        drive.replay(workflow=changed)
