"""A workflow's own retry after a failure of the body itself: no step failed, so there is nothing to cut."""

from __future__ import annotations

from holdfast import Retry, workflow
from tests.engine.samples import double

THRICE = Retry(attempts=3, initial="1s", jitter=0)


def test_a_body_that_fails_without_any_failed_step_goes_on_where_it_failed(begin):
    lives: list[int] = []

    @workflow(retry=THRICE)
    async def body() -> int:
        n = await double(1)
        lives.append(n)
        if len(lives) == 1:
            raise ValueError("the first time only")
        return n + await double(2)

    drive = begin(body)
    drive.complete("double")
    assert drive.retrying is not None
    drive.run_again()
    assert drive.finish().result == 6
    assert drive.asked.count("double") == 1


def test_a_body_that_always_fails_by_itself_fails_the_run_after_its_last_try(begin):
    @workflow(retry=THRICE)
    async def body() -> None:
        await double(1)
        raise ValueError("always")

    drive = begin(body)
    drive.complete("double")
    for _ in range(2):
        assert drive.retrying is not None
        drive.run_again()
    assert isinstance(drive.error, ValueError)
