"""assert_durable of runs that continue as new: every run of the chain counts, and the end is that of the last one."""

from __future__ import annotations

import pytest

from holdfast import current_step, step, workflow
from holdfast.testing import assert_durable

paid: dict[str, int] = {}


@step
async def pay(cents: int) -> str:
    paid[current_step().idempotency_key] = cents
    return f"receipt {cents}"


@workflow
async def instalments(left: int = 2) -> str:
    receipt = await pay(left)
    if left:
        instalments.continue_as_new(left - 1)
    return receipt


def test_a_chain_of_runs_is_durable_to_its_last_run():
    found = assert_durable(instalments, effects=paid)
    assert sum("ended continued" in point.text for point in found.commits) == 2


def test_an_end_that_differs_in_a_later_run_of_a_chain_is_reported():
    numbers = iter(range(1_000))

    @workflow
    async def counting(left: int = 1) -> int:
        if left:
            counting.continue_as_new(left - 1)
        return next(numbers)

    with pytest.raises(AssertionError, match="the outcome was completed with 1 instead of completed with 0"):
        assert_durable(counting)


def test_a_result_that_differs_in_a_later_run_of_a_chain_is_reported():
    numbers = iter(range(1_000))

    @workflow
    async def counting(left: int = 2) -> None:
        await pay(1 if left else next(numbers))
        if left:
            counting.continue_as_new(left - 1)

    with pytest.raises(AssertionError, match="the step 'pay' of the chain's run 3 has step_completed 'receipt 1'"):
        assert_durable(counting)
