"""A message sent before a wait's timeout wins, and messages keep their order.

The first also if nobody has told the run's worker of it yet, the second whatever the store's clock does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from holdfast import Worker, wait_for_event, wait_for_signal, workflow
from holdfast.model import Message
from holdfast.store import News
from tests.worker.samples import nothing
from tests.worker.stage import PATIENCE, SkippingStore, StandingClock, stage, until


class Deaf(SkippingStore):
    """A store that never sends news, as if every message came from another host whose news were lost."""

    def subscribe(self, callback: Callable[[], None], to: News = News.ANY) -> Callable[[], None]:
        return lambda: None


@workflow
async def listening() -> str:
    await nothing()
    return str(await wait_for_signal("go", timeout="9s", default="late"))


@workflow
async def listening_within() -> str:
    await nothing()
    try:
        async with asyncio.timeout(9):
            return str(await wait_for_signal("go"))
    except TimeoutError:
        return "late"


async def outcome(database_url: str, body: Any, *signals: str) -> str:
    """What the run comes to when its worker learns of signals by its own looks only."""
    async with stage(database_url) as on:
        deaf = Deaf(database_url, on.clock)
        await deaf.open()
        run = await on.client.start(body)
        async with Worker(deaf, workflows=[body], clock=on.clock, lease="1000d"):
            await on.until_waiting(run)
            for name in signals:
                await run.signal(name, "in time")
            on.skip("10s")
            result: str = await run.result(PATIENCE)
        await deaf.close()
        return result


async def test_a_signal_sent_in_time_wins_over_the_timeout_of_its_wait(database_url):
    assert await outcome(database_url, listening, "go") == "in time"


async def test_a_signal_sent_in_time_wins_over_a_timeout_around_its_wait(database_url):
    assert await outcome(database_url, listening_within, "other", "go") == "in time"


@workflow
async def awaiting() -> str:
    await nothing()
    return str(await wait_for_event("paid", timeout="9s", default="late"))


async def test_an_event_published_in_time_wins_though_it_is_matched_after_a_signal_has_come_too_late(database_url):
    async with stage(database_url) as on:
        run = await on.client.start(awaiting)
        async with on.worker(awaiting):
            await on.until_waiting(run)
        await on.client.publish("paid", "in time")
        on.skip("10s")
        await run.signal("other")
        async with on.worker(awaiting):
            assert await run.result(PATIENCE) == "in time"


@workflow
async def hearing_two() -> list[str]:
    return [str(await wait_for_signal("go")), str(await wait_for_signal("go"))]


async def test_signals_keep_their_order_when_the_clock_is_set_back_between_them(database_url):
    async with stage(database_url) as on:
        run = await on.client.start(hearing_two)
        await run.signal("go", "first")
        on.clock.skipped -= 20_000_000
        await run.signal("go", "second")
        on.clock.skipped += 20_000_000
        async with on.worker(hearing_two):
            assert await run.result(PATIENCE) == ["first", "second"]


@workflow
async def hearing_soon() -> list[str]:
    return [str(await wait_for_signal("go", timeout="9s")), str(await wait_for_signal("go", timeout="9s"))]


class Stale(SkippingStore):
    """A store with a late answer: it still holds a message that a turn has taken in the meantime."""

    late: tuple[Message, ...] = ()

    async def read_inbox(self, worker_id: str, *, known: Sequence[int] = ()) -> list[Message]:
        found = await super().read_inbox(worker_id, known=known)
        late, self.late = self.late, self.late or tuple(found)
        return [*late, *found]


async def test_a_message_that_is_still_in_a_late_answer_is_not_taken_twice(database_url):
    async with stage(database_url) as on:
        store = Stale(database_url, on.clock)
        await store.open()
        run = await on.client.start(hearing_soon)
        async with Worker(store, workflows=[hearing_soon], clock=on.clock, lease="1000d"):
            await on.until_waiting(run)
            await run.signal("go", "first")

            async def is_taken() -> bool:
                return "signal" in await on.kinds(run)

            await until(is_taken)
            await run.signal("go", "second")
            assert await run.result(PATIENCE) == ["first", "second"]
        await store.close()


async def test_a_wait_without_a_signal_times_out(database_url):
    assert await outcome(database_url, listening) == "late"


@workflow
async def hearing_both() -> list[str]:
    await nothing()
    return await asyncio.gather(
        wait_for_signal("first", timeout="5s", default="late"), wait_for_signal("second", timeout="6s", default="late")
    )


class Slow(Deaf):
    """A store with a slow answer: what happens in the meantime is not in it."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def read_inbox(self, worker_id: str, *, known: Sequence[int] = ()) -> list[Message]:
        found = await super().read_inbox(worker_id, known=known)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return found


async def test_a_look_at_the_inbox_lets_no_timer_fire_that_became_due_after_it(database_url):
    """The answer comes late, as when a body blocks the loop; a message sent in the meantime still wins."""
    # The second timer is not due before the look, however long the way there takes.
    async with stage(database_url, clock=StandingClock()) as on:
        deaf, slow = Deaf(database_url, on.clock), Slow(database_url, on.clock)
        await deaf.open()
        await slow.open()
        run = await on.client.start(hearing_both)
        async with Worker(deaf, workflows=[hearing_both], clock=on.clock, lease="1000d") as worker:
            await on.until_waiting(run)
            assert worker._session is not None
            worker._session._listening._read = partial(slow.read_inbox, worker._session.worker_id)

            async def meanwhile() -> None:
                await run.signal("second", "in time")
                on.clock.skipped += 1_000_000

            slow.meanwhile = meanwhile
            on.skip("5.5s")
            assert await run.result(PATIENCE) == ["late", "in time"]
        await slow.close()
        await deaf.close()
