"""Coroutines that begin at once: they become tasks where they first wait, or never need one."""

import asyncio
import contextvars

import pytest

from holdfast.store.postgres.eager import Straight, begin

KINDS = pytest.mark.parametrize("kind", [begin, Straight])


@KINDS
async def test_an_eager_coroutine_begins_before_anybody_awaits_it(kind):
    seen, gate = [], asyncio.get_running_loop().create_future()

    async def work():
        seen.append("begun")
        seen.append(await gate)
        return "done"

    found = kind(work())
    assert seen == ["begun"]
    gate.set_result("went on")
    assert await found == "done"
    assert seen == ["begun", "went on"]


@KINDS
async def test_an_eager_coroutine_that_never_waits_is_done_at_once(kind):
    async def work():
        return "done"

    found = kind(work())
    assert found.done()
    assert await found == "done"


@KINDS
@pytest.mark.parametrize("waits", [0, 1, 3])
async def test_an_exception_of_an_eager_coroutine_is_raised_to_its_awaiter(kind, waits):
    async def work():
        for _ in range(waits):
            await _soon()
        raise ValueError(waits)

    found = kind(work())
    with pytest.raises(ValueError, match=str(waits)):
        await found


@KINDS
async def test_a_future_that_an_eager_coroutine_awaits_may_fail(kind):
    gate = asyncio.get_running_loop().create_future()

    async def work():
        try:
            await gate
        except KeyError:
            return "caught"

    found = kind(work())
    gate.set_exception(KeyError())
    assert await found == "caught"


@KINDS
async def test_a_future_that_an_eager_coroutine_awaits_may_be_cancelled(kind):
    gate = asyncio.get_running_loop().create_future()

    async def work():
        await gate

    found = kind(work())
    gate.cancel()
    with pytest.raises(asyncio.CancelledError):
        await found


async def test_an_eager_task_cancelled_before_its_first_turn_raises_in_its_coroutine():
    seen = []

    async def work():
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    found = begin(work())
    found.cancel()
    with pytest.raises(asyncio.CancelledError):
        await found
    assert seen == ["cancelled"]


async def test_an_eager_task_cancelled_before_its_first_turn_may_await_something_else():
    gate, other = (asyncio.get_running_loop().create_future() for _ in range(2))

    async def work():
        try:
            await gate
        except asyncio.CancelledError:
            return await other

    found = begin(work())
    found.cancel()
    await asyncio.sleep(0)
    other.set_result("cleaned up")
    assert await found == "cleaned up"


@KINDS
async def test_a_future_that_an_eager_coroutine_awaits_may_have_other_awaiters(kind):
    gate = asyncio.get_running_loop().create_future()

    async def work():
        return await gate

    # This one comes first: it waits between the beginning of the other and the turn of the loop that makes it a task.
    first = asyncio.create_task(work())
    found = kind(work())
    await asyncio.sleep(0)
    gate.set_result("there")
    assert await asyncio.gather(first, found) == ["there", "there"]


async def test_an_awaiter_of_a_straight_coroutine_is_called_in_the_same_turn_of_the_loop():
    gate = asyncio.get_running_loop().create_future()
    seen = []
    place = contextvars.ContextVar("place", default="somewhere")
    context = contextvars.copy_context()
    context.run(place.set, "here")

    async def work():
        return await gate

    found = Straight(work())
    found.add_done_callback(lambda done: seen.append((done.result(), place.get())), context=context)
    gate.set_result("done")
    # One turn, in which what it waits for is heard of.
    await asyncio.sleep(0)
    assert seen == [("done", "here")]


async def test_several_tasks_may_await_one_straight_coroutine():
    gate = asyncio.get_running_loop().create_future()

    async def work():
        return await gate

    async def wait(found):
        return await found

    found = Straight(work())
    waiting = [asyncio.create_task(wait(found)) for _ in range(3)]
    await asyncio.sleep(0)
    gate.set_result("done")
    assert await asyncio.gather(*waiting) == ["done"] * 3


async def test_a_straight_coroutine_is_finished_though_nobody_awaits_it_any_more():
    gate = asyncio.get_running_loop().create_future()
    seen = []

    async def work():
        seen.append(await gate)

    found = Straight(work())

    async def wait():
        await found

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.set_result("done")
    await asyncio.sleep(0)
    assert seen == ["done"]
    assert found.cancelled()


async def test_an_awaiter_that_gave_up_is_not_called():
    gate = asyncio.get_running_loop().create_future()

    async def work():
        return await gate

    found = Straight(work())
    found.add_done_callback(pytest.fail)
    assert found.remove_done_callback(pytest.fail) == 1
    gate.set_result("done")
    assert await found == "done"


async def _soon():
    await asyncio.sleep(0)


@pytest.mark.parametrize("fails", [False, True], ids=["result", "error"])
async def test_an_error_of_a_straight_coroutine_that_nobody_awaits_is_not_reported_by_the_loop(fails):
    complaints = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    gate = loop.create_future()

    async def work():
        await gate
        if fails:
            raise ValueError("too late")

    found = Straight(work())
    found.cancel()
    gate.set_result(None)
    await asyncio.sleep(0)
    assert (complaints, found.cancelled()) == ([], True)


async def test_an_awaiter_of_a_straight_coroutine_is_called_in_an_empty_context_if_one_was_given():
    gate = asyncio.get_running_loop().create_future()
    seen = []
    place = contextvars.ContextVar("place", default="nowhere")
    place.set("here")

    async def work():
        return await gate

    Straight(work()).add_done_callback(lambda _: seen.append(place.get()), context=contextvars.Context())
    gate.set_result("done")
    await asyncio.sleep(0)
    assert seen == ["nowhere"]
