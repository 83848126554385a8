"""A cancel that arrives together with what makes the body fail."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    ("reason", "told"),
    [("sold out", "it was cancelled (sold out) as it failed"), (None, "it was cancelled as it failed")],
)
def test_a_cancel_that_comes_with_a_failure_is_noted_with_it(begin, reason, told):
    drive = begin(stubborn)
    drive.take(drive.failed("refuse", ValueError("no")), Cancel(drive.tick(), reason))
    assert told in "\n".join(drive.error.__notes__)
