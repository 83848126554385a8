"""What undoes something gets what was there when it was registered, and is refused there if it could not be called."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast import BadArguments, NotEncodable, RunFailed, compensate, step, workflow
from holdfast.testing import Environment, assert_durable
from tests.life.trips import fail

refunded: dict[str, Any] = {}


@step
async def refund(payment: dict[str, int]) -> None:
    refunded[holdfast.current_step().idempotency_key] = payment["cents"]


@step(compensate=refund)
async def pay(cents: int) -> dict[str, int]:
    return {"cents": cents}


@workflow
async def registered_and_changed() -> None:
    payment = {"cents": 1200}
    compensate(refund, payment)
    payment["cents"] = 0
    await fail()


@workflow
async def paid_and_changed() -> None:
    payment = await pay(1200)
    payment["cents"] = 0
    await fail()


@workflow
async def mapped_and_changed() -> None:
    for payment in await holdfast.map(pay, [1200], chunk=1):
        payment["cents"] = 0
    await fail()


@pytest.mark.parametrize("workflow_", [registered_and_changed, paid_and_changed, mapped_and_changed])
def test_a_compensation_keeps_its_arguments_though_the_body_changes_them_later(workflow_):
    refunded.clear()
    with Environment(workflow_) as env:
        with pytest.raises(RunFailed):
            env.client.start(workflow_).result()
        assert [*refunded.values()] == [1200]


@pytest.mark.parametrize("workflow_", [registered_and_changed, paid_and_changed])
def test_the_arguments_of_a_compensation_survive_a_crash_at_every_commit(workflow_):
    assert_durable(workflow_, effects=refunded)


def forget(thing) -> None: ...


@workflow
async def mistaken(mistake: str) -> str:
    try:
        match mistake:
            case "missing":
                compensate(refund)
            case "too many":
                compensate(refund, {"cents": 1}, 2)
            case "of the wrong type":
                compensate(refund, "1200 cents")
            case "not storable":
                compensate(forget, object())
    except (BadArguments, NotEncodable) as error:
        return type(error).__name__
    return "registered"


@pytest.mark.parametrize(
    ("mistake", "error"),
    [
        ("missing", "BadArguments"),
        ("too many", "BadArguments"),
        ("of the wrong type", "BadArguments"),
        ("not storable", "NotEncodable"),
    ],
)
def test_a_compensation_that_could_not_be_called_is_refused_where_it_is_registered(mistake, error):
    with Environment(mistaken) as env:
        assert env.client.start(mistaken, mistake).result() == error


@step
async def takes_text(text: str) -> None: ...


@step(compensate=takes_text)
async def gives_a_number() -> int:
    return 7


@workflow
async def misfit() -> None:
    await gives_a_number()
    await fail()


def test_a_result_that_does_not_fit_its_compensation_is_reported_with_the_run_s_error():
    with Environment(misfit) as env:
        run = env.client.start(misfit)
        with pytest.raises(RunFailed) as raised:
            run.result()
        assert "could not be compensated: takes_text: BadArguments" in "".join(raised.value.__cause__.__notes__)


class Ticket:
    """Nothing that can be stored."""


@workflow
async def returning() -> Any:
    await pay(1200)
    return "a ticket" if refunded.get("mended") else Ticket()


async def test_a_run_whose_result_can_t_be_stored_is_not_compensated_and_can_be_retried():
    refunded.clear()
    async with Environment(returning) as env:
        run = await env.client.start(returning)
        with pytest.raises(RunFailed) as caught:
            await run.result()
        assert isinstance(caught.value.__cause__, NotEncodable)
        assert not env.calls(refund)
        refunded["mended"] = True
        assert await (await env.client.retry(run.id)).result() == "a ticket"
        assert len(env.calls(pay)) == 1
