"""Opening and closing a store, and subscribing to its news."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable

import pytest

from holdfast.errors import StoreError
from holdfast.model import RowChange, RunStatus, instant_of

from .stage import LANE, PATIENCE, T0, Stage, new_run, on_stage, quiet, turn, until


@on_stage
class TestLife:
    async def test_opening_and_closing_again_change_nothing(self, stage: Stage) -> None:
        run_id = await stage.start_one()
        await stage.store.open()
        assert (await stage.run(run_id)).id == run_id
        await stage.store.close()
        await stage.store.close()

    async def test_a_store_that_is_not_open_says_so(self, stage: Stage) -> None:
        await stage.store.close()
        with pytest.raises(StoreError, match="open"):
            await stage.store.start_runs([new_run()])
        with pytest.raises(StoreError, match="open"):
            await stage.store.get_run("nobody")
        with pytest.raises(StoreError, match="open"):
            stage.store.renew_lease("one", 1)

    async def test_read_clock_is_the_clock_that_stamps_new_runs(self, stage: Stage) -> None:
        before = await stage.store.read_clock()
        [started] = await stage.store.start_runs([new_run()])
        after = await stage.store.read_clock()
        assert before <= instant_of((await stage.run(started.id)).created_at) <= after

    async def test_closing_finishes_what_is_under_way(self, stage: Stage) -> None:
        starts = [asyncio.ensure_future(stage.store.start_runs([new_run()], now=T0)) for _ in range(50)]
        await asyncio.sleep(0)
        await stage.store.close()
        assert [len(answer) for answer in await asyncio.gather(*starts)] == [1] * 50

    async def test_a_store_that_is_closed_under_other_loops_answers_every_call(self, stage: Stage) -> None:
        counts = [0, 0, 0]

        async def work(place: int) -> None:
            with contextlib.suppress(StoreError):
                while True:
                    await stage.store.start_runs([new_run()])
                    await stage.store.get_run("nobody")
                    counts[place] += 1

        loops = [asyncio.ensure_future(asyncio.to_thread(asyncio.run, work(place))) for place in range(3)]
        assert await until(lambda: min(counts) > 2)
        await stage.store.close()
        assert await asyncio.wait_for(asyncio.gather(*loops), PATIENCE) == [None] * 3

    async def test_a_caller_that_was_cancelled_disturbs_nobody(self, stage: Stage) -> None:
        gone = asyncio.ensure_future(stage.store.start_runs([new_run()], now=T0))
        await asyncio.sleep(0)
        gone.cancel()
        assert len(await stage.start(3)) == 3

    async def test_each_answer_comes_on_the_loop_that_asked(self, stage: Stage) -> None:
        async def elsewhere() -> int:
            return len(await stage.start(2))

        counts = await asyncio.gather(*(asyncio.to_thread(asyncio.run, elsewhere()) for _ in range(4)))
        assert counts == [2, 2, 2, 2]
        assert len(await stage.claim()) == 8

    async def test_a_url_shows_no_password(self, stage: Stage) -> None:
        assert re.search(r"://[^/@]*:(?!\*\*\*@)[^/@]*@", stage.store.url) is None


@on_stage
class TestSubscribe:
    async def test_a_start_a_message_an_end_and_a_hand_back_notify_subscribers(self, stage: Stage) -> None:
        run = await stage.held()
        other = await stage.held()
        notified: list[int] = []
        unsubscribe = stage.store.subscribe(lambda: notified.append(1))
        happenings: list[Callable[[], Awaitable[object]]] = [
            lambda: stage.start_one(),
            lambda: stage.start_one(key="k"),
            lambda: stage.store.cancel_run(run.id, now=T0),
            lambda: stage.hand_back(run, due_at=T0),
            lambda: stage.end(other),
        ]
        for happen in happenings:
            await quiet()
            notified.clear()
            await happen()
            assert await until(lambda: bool(notified))
        unsubscribe()

    async def test_nobody_is_notified_after_unsubscribing(self, stage: Stage) -> None:
        notified: list[int] = []
        unsubscribe = stage.store.subscribe(lambda: notified.append(1))
        unsubscribe()
        unsubscribe()
        await stage.start(3)
        await quiet()
        assert notified == []

    async def test_plain_turns_notify_nobody(self, stage: Stage) -> None:
        run = await stage.held()
        await quiet()
        notified: list[int] = []
        unsubscribe = stage.store.subscribe(lambda: notified.append(1))
        await quiet()
        notified.clear()
        for number in range(20):
            assert await stage.commit(turn(run, after=number)) == [True]
            await asyncio.sleep(0.005)
        await quiet()
        # A store may notify once when it has begun to listen, however long that took.
        assert len(notified) <= 1
        unsubscribe()

    async def test_what_happened_can_be_read_when_subscribers_are_notified(self, stage: Stage) -> None:
        run = await stage.held()
        ended: list[int] = []

        async def look() -> None:
            ended.append(len(await stage.store.read_ended([run.id])))

        looks: list[asyncio.Future[None]] = []
        unsubscribe = stage.store.subscribe(lambda: looks.append(asyncio.ensure_future(look())))
        await stage.commit(turn(run, change=RowChange(status=RunStatus.COMPLETED)))
        # The claim may be notified, too, before the end is there. Only notifications make it look.
        assert await until(lambda: 1 in ended)
        await asyncio.gather(*looks)
        unsubscribe()

    async def test_every_subscriber_is_notified(self, stage: Stage) -> None:
        notified: list[str] = []
        unsubscribes = [stage.store.subscribe(lambda name=name: notified.append(name)) for name in ("a", "b")]  # type: ignore[misc]
        await stage.store.register_worker("one", [LANE], 1)
        await stage.start(1)
        assert await until(lambda: {"a", "b"} <= set(notified))
        for unsubscribe in unsubscribes:
            unsubscribe()
