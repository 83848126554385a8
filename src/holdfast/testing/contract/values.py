"""Values and streams: live state that is set and sent by turns and by steps."""

from __future__ import annotations

import asyncio

from holdfast.model import Out

from .stage import T0, Stage, after, on_stage, turn


@on_stage
class TestValues:
    async def test_a_value_is_what_was_set_last(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.store.read_value(run.id, "at") is None
        await stage.commit(turn(run, out=Out(values=(("at", b"1"), ("at", b"\x002"), ("of", b"9")))))
        assert await stage.store.read_value(run.id, "at") == b"\x002"
        assert await stage.store.read_value(run.id, "of") == b"9"
        await stage.store.set_value(run.id, "at", b"3", now=after(1))
        assert await stage.store.read_value(run.id, "at") == b"3"

    async def test_each_run_has_its_own(self, stage: Stage) -> None:
        one, two = await stage.start(2)
        await stage.store.set_value(one, "at", b"1", now=T0)
        assert await stage.store.read_value(two, "at") is None

    async def test_a_value_outlives_its_run(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.set_value(run.id, "at", b"1", now=T0)
        await stage.end(run)
        assert await stage.store.read_value(run.id, "at") == b"1"

    async def test_a_value_of_nobody_is_none(self, stage: Stage) -> None:
        await stage.store.set_value("nobody", "at", b"1", now=T0)
        assert await stage.store.read_value("nobody", "at") is None


@on_stage
class TestStreams:
    async def test_items_are_read_in_order_behind_an_offset(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.commit(turn(run, out=Out(items=(("log", b"a"), ("other", b"x"), ("log", b"\x00b")))), now=after(1))
        await stage.store.append_items(run.id, "log", [b"c", b"d"], step="s", attempt=1, now=after(2))
        items = await stage.store.read_items(run.id, "log")
        assert [(one.offset, one.payload, one.step, one.attempt, one.at, one.reset) for one in items] == [
            (1, b"a", None, 0, after(1), False),
            (2, b"\x00b", None, 0, after(1), False),
            (3, b"c", "s", 1, after(2), False),
            (4, b"d", "s", 1, after(2), False),
        ]
        assert [one.offset for one in await stage.store.read_items(run.id, "log", after=1, limit=2)] == [2, 3]
        assert await stage.store.read_items(run.id, "log", after=4) == []
        assert [one.offset for one in await stage.store.read_items(run.id, "other")] == [1]

    async def test_another_attempt_says_that_the_earlier_one_no_longer_counts(self, stage: Stage) -> None:
        [run_id] = await stage.start()
        for attempt, items in [(1, [b"a"]), (1, [b"b"]), (2, [b"a", b"b"]), (2, [b"c"]), (3, [b"a"])]:
            await stage.store.append_items(run_id, "log", items, step="s", attempt=attempt, now=T0)
        resets = [(one.attempt, one.reset) for one in await stage.store.read_items(run_id, "log")]
        assert resets == [(1, False), (1, False), (2, True), (2, False), (2, False), (3, True)]

    async def test_an_attempt_that_is_executed_again_says_that_what_it_sent_before_no_longer_counts(
        self, stage: Stage
    ) -> None:
        [run_id] = await stage.start()
        for begins, items in [(True, [b"a"]), (False, [b"b"]), (True, [b"a", b"b"]), (False, [b"c"])]:
            await stage.store.append_items(run_id, "log", items, step="s", attempt=1, begins=begins, now=T0)
        resets = [(one.payload, one.reset) for one in await stage.store.read_items(run_id, "log")]
        assert resets == [(b"a", False), (b"b", False), (b"a", True), (b"b", False), (b"c", False)]

    async def test_an_attempt_after_silent_ones_resets_nothing(self, stage: Stage) -> None:
        [run_id] = await stage.start()
        await stage.store.append_items(run_id, "log", [b"x"], step="other", attempt=1, now=T0)
        await stage.store.append_items(run_id, "elsewhere", [b"x"], step="s", attempt=1, now=T0)
        await stage.store.append_items(run_id, "log", [b"a"], step="s", attempt=2, now=T0)
        assert [one.reset for one in await stage.store.read_items(run_id, "log")] == [False, False]

    async def test_items_sent_at_once_all_have_their_place(self, stage: Stage) -> None:
        [run_id] = await stage.start()
        await asyncio.gather(
            *(stage.store.append_items(run_id, "log", [b"x", b"y"], step=str(n), attempt=1, now=T0) for n in range(20))
        )
        items = await stage.store.read_items(run_id, "log")
        assert len(items) == 40
        assert len({one.offset for one in items}) == 40
        assert [one.offset for one in items] == sorted(one.offset for one in items)

    async def test_nothing_is_sent_by_nobody(self, stage: Stage) -> None:
        await stage.store.append_items("nobody", "log", [b"x"], step=None, attempt=0, now=T0)
        assert await stage.store.read_items("nobody", "log") == []
        [run_id] = await stage.start()
        await stage.store.append_items(run_id, "log", [], step=None, attempt=0, now=T0)
        assert await stage.store.read_items(run_id, "log") == []
