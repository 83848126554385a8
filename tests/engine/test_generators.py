"""P9: generators of a body that is put away."""

from __future__ import annotations

import gc

import pytest

from holdfast import current_run, workflow
from tests.engine.samples import double, triple

ALERTS: list[str] = []


@pytest.fixture(autouse=True)
def fresh_alerts():
    ALERTS.clear()
    yield
    ALERTS.clear()


def test_an_async_generator_between_two_items_is_closed_in_its_own_run(begin):
    @workflow
    async def body() -> None:
        async def items():
            try:
                yield 1
                yield 2
            finally:
                ALERTS.append(current_run().id)

        async for _ in items():
            await double(1)

    begin(body).execution.put_away()
    assert ALERTS == ["run-1"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_generator_in_a_cycle_never_asks_in_another_run(begin):
    """Its `finally` runs when the collector likes; it must not reach the run that is advancing then."""

    @workflow
    async def first() -> None:
        def items():
            try:
                yield held
            finally:
                pending = triple.start(1)
                ALERTS.append(pending.key)

        held: list[object] = []
        held.append(items())
        next(held[0])  # type: ignore[call-overload]
        await double(1)

    @workflow
    async def second() -> int:
        gc.collect()
        return await double(2)

    begin(first).execution.put_away()
    drive = begin(second, run_id="run-2").finish()
    assert ALERTS == []
    assert drive.asked == ["double"]
