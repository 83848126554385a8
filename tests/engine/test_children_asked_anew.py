"""What the next try of a run asks for where a child is open: another run, or the one that was there."""

from __future__ import annotations

import pytest

from holdfast import Retry, workflow
from tests.engine.samples import Declined, refuse


@workflow
async def helper() -> None: ...


def asked_anew(begin, **options):
    """The child that a run starts first, and what the next try of that run sends out."""

    @workflow(retry=Retry(attempts=3, initial="1s", jitter=0))
    async def body() -> None:
        child = helper.options(**options).start()
        child.signal("go", 1)
        child.cancel()
        await refuse("visa")

    drive = begin(body)
    [former] = drive.out[0].children
    drive.fail("refuse", Declined("visa", cents=1))
    drive.run_again()
    drive.execution.ask_anew(drive.execution.time)
    drive.take()
    return former, drive.out[-1]


def test_a_child_bound_to_its_parent_is_cancelled_and_its_successor_gets_its_messages(begin):
    former, out = asked_anew(begin, on_parent_end="cancel")
    [child] = out.children
    assert child.id != former.id
    assert [(one.run_id, one.name) for one in out.signals] == [(child.id, "go")]
    assert out.cancels == (former.id, child.id)


@pytest.mark.parametrize("options", [{"on_parent_end": "abandon"}, {"id": "its own"}])
def test_a_child_with_an_id_or_key_stays_the_same_run_and_gets_no_message_twice(begin, options):
    former, out = asked_anew(begin, **options)
    [child] = out.children
    assert (child.id, out.signals, out.cancels) == (former.id, (), (former.id,))


def test_what_a_try_asks_for_anew_is_not_recorded_at_an_earlier_time_than_the_failure(begin):
    @workflow(retry=Retry(attempts=3, initial="1s", jitter=0))
    async def body() -> None:
        helper.start()
        await refuse("visa")

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    failed_at = drive.entries[-1].at
    drive.run_again()
    drive.execution.ask_anew(drive.execution.time)
    drive.take()
    assert drive.entries[-1].kind == "reopened"
    assert drive.entries[-1].at >= failed_at
