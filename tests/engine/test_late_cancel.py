"""A cancel that arrives together with what makes the body fail."""

from __future__ import annotations

from holdfast import Retry, workflow
from holdfast.model import Cancel
from tests.engine.samples import refuse


@workflow(retry=Retry(attempts=None, initial="1s", jitter=0))
async def stubborn() -> None:
    await refuse("card")


def test_a_run_that_fails_before_it_sees_its_cancel_is_not_tried_again(begin):
    drive = begin(stubborn)
    done = drive.take(drive.failed("refuse", ValueError("no")), Cancel(drive.tick()))
    assert done.consumed == 1
    assert (drive.retrying, drive.status) == (None, "failed")


def test_without_a_cancel_it_is(begin):
    drive = begin(stubborn)
    drive.fail("refuse", ValueError("no"))
    assert drive.retrying is not None
