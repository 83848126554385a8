"""Stubs of a machine's states: they get the context and say what follows, as the states do."""

from __future__ import annotations

import pytest

from holdfast import Done, Machine, Next, RunFailed, step
from holdfast.define import Context
from holdfast.errors import DefinitionError
from holdfast.testing import Environment, assert_durable


def begin(ctx: Context) -> Next:
    ctx["order"] = ctx.input
    return Next("charge")


@step
async def charge(ctx: Context) -> Done[str]:
    raise OSError("no bank here")


paying = Machine("paying", {"start": begin, "charge": charge})


async def outcome(stubs):
    """What a run comes to, and what the stubbed state was called with."""
    async with Environment(paying, stubs=stubs) as env:
        run = await env.client.start(paying, "order 7")
        return await run.result(), env.calls(charge)


@pytest.mark.parametrize("state", [charge, "charge"], ids=["step", "name"])
async def test_a_stub_of_a_state_says_what_follows(state):
    assert (await outcome({state: Done("paid")}))[0] == "paid"


@pytest.mark.parametrize("state", [charge, "charge"], ids=["step", "name"])
async def test_a_function_gets_the_context_and_writes_to_it(state):
    async def bank(ctx: Context) -> Done[str] | Next:
        ctx["tries"] = ctx.get("tries", 0) + 1
        return Next("charge") if ctx["tries"] < 3 else Done(f"{ctx.input}, {ctx['order']}, {ctx['tries']}")

    assert (await outcome({state: bank}))[0] == "order 7, order 7, 3"


async def test_calls_show_the_context_as_the_state_got_it():
    def bank(ctx: Context) -> Done[None]:
        ctx["order"] = "none"
        return Done()

    _, calls = await outcome({charge: bank})
    ((ctx,),) = [call.args for call in calls]
    assert (ctx.input, ctx.state, dict(ctx)) == ("order 7", "charge", {"order": "order 7"})


async def test_a_stub_that_returns_no_next_state_is_an_error_that_names_the_state():
    with pytest.raises(RunFailed) as failed:
        await outcome({charge: "paid"})
    assert isinstance(failed.value.__cause__, DefinitionError)
    assert "the state 'charge' returned 'paid'" in str(failed.value.__cause__)


def test_a_machine_with_stubs_is_durable():
    assert_durable(paying, "order 7", stubs={charge: Done("paid")})
