"""What stands in for an exception that can't come back as itself: what it was, where, and why, each once."""

from __future__ import annotations

import traceback

import pytest

from holdfast import RunFailed, StepFailed, step, workflow
from tests.worker.stage import ONCE, PATIENCE, failure_of, stage


class Odd(BaseException):
    pass


@step
async def odd() -> None:
    raise Odd("no more") from ValueError("less")


@step(retry=ONCE)
def local() -> None:
    class Local(Exception):
        pass

    raise Local("gone")


@workflow
async def oddly() -> None:
    await odd()


@workflow
async def locally() -> None:
    local()


async def test_a_base_exception_of_a_step_comes_back_as_step_failed_with_its_place_and_cause(database_url):
    @workflow
    async def body() -> list[str]:
        try:
            await odd()
        except StepFailed as failed:
            return [str(failed), failed.traceback, *failed.__notes__, repr(failed.__cause__)]
        return []

    async with stage(database_url, body) as on:
        words, told, note, place, cause = await (await on.client.start(body)).result(PATIENCE)
    assert words == "no more"
    assert 'raise Odd("no more")' in told
    assert note == told
    assert "in the step 'odd'" in place
    assert cause == "ValueError('less')"


@pytest.mark.parametrize(("body", "told"), [(oddly, "Odd: no more"), (locally, "Local: gone")])
async def test_a_run_that_fails_with_step_failed_says_each_thing_once(database_url, body, told):
    async with stage(database_url, body) as on:
        with pytest.raises(RunFailed, match=f"failed: {told}$"):
            await (await on.client.start(body)).result(PATIENCE)


@pytest.mark.parametrize(
    ("body", "line", "name"), [(oddly, 'raise Odd("no more")', "Odd"), (locally, 'raise Local("gone")', "Local")]
)
async def test_the_printed_traceback_of_a_failed_run_says_what_was_raised_and_where(database_url, body, line, name):
    async with stage(database_url, body) as on:
        printed = "".join(traceback.format_exception(await failure_of(await on.client.start(body))))
    assert printed.count(line) == 1
    assert f"{name}: " in printed
