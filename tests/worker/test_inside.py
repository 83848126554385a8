"""A transactional step begins only while the lease holds, however long its connection was on its way; and if its
transaction does not happen, it is not tried again and again without a pause that grows."""

import asyncio
from types import SimpleNamespace

import pytest

from holdfast.store import Undone
from holdfast.worker.inside import Inside


class Lender:
    """Lends at once; the lease lapses while it does so, for the first so many times."""

    is_exclusive = False
    is_async = True
    timeout = None

    def __init__(self, lapses):
        self.lapses = lapses
        self.lent = []

    def lend(self):
        loan = SimpleNamespace(is_ended=False)

        async def begin():
            self.lent.append(loan)

        async def end():
            loan.is_ended = True

        loan.begin, loan.end = begin, end
        return loan

    def holds(self):
        return len(self.lent) > self.lapses


def attempt():
    step = SimpleNamespace(is_async=True, name="book")
    held = SimpleNamespace(is_committing=False)
    return SimpleNamespace(
        command=SimpleNamespace(step=step),
        timeout=None,
        loan=None,
        held=held,
        is_settled=False,
        is_holding=False,
        kept=None,
    )


def inside(lender, pauses=None):
    told = [] if pauses is None else pauses
    return Inside(
        lender,
        store_time=lambda: None,
        may_commit=lender.holds,
        undone=lambda held, why, pause: told.append(pause),
        send=[].append,
    )


async def test_a_connection_that_came_after_the_lease_had_lapsed_is_given_back():
    lender, waiting = Lender(lapses=2), attempt()
    await inside(lender).begin(waiting)
    assert [loan.is_ended for loan in lender.lent] == [True, True, False]
    assert waiting.loan is lender.lent[-1]


async def test_an_attempt_whose_run_was_lost_in_the_meantime_does_not_begin():
    lender, waiting = Lender(lapses=10**6), attempt()
    asyncio.get_running_loop().call_later(0.01, setattr, waiting, "is_settled", True)
    with pytest.raises(asyncio.CancelledError):
        await inside(lender).begin(waiting)
    assert waiting.loan is None
    assert all(loan.is_ended for loan in lender.lent)


async def test_a_transaction_that_fails_to_commit_is_tried_after_longer_and_longer_pauses():
    pauses, lender = [], Lender(lapses=0)
    fates = [*[Undone("the disk is full")] * 9, True, Undone("the disk is full")]
    serving = inside(lender, pauses)
    for fate in fates:
        trying = attempt()
        await serving.begin(trying)

        async def commit(turn, *, now, fate=fate):
            return fate

        trying.loan.commit = commit
        trying.turn = SimpleNamespace(run_id="r"), lambda held, turn, verdict: pauses.append(verdict)
        await serving.commit(trying)
    seconds = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]
    assert pauses == [*[round(one * 1_000_000) for one in seconds], True, 100_000]
