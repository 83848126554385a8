"""The journal's limit: a clear error that names the way out, and room left to clean up."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from holdfast import JournalLimitReached, compensate, current_run, rollback, sleep, step, workflow
from tests.engine.drive import note
from tests.engine.samples import clean_up, double


@workflow(journal_limit=10)
async def endless() -> None:
    while True:
        await double(1)


def test_the_limit_fails_the_run(begin):
    assert isinstance(begin(endless).finish().error, JournalLimitReached)


def test_the_error_names_continue_as_new(begin):
    assert "continue_as_new" in str(begin(endless).finish().error)


def test_the_limit_counts_inputs_delivered(begin):
    drive = begin(endless).finish()
    inputs = [entry for entry in drive.entries if entry.kind in ("started", "step_completed")]
    assert len(inputs) == 10


def test_failed_attempts_that_the_body_never_sees_do_not_count(begin):
    @workflow(journal_limit=3)
    async def body() -> int:
        await double(1)
        await double(2)
        return current_run().journal_length

    drive = begin(body)
    for attempt in range(1, 20):
        drive.retry_step("double", ConnectionError(), attempt)
    assert drive.finish().check().result == 3


def test_a_run_at_its_limit_replays(begin):
    begin(endless).finish().check()


def test_a_reserve_is_kept_for_cleanup(begin):
    @workflow(journal_limit=5)
    async def body() -> None:
        try:
            while True:
                await double(1)
        finally:
            await clean_up()
            note("clean")

    assert begin(body).finish().check().notes == ["clean"]


def test_a_def_body_reaches_the_limit_too(begin):
    @workflow(journal_limit=5)
    def body() -> None:
        while True:
            double(1)

    assert isinstance(begin(body).finish().error, JournalLimitReached)


def test_a_run_that_ends_below_its_limit_is_left_alone(begin):
    @workflow(journal_limit=10)
    async def body() -> int:
        for _ in range(9):
            await double(1)
        return current_run().journal_length

    assert begin(body).finish().check().result == 10


def test_a_body_that_swallows_the_limit_does_not_go_on_for_ever(begin):
    """A poller that survives every error is an ordinary program; it must not hold the worker's loop for good."""
    swallowed: list[int] = []

    @workflow(journal_limit=5)
    async def body() -> None:
        while len(swallowed) < 20_000:
            try:
                await double(1)
            except Exception:
                swallowed.append(1)

    drive = begin(body).finish(limit=50_000)
    assert isinstance(drive.error, JournalLimitReached)
    assert len(swallowed) < 20_000


def test_compensations_at_the_limit_use_the_reserve_from_their_first_step_on(begin):
    """The body asked for nothing after the journal was full, so it never met the limit itself."""

    undone: list[str] = []

    @step
    async def undo() -> None:
        undone.append("undone")

    @workflow(journal_limit=5)
    async def body() -> None:
        compensate(undo)
        for pending in [double.start(number) for number in range(10)]:
            await pending
        raise ValueError("for a reason of its own")

    assert isinstance(begin(body).finish().check().error, ValueError)
    assert undone == ["undone"]


def test_compensations_are_never_given_up_for_lack_of_room_in_the_journal(begin):
    """The reserve has room for a thousand entries; more compensations than that may be registered."""
    undone: list[int] = []

    @step
    async def undo(number: int) -> None:
        undone.append(number)

    @workflow(journal_limit=3)
    async def body() -> None:
        for number in range(2_500):
            compensate(undo, number)
        raise ValueError("for a reason of its own")

    drive = begin(body).finish(limit=5_000)
    assert isinstance(drive.error, ValueError)
    assert undone == list(reversed(range(2_500)))


def test_a_body_that_rolls_back_again_and_again_reaches_the_limit(begin):
    @workflow(journal_limit=5)
    async def body() -> None:
        while True:
            compensate(clean_up)
            await rollback()

    assert isinstance(begin(body).finish().check().error, JournalLimitReached)


def test_a_run_that_is_stopped_at_its_limit_names_what_was_not_undone(begin):
    @workflow(journal_limit=3)
    async def body() -> None:
        compensate(clean_up)
        while True:
            with suppress(Exception):
                await double(1)

    drive = begin(body).finish(limit=5_000)
    assert isinstance(drive.error, JournalLimitReached)
    assert drive.error.__notes__[0] == "could not be compensated: clean_up: the run was stopped before it"


def test_cleanup_after_a_cancel_at_the_limit_uses_the_reserve_from_its_first_step_on(begin):
    @workflow(journal_limit=3)
    async def body() -> None:
        await double(1)
        try:
            await sleep("1d")
        finally:
            await clean_up()
            note("clean")

    drive = begin(body)
    drive.complete("double")
    drive.cancel()
    assert drive.finish().check().notes == ["clean"]


def test_a_body_that_swallows_a_cancel_at_the_limit_does_not_go_on_for_ever(begin):
    @workflow(journal_limit=3)
    async def body() -> None:
        await double(1)
        with suppress(asyncio.CancelledError):
            await sleep("1d")
        while True:
            await double(1)

    drive = begin(body)
    drive.complete("double")
    drive.cancel()
    assert isinstance(drive.finish(limit=5_000).error, JournalLimitReached)
