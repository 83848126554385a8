"""`current_run().attempt`: as it was when the body lived through that part of its history."""

from __future__ import annotations

from holdfast import Retry, current_run, workflow
from holdfast.model import history_of
from tests.engine.samples import double, refuse

TWICE = Retry(attempts=2, initial="1s", jitter=0)


@workflow(retry=TWICE)
async def brave_the_second_time() -> list[int]:
    seen = [current_run().attempt]
    await double(1)
    if current_run().attempt == 1:
        await refuse("card")
    seen.append(current_run().attempt)
    await double(seen[-1])
    return seen


def test_a_body_that_asks_for_its_attempt_is_rebuilt_alike(begin):
    drive = begin(brave_the_second_time)
    drive.complete("double")
    drive.fail("refuse", ValueError("no"))
    assert drive.retrying is not None
    history = history_of(drive.entries)
    again = drive.live()
    again.replay(history.entries, history.lives)
    assert again.run.attempt == 2
    assert list(again.commands) == ["refuse"]


def test_the_first_part_of_the_history_is_the_first_attempt_s(begin):
    drive = begin(brave_the_second_time)
    drive.complete("double")
    drive.fail("refuse", ValueError("no"))
    drive.run_again()
    drive.complete("refuse", "ok")
    assert drive.finish().result == [1, 2]
    history = history_of(drive.entries)
    drive.live().replay(history.entries[:-1], history.lives)
