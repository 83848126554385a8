"""A transactional step begins only while the lease holds, however long its connection was on its way."""

import asyncio
from types import SimpleNamespace

import pytest

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


def inside(lender):
    return Inside(
        lender, store_time=lambda: None, may_commit=lender.holds, undone=lambda held, why: None, send=[].append
    )


async def test_a_connection_that_came_after_the_lease_had_lapsed_is_given_back():
    lender, waiting = Lender(lapses=2), attempt()
    await inside(lender).begin(waiting)
    assert [loan.is_ended for loan in lender.lent] == [True, True, False]
    assert waiting.loan is lender.lent[-1]


async def test_an_attempt_whose_run_is_lost_meanwhile_does_not_begin():
    lender, waiting = Lender(lapses=10**6), attempt()
    asyncio.get_running_loop().call_later(0.01, setattr, waiting, "is_settled", True)
    with pytest.raises(asyncio.CancelledError):
        await inside(lender).begin(waiting)
    assert waiting.loan is None
    assert all(loan.is_ended for loan in lender.lent)
