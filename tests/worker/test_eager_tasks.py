"""An application may have its loop begin tasks at once, as `asyncio.eager_task_factory` does from Python 3.12 on."""

from __future__ import annotations

import asyncio
import contextvars
import types

from holdfast import StoreError, set_value, step, workflow
from tests.worker.stage import PATIENCE, stage


@types.coroutine
def gone_on(work, waited):
    """The rest of a coroutine that waits for a future already."""
    try:
        while True:
            if waited is not None:
                waited._asyncio_future_blocking = True
            try:
                yield waited
            except BaseException as error:
                waited = work.throw(error)
            else:
                waited = work.send(None)
    except StopIteration as end:
        return end.value


class Over(asyncio.Future):
    """What a task that is over before it is there looks like."""

    def set_name(self, name):
        pass


def begun_at_once(loop, work, *, context=None, **named):
    """A task of what is left when it first waits, or a future of what it came to without waiting."""
    context = context or contextvars.copy_context()
    try:
        waited = context.run(work.send, None)
    except StopIteration as end:
        done = Over(loop=loop)
        done.set_result(end.value)
        return done
    return asyncio.Task(gone_on(work, waited), loop=loop, context=context, **named)


@step
async def double(number: int) -> int:
    return 2 * number


@workflow
async def doubled() -> list[int]:
    first = await double(1)
    return await asyncio.gather(*(double(number) for number in (first, 3, 4)))


def begin_at_once() -> None:
    asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", begun_at_once))


async def test_steps_that_are_over_before_their_task_is_there_are_recorded(database_url):
    async with stage(database_url) as on:
        run = await on.client.start(doubled)
        begin_at_once()
        async with on.worker(doubled):
            assert await run.result(PATIENCE) == [4, 6, 8]


@step
async def tell() -> str:
    for name in ("odd", "even"):
        set_value(name, name)
        await asyncio.sleep(0)
    return "told"


@workflow
async def telling() -> str:
    return await tell()


async def test_a_value_that_the_store_refuses_at_once_keeps_no_later_value_waiting(database_url, monkeypatch):
    async with stage(database_url) as on:
        kept = on.store.set_value

        async def set_even(run_id, name, value, **given):
            if name == "odd":
                raise StoreError("no such text")
            await kept(run_id, name, value, **given)

        monkeypatch.setattr(on.store, "set_value", set_even)
        run = await on.client.start(telling)
        begin_at_once()
        async with on.worker(telling):
            assert await run.result(PATIENCE) == "told"
            assert await run.value("even") == "even"
