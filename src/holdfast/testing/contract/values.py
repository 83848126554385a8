"""Values and streams: live state that turns and steps set and send."""

from __future__ import annotations

import asyncio

from holdfast.model import ClaimedRun, Out, StepItems

from .stage import T0, Stage, after, on_stage, turn


@on_stage
class TestValues:
    async def test_a_value_is_what_was_set_last(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.store.read_value(run.id, "at") is None
        await stage.commit(turn(run, out=Out(values=(("at", b"1"), ("at", b"\x002"), ("of", b"9")))))
        assert await stage.store.read_value(run.id, "at") == b"\x002"
        assert await stage.store.read_value(run.id, "of") == b"9"
        await stage.store.set_value(run.id, "at", b"3", epoch=run.epoch, now=after(1))
        assert await stage.store.read_value(run.id, "at") == b"3"

    async def test_each_run_has_its_own_values(self, stage: Stage) -> None:
        one, two = await stage.start(2)
        await stage.store.set_value(one, "at", b"1", epoch=0, now=T0)
        assert await stage.store.read_value(two, "at") is None

    async def test_a_value_outlives_its_run(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.set_value(run.id, "at", b"1", epoch=run.epoch, now=T0)
        await stage.end(run)
        assert await stage.store.read_value(run.id, "at") == b"1"

    async def test_an_unknown_run_has_no_values(self, stage: Stage) -> None:
        await stage.store.set_value("nobody", "at", b"1", epoch=0, now=T0)
        assert await stage.store.read_value("nobody", "at") is None

    async def test_values_are_listed_by_name_with_their_sizes(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.commit(
            turn(run, out=Out(values=(("b", b"12"), ("a", b"1"), ("B", b"\x00"), ("ä", b"")))), now=after(1)
        )
        await stage.store.set_value(run.id, "b", b"123", epoch=run.epoch, now=after(2))
        names = await stage.store.list_values(run.id)
        assert [(one.name, one.size, one.set_at) for one in names] == [
            ("B", 1, after(1)),
            ("a", 1, after(1)),
            ("b", 3, after(2)),
            ("ä", 0, after(1)),
        ]
        assert [one.name for one in await stage.store.list_values(run.id, after="B", limit=2)] == ["a", "b"]
        assert await stage.store.list_values(run.id, after="ä") == []
        assert await stage.store.list_values("nobody") == []

    async def test_a_worker_that_has_lost_a_run_sets_no_value(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.set_value(run.id, "at", b"mine", epoch=run.epoch, now=T0)
        await stage.store.set_value(run.id, "at", b"late", epoch=run.epoch - 1, now=T0)
        assert await stage.store.read_value(run.id, "at") == b"mine"


@on_stage
class TestStreams:
    async def test_items_are_read_in_order_behind_an_offset(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.commit(turn(run, out=Out(items=(("log", b"a"), ("other", b"x"), ("log", b"\x00b")))), now=after(1))
        await stage.store.append_items(sent(run, b"c", b"d"), now=after(2))
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

    async def test_streams_are_listed_by_name_with_their_length(self, stage: Stage) -> None:
        run = await stage.held()
        items = (("log", b"a"), ("Other", b"x"), ("log", b"b"), ("ä", b"y"))
        await stage.commit(turn(run, out=Out(items=items)))
        await stage.store.append_items(sent(run, b"c", b"d"), now=T0)
        # Items of an earlier epoch are dropped, and make no stream.
        late = StepItems(run.id, "late", (b"z",), "s", 1, run.epoch - 1)
        await stage.store.append_items(late, now=T0)
        names = await stage.store.list_streams(run.id)
        assert [(one.name, one.last) for one in names] == [("Other", 1), ("log", 4), ("ä", 1)]
        assert [one.name for one in await stage.store.list_streams(run.id, after="Other", limit=1)] == ["log"]
        assert await stage.store.list_streams(run.id, after="ä") == []
        assert await stage.store.list_streams("nobody") == []

    async def test_another_attempt_resets_what_the_earlier_one_sent(self, stage: Stage) -> None:
        run = await stage.held()
        for attempt, number, items in [(1, 0, b"a"), (1, 1, b"b"), (2, 0, b"ab"), (2, 2, b"c"), (3, 0, b"a")]:
            payloads = [bytes([one]) for one in items]
            await stage.store.append_items(sent(run, *payloads, attempt=attempt, number=number), now=T0)
        resets = [(one.attempt, one.reset) for one in await stage.store.read_items(run.id, "log")]
        assert resets == [(1, False), (1, False), (2, True), (2, False), (2, False), (3, True)]

    async def test_an_attempt_that_is_executed_again_resets_what_it_sent_before(self, stage: Stage) -> None:
        run = await stage.held()
        for epoch, number, items in [(1, 0, b"a"), (1, 1, b"b"), (2, 0, b"ab"), (2, 2, b"c")]:
            payloads = [bytes([one]) for one in items]
            await stage.store.append_items(sent(run, *payloads, epoch=epoch, number=number), now=T0)
        resets = [(one.payload, one.reset) for one in await stage.store.read_items(run.id, "log")]
        assert resets == [(b"a", False), (b"b", False), (b"a", True), (b"b", False), (b"c", False)]

    async def test_a_retry_resets_what_the_step_sent_in_the_runs_before(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.append_items(sent(run, b"a", attempt=3, epoch=7), now=T0)
        # The run between the two sends nothing.
        silent = await stage.held(chain_id=run.id, forked_from=run.id)
        again = await stage.held(chain_id=run.id, forked_from=silent.id)
        await stage.store.append_items(sent(again, b"b"), now=T0)
        await stage.store.append_items(sent(again, b"c", number=1), now=T0)
        await stage.store.append_items(sent(again, b"d", step="other"), now=T0)
        resets = [(one.payload, one.reset) for one in await stage.store.read_items(run.id, "log")]
        assert resets == [(b"a", False), (b"b", True), (b"c", False), (b"d", False)]

    async def test_neither_a_successor_nor_a_fork_resets_what_another_run_sent(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.append_items(sent(run, b"a"), now=T0)
        successor = await stage.held(chain_id=run.id)
        fork = await stage.held(forked_from=run.id)
        for one in (successor, fork):
            await stage.store.append_items(sent(one, b"b"), now=T0)
        assert [one.reset for one in await stage.store.read_items(successor.id, "log")] == [False, False]
        assert [one.reset for one in await stage.store.read_items(fork.id, "log")] == [False]

    async def test_an_item_has_the_origin_of_its_sender(self, stage: Stage) -> None:
        run = await stage.held()
        successor = await stage.held(id="next", chain_id=run.id, origin_id="next")
        again = await stage.held(chain_id=run.id, forked_from="next", origin_id="next")
        for one in (run, successor, again):
            await stage.commit(turn(one, out=Out(items=(("log", b"by the body"),))))
            await stage.store.append_items(sent(one, b"by a step"), now=T0)
        items = await stage.store.read_items(run.id, "log")
        assert [one.origin_id for one in items] == [run.id, run.id, "next", "next", "next", "next"]

    async def test_an_item_of_a_deleted_run_has_no_origin(self, stage: Stage) -> None:
        first = await stage.held()
        await stage.end(first)
        run = await stage.held(chain_id=first.id)
        await stage.store.append_items(sent(run, b"a"), now=T0)
        await stage.end(run)
        successor = await stage.held(chain_id=first.id)
        assert await stage.store.delete_runs([run.id]) == [run.id]
        assert [one.origin_id for one in await stage.store.read_items(successor.id, "log")] == [None]

    async def test_an_attempt_after_silent_ones_resets_nothing(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.append_items(sent(run, b"x", step="other"), now=T0)
        await stage.store.append_items(sent(run, b"x", stream="elsewhere"), now=T0)
        await stage.store.append_items(sent(run, b"a", attempt=2), now=T0)
        assert [one.reset for one in await stage.store.read_items(run.id, "log")] == [False, False]

    async def test_items_sent_again_are_there_once(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.append_items(sent(run, b"a", b"b"), now=T0)
        await stage.store.append_items(sent(run, b"a", b"b"), now=T0)
        await stage.store.append_items(sent(run, b"b", b"c", number=1), now=T0)
        items = await stage.store.read_items(run.id, "log")
        assert [(one.offset, one.payload) for one in items] == [(1, b"a"), (2, b"b"), (3, b"c")]

    async def test_a_worker_that_has_lost_a_run_sends_nothing(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.append_items(sent(run, b"late", epoch=run.epoch - 1), now=T0)
        assert await stage.store.read_items(run.id, "log") == []

    async def test_an_attempt_sends_nothing_after_a_later_one_has_sent(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.append_items(sent(run, b"a", attempt=2), now=T0)
        await stage.store.append_items(sent(run, b"late", attempt=1, number=7), now=T0)
        assert [one.payload for one in await stage.store.read_items(run.id, "log")] == [b"a"]

    async def test_items_sent_at_once_all_have_offsets(self, stage: Stage) -> None:
        run = await stage.held()
        await asyncio.gather(*(stage.store.append_items(sent(run, b"x", b"y", step=str(n)), now=T0) for n in range(20)))
        items = await stage.store.read_items(run.id, "log")
        assert [one.offset for one in items] == list(range(1, 41))

    async def test_an_unknown_run_sends_nothing(self, stage: Stage) -> None:
        await stage.store.append_items(StepItems("nobody", "log", (b"x",), "s", 1, 1), now=T0)
        assert await stage.store.read_items("nobody", "log") == []
        run = await stage.held()
        await stage.store.append_items(sent(run), now=T0)
        assert await stage.store.read_items(run.id, "log") == []


def sent(
    run: ClaimedRun,
    *payloads: bytes,
    stream: str = "log",
    step: str = "s",
    attempt: int = 1,
    epoch: int | None = None,
    number: int = 0,
) -> StepItems:
    """Items that a step of the run sends."""
    return StepItems(run.id, stream, payloads, step, attempt, run.epoch if epoch is None else epoch, number)
