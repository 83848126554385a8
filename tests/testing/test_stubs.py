"""Stubs: a value, an exception or a function in a step's place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast import FatalError, Retry, RunFailed, RunStatus, StepTimeout, step, workflow
from holdfast.errors import DefinitionError, NotEncodable
from holdfast.testing import Call, Environment, assert_durable, takes
from tests.testing.orders import ORDER, Order, charge, checkout, ship

START = datetime(2030, 1, 1, tzinfo=UTC)


def environment(stubs, *workflows):
    return Environment(workflows or [checkout], stubs=stubs, start=START)


async def outcome(env):
    """The result of a checkout, or the exception that its body left with."""
    run = await env.client.start(checkout, ORDER)
    try:
        return await run.result()
    except RunFailed as failed:
        return failed.__cause__


async def test_a_stub_s_value_is_the_step_s_result():
    async with environment({charge: "one", ship: "two"}) as env:
        assert await outcome(env) == "two"
        assert env.calls(ship)[0].args == (ORDER, "one")


async def test_none_as_a_stub_is_the_step_s_result():
    @step
    async def fetch() -> int | None:
        return 1

    @workflow
    async def fetching() -> bool:
        return await fetch() is None

    async with environment({fetch: None}, fetching) as env:
        assert await (await env.client.start(fetching)).result() is True


@pytest.mark.parametrize("stub", [FatalError("no money"), FatalError], ids=["instance", "class"])
async def test_a_stub_s_exception_is_raised(stub):
    async with environment({charge: stub}) as env:
        assert isinstance(await outcome(env), FatalError)
        assert len(env.calls(charge)) == 1


async def test_a_stub_s_function_is_called_with_the_step_s_arguments():
    async def async_stub(card: str, cents: int) -> str:
        return f"{card}:{cents}"

    def stub(order: Order, payment: str) -> str:
        return f"{payment} for {type(order).__name__}"

    async with environment({charge: async_stub, ship: stub}) as env:
        assert await outcome(env) == "4711:100 for Order"


async def test_a_stub_knows_the_step_that_it_stands_in_for():
    async with environment(
        {charge: lambda *_: holdfast.current_step().idempotency_key, ship: lambda _, paid: paid}
    ) as env:
        run = await env.client.start(checkout, ORDER)
        assert await run.result() == f"{run.id}/charge"


async def test_arguments_pass_through_the_codec():
    given = []

    def keep(order: Order, payment: str) -> str:
        given.append(order)
        order.cents = 0
        return "shipped"

    async with environment({charge: "paid", ship: keep}) as env:
        await outcome(env)
        assert given[0] is not ORDER
        assert ORDER.cents == 100


async def test_results_pass_through_the_codec_by_the_steps_own_annotation():
    @step
    async def pair() -> tuple[int, Order]: ...

    @workflow
    async def pairs() -> str:
        number, order = await pair()
        return f"{number} {order.card}"

    async with environment({pair: [1, {"card": "4711", "cents": 2}]}, pairs) as env:
        run = await env.client.start(pairs)
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert isinstance(failed.value.__cause__, NotEncodable)
    async with environment({pair: (1, ORDER)}, pairs) as env:
        assert await (await env.client.start(pairs)).result() == "1 4711"


async def test_errors_of_a_stub_are_retried_after_the_delays_of_the_step_s_policy():
    when = []

    def fail(*_):
        when.append((env.now - START - timedelta(days=1)).total_seconds())
        raise ValueError("not yet")

    async with environment({charge: "paid", ship: fail}) as env:
        assert repr(await outcome(env)) == "ValueError('not yet')"
        assert when == [0, 10, 30]
        assert [call.attempt for call in env.calls(ship)] == [1, 2, 3]


async def test_a_stub_may_take_its_time():
    async with environment({charge: takes("5m", "paid"), ship: takes("20s", lambda order, payment: payment)}) as env:
        assert await outcome(env) == "paid"
        assert env.now - START == timedelta(days=1, minutes=5, seconds=20)


@pytest.mark.parametrize("colour", ["async", "thread"])
async def test_a_stub_that_takes_too_long_runs_into_the_steps_timeout(colour, caplog):
    @workflow
    async def slow() -> str:
        if colour == "async":
            return await charge.options(timeout="30s", retry=Retry(attempts=1))("4711", 1)
        return ship.options(retry=Retry(attempts=1))(ORDER, "paid")

    async with environment({charge: takes("1h"), ship: takes("1h")}, slow) as env:
        run = await env.client.start(slow)
        assert await run.wait() is RunStatus.FAILED
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert isinstance(failed.value.__cause__, StepTimeout)
        assert env.now - START == timedelta(seconds=30)


async def test_a_stub_holds_for_its_step_under_any_name_and_options():
    @workflow
    async def twice() -> list[str]:
        return [await charge("a", 1), await charge.options(name="again")("b", 2)]

    async with environment({charge: lambda card, cents: card}, twice) as env:
        assert await (await env.client.start(twice)).result() == ["a", "b"]
        assert [call.key for call in env.calls(charge)] == ["charge", "again"]


async def test_an_inline_step_is_stubbed_by_its_name():
    def real(n: int) -> int:
        raise AssertionError

    @workflow
    async def inline() -> int:
        return await holdfast.call("double", real, 21)

    async with environment({"double": lambda n: 2 * n}, inline) as env:
        assert await (await env.client.start(inline)).result() == 42
        assert env.calls("double") == [Call((21,), {}, "double", 1, "any run")]


async def test_calls_are_listed_in_order_with_their_arguments():
    @workflow
    async def two() -> None:
        await charge("a", cents=1)
        await charge(card="b", cents=2)

    async with environment({charge: "paid"}, two) as env:
        await (await env.client.start(two)).wait()
        assert [call.args for call in env.calls(charge)] == [("a", 1), ("b", 2)]
        assert [call.key for call in env.calls(charge)] == ["charge", "charge:1"]
        assert env.calls(ship) == []


async def test_a_stub_for_an_unused_step_is_allowed():
    @step
    async def unused() -> None: ...

    async with environment({charge: "paid", unused: None}) as env:
        assert await outcome(env) == "4711 paid by paid"


@pytest.mark.parametrize("key", [print, 1, "", checkout])
def test_a_stub_for_an_object_that_is_no_step_is_refused(key):
    with pytest.raises(DefinitionError, match="is not a step"):
        environment({key: "value"})


def test_asking_for_calls_of_an_object_that_is_no_step_is_refused():
    with pytest.raises(DefinitionError, match="expected a step"):
        environment({}).calls(print)


@step(retry=Retry(attempts=1))
async def fetch(page: int) -> str:
    return f"page {page}"


@step(retry=Retry(attempts=1))
def render(page: int) -> str:
    return f"picture {page}"


STEPS = {"async def": fetch, "def": render}


@workflow
async def mapping(how: str, pages: list[int]) -> list[str | None]:
    found = await holdfast.map(STEPS[how], pages, chunk=2, on_error="collect")
    return [one if isinstance(one, str) else None for one in found]


async def mapped(how, stubs):
    async with environment(stubs, mapping) as env:
        found = await (await env.client.start(mapping, how, [1, 2, 3])).result()
        return found, sorted(call.args for call in env.calls(STEPS[how]))


@pytest.mark.parametrize("how", STEPS)
async def test_a_stub_stands_in_for_each_item_of_a_map(how):
    assert await mapped(how, {STEPS[how]: "stubbed"}) == (["stubbed"] * 3, [(1,), (2,), (3,)])


@pytest.mark.parametrize("how", STEPS)
async def test_a_stub_gets_the_item_alone(how):
    assert (await mapped(how, {STEPS[how]: lambda page: "x" * page}))[0] == ["x", "xx", "xxx"]


@pytest.mark.parametrize("how", STEPS)
async def test_a_stub_may_fail_one_item_and_not_the_others(how):
    def some(page):
        if page == 2:
            raise ValueError(page)
        return "well"

    assert (await mapped(how, {STEPS[how]: some}))[0] == ["well", None, "well"]


@pytest.mark.parametrize("how", STEPS)
async def test_items_that_are_not_stubbed_are_executed_and_counted_each(how):
    word = {"async def": "page", "def": "picture"}[how]
    assert await mapped(how, {}) == ([f"{word} {page}" for page in (1, 2, 3)], [(1,), (2,), (3,)])


@pytest.mark.parametrize("how", STEPS)
async def test_a_stub_of_an_item_sees_its_idempotency_key(how):
    keys, _ = await mapped(how, {STEPS[how]: lambda _: holdfast.current_step().idempotency_key})
    assert len(set(keys)) == 3


def test_a_map_with_stubs_is_durable():
    paid = {}

    def pay(page):
        paid[holdfast.current_step().idempotency_key] = page
        return "paid"

    assert_durable(mapping, "async def", [1, 2, 3], stubs={fetch: pay}, effects=paid)
    assert sorted(paid.values()) == [1, 2, 3]


async def test_a_call_keeps_its_arguments_as_the_step_got_them():
    @step
    async def emptying(basket: list[str], *, crates: list[str]) -> int:
        count = len(basket) + len(crates)
        basket.clear()
        crates.clear()
        return count

    @workflow
    async def shopping() -> int:
        return await emptying(["tea"], crates=["milk"])

    async with Environment(shopping) as env:
        assert await (await env.client.start(shopping)).result() == 2
        [call] = env.calls(emptying)
    assert (call.args, call.kwargs) == ((["tea"],), {"crates": ["milk"]})
