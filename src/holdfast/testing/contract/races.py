"""Messages, children and streams while several stores write at the same time or in different namespaces."""

from __future__ import annotations

import asyncio
from functools import partial

from holdfast.errors import StoreAway
from holdfast.model import Declared, NewWait, Out, Registration, RowChange, RunStatus, Sent, StepItems, Turn, Unmatched
from holdfast.store import Store

from .chains import CONTINUED
from .children import family
from .events import published, waiting
from .hooks import hooked
from .stage import LANE, LEASE, T0, Stage, after, new_run, on_stage, turn


@on_stage
class TestMessagesInTwoStores:
    async def test_a_signal_racing_a_run_that_goes_on_reaches_one_of_the_two(self, stage: Stage) -> None:
        other = await stage.open()
        for number in range(25):
            run = await stage.held()
            successor = new_run()
            goes_on = turn(run, change=CONTINUED, out=Out(successor=successor))
            first, _, second = await asyncio.gather(
                other.send_signal(run.id, "a", b"", message_id="m", now=T0),
                _accepted(stage.store, goes_on),
                other.send_signal(run.id, "b", b"", now=T0),
            )
            assert (first, second) == (Sent.SENT, Sent.SENT)
            claimed = await stage.claim_one(run_id=successor.id)
            later = [message for message in await stage.store.read_inbox("one") if message not in claimed.inbox]
            names = [message.name for message in (*claimed.inbox, *later)]
            assert sorted(str(name) for name in names) == ["a", "b"], number
            await stage.end(claimed)

    async def test_a_signal_racing_an_end_is_sent_or_refused(self, stage: Stage) -> None:
        other = await stage.open()
        for _ in range(20):
            run = await stage.held()
            sent, _ = await asyncio.gather(other.send_signal(run.id, "go", b"", now=T0), stage.end(run))
            assert sent in (Sent.SENT, Sent.ENDED)
            assert await stage.store.next_due([LANE], now=T0) is None
            assert await stage.store.read_inbox("one") == []

    async def test_a_child_that_ends_while_its_parent_does_disturbs_nobody(self, stage: Stage) -> None:
        other = await stage.open()
        for _ in range(20):
            parent, child = await family(stage)
            end = RowChange(status=RunStatus.COMPLETED)
            mine, theirs = await asyncio.gather(
                stage.commit(turn(parent, change=end)), other.commit_turns([turn(child, change=end)], now=T0)
            )
            assert (mine, theirs) == ([True], [True])
            assert await stage.claim() == []
            assert await stage.store.read_inbox("two") == []

    async def test_a_child_that_ends_while_its_parent_is_parked_elsewhere_wakes_it(self, stage: Stage) -> None:
        other = await stage.open()
        parent, child = await family(stage)
        _, ended = await asyncio.gather(
            stage.hand_back(parent), other.commit_turns([turn(child, change=RowChange(status=RunStatus.COMPLETED))])
        )
        assert ended == [True]
        assert (await stage.claim_one()).id == parent.id

    async def test_of_two_runs_that_ask_for_a_child_of_one_id_at_once_one_begins_it_and_the_other_joins(
        self, stage: Stage
    ) -> None:
        other = await stage.open()
        for number in range(15):
            parents = [await stage.held(), await stage.held()]
            turns = [
                turn(one, out=Out(children=(new_run(id=f"child-{number}", parent_id=one.id, parent_key="c"),)))
                for one in parents
            ]
            await asyncio.gather(_accepted(stage.store, turns[0]), _accepted(other, turns[1]))
            await stage.end(await stage.claim_one(worker="three", run_id=f"child-{number}"))
            received = [message.run_id for message in await stage.store.read_inbox("one") if message.kind == "child"]
            assert sorted(received) == sorted(one.id for one in parents)
            for one in parents:
                assert await stage.commit(turn(one, after=1, change=RowChange(status=RunStatus.COMPLETED))) == [True]

    async def test_two_runs_that_ask_for_a_child_of_one_key_at_once_are_both_told_of_its_end(
        self, stage: Stage
    ) -> None:
        other = await stage.open()
        for number in range(15):
            parents = [await stage.held(), await stage.held()]
            turns = [
                turn(one, out=Out(children=(new_run(parent_id=one.id, parent_key="c", key=str(number)),)))
                for one in parents
            ]
            await asyncio.gather(stage.commit(turns[0]), other.commit_turns([turns[1]], now=T0))
            child = await stage.claim_one(worker="two")
            await stage.end(child)
            received = await stage.store.read_inbox("one")
            assert {message.run_id for message in received} == {one.id for one in parents}
            for one in parents:
                await stage.commit(turn(one, after=1, change=RowChange(status=RunStatus.COMPLETED)))

    async def test_a_run_that_joins_another_while_it_ends_is_told_of_the_end(self, stage: Stage) -> None:
        other = await stage.open()
        for number in range(15):
            parent, holder = await stage.held(), await stage.held(worker="two", key=str(number))
            child = new_run(parent_id=parent.id, parent_key="c", key=str(number))
            join = turn(parent, out=Out(children=(child,)))
            end = turn(holder, change=RowChange(status=RunStatus.COMPLETED))
            await asyncio.gather(_accepted(stage.store, join), _accepted(other, end))
            # The end may begin before the join is committed, and lock the run after the join has looked at it. Then
            # neither has seen the other, and the next `reap_workers` tells the parent.
            await stage.store.reap_workers("one", now=T0)
            assert [message.name for message in await stage.store.read_inbox("one")] == ["c"]
            await stage.commit(turn(parent, after=1, change=RowChange(status=RunStatus.COMPLETED)))

    async def test_a_hook_is_resumed_by_one_of_several_stores(self, stage: Stage) -> None:
        stores = [stage.store, await stage.open(), await stage.open()]
        await hooked(stage)
        answers = await asyncio.gather(*(store.resume_hook("t", b"", now=T0) for store in stores for _ in range(3)))
        assert sorted(answers) == [Sent.SENT] + [Sent.USED] * 8
        assert len(await stage.store.read_inbox("one")) == 1

    async def test_an_event_delivered_by_several_stores_is_taken_once(self, stage: Stage) -> None:
        stores = [stage.store, await stage.open(), await stage.open()]
        run = await stage.held()
        waits = tuple(NewWait(number=number, kind="event", name="paid") for number in range(3))
        await stage.commit(turn(run, out=Out(waits=waits)))
        found = (await stage.store.read_unmatched(10)).waits
        event = await published(stage, "paid")
        answers = await asyncio.gather(
            *(store.deliver_event(event, [wait]) for store, wait in zip(stores, found, strict=True))
        )
        assert sum(answers) == 1
        assert len(await stage.store.read_inbox("one")) == 1

    async def test_a_message_id_is_used_by_one_of_several_stores(self, stage: Stage) -> None:
        stores = [stage.store, await stage.open()]
        run = await stage.held()
        for send in ("send_signal", "publish_event"):
            calls = [
                partial(getattr(store, send), *([run.id] if send == "send_signal" else []), "go", b"", message_id="m")
                for store in stores
                for _ in range(3)
            ]
            answers = await asyncio.gather(*(call() for call in calls))
            assert sorted(answers) == [Sent.DUPLICATE] * 5 + [Sent.SENT]

    async def test_items_sent_by_several_stores_have_one_order(self, stage: Stage) -> None:
        stores = [stage.store, await stage.open(), await stage.open()]
        run = await stage.held()
        calls = [
            store.append_items(StepItems(run.id, "log", (b"x", b"y"), f"{number} {place}", 1, run.epoch), now=T0)
            for number in range(10)
            for place, store in enumerate(stores)
        ]
        await asyncio.gather(*calls, stage.commit(turn(run, out=Out(items=(("log", b"z"),)))))
        items = await stage.store.read_items(run.id, "log")
        assert [one.offset for one in items] == list(range(1, 62))

    async def test_a_run_is_swept_by_one_of_several_stores(self, stage: Stage) -> None:
        stores = [stage.store, await stage.open()]
        runs = [await stage.held(retention=0) for _ in range(10)]
        for run in runs:
            await stage.end(run)
        sweeps = await asyncio.gather(*(store.sweep(10, events_before=T0, now=after(1)) for store in stores))
        gone = [run_id for swept in sweeps for run_id in swept.run_ids]
        assert sorted(gone) == sorted(run.id for run in runs)


@on_stage
class TestNamespacesOfMessages:
    async def test_messages_stay_in_their_namespace(self, stage: Stage) -> None:
        other = await stage.open(namespace="other")
        run = await hooked(stage)
        assert await other.send_signal(run.id, "go", b"", now=T0) is Sent.MISSING
        assert await other.resume_hook("t", b"", now=T0) is Sent.MISSING
        assert await other.find_hook("t") is None
        assert await other.read_waits(run.id) == []
        assert await stage.store.read_inbox("one") == []
        for store in (stage.store, other):
            assert await store.publish_event("paid", b"", message_id="m", now=T0) is Sent.SENT

    async def test_events_and_waits_stay_in_their_namespace(self, stage: Stage) -> None:
        other = await stage.open(namespace="other")
        wait = await waiting(stage, "paid")
        await stage.store.publish_event("paid", b"", now=T0)
        assert await other.read_unmatched(10) == Unmatched((), ())
        await other.publish_event("paid", b"", now=T0)
        [theirs] = (await other.read_unmatched(10)).events
        assert await other.find_waits(theirs, []) == []
        assert len(await stage.store.find_events(wait)) == 1
        declared = Registration(LANE.workflow, LANE.version, Declared(on_event="paid"))
        await stage.store.register_worker("one", [LANE], LEASE, workflows=[declared])
        assert await other.list_triggers("paid") == []

    async def test_children_and_chains_stay_in_their_namespace(self, stage: Stage) -> None:
        other = await stage.open(namespace="other")
        parent = await stage.held(id="parent")
        await other.start_runs([new_run(id="theirs", parent_id="parent", parent_key="c", chain_id="parent")], now=T0)
        assert await stage.store.send_signal("parent", "go", b"", now=T0) is Sent.SENT
        assert [message.run_id for message in await stage.store.read_inbox("one")] == ["parent"]
        await stage.end(parent)
        [theirs] = await other.claim_runs("one", [LANE], 10, now=T0)
        assert theirs.inbox == ()

    async def test_values_streams_and_deletes_stay_in_their_namespace(self, stage: Stage) -> None:
        other = await stage.open(namespace="other")
        for store, text in ((stage.store, b"mine"), (other, b"theirs")):
            await store.start_runs([new_run(id="same", retention=0)], now=T0)
            await store.set_value("same", "at", text, epoch=0, now=T0)
            await store.append_items(StepItems("same", "log", (text,), "s", 1, 0), now=T0)
            await store.publish_event("paid", text, now=T0)
        await stage.store.cancel_run("same", now=T0)
        assert await other.delete_runs(["same"]) == []
        assert await other.pause_runs(["nobody"], True, now=T0) == []
        swept = await stage.store.sweep(10, events_before=after(1), now=after(1))
        assert (swept.run_ids, swept.events) == (("same",), 1)
        assert await other.read_value("same", "at") == b"theirs"
        assert [one.payload for one in await other.read_items("same", "log")] == [b"theirs"]
        assert len((await other.read_unmatched(10)).events) == 1


async def _accepted(store: Store, sent: Turn) -> None:
    """Send a turn until it is accepted: another store may have locked a run that it needs for a moment."""
    while isinstance(answer := (await store.commit_turns([sent], now=T0))[0], StoreAway):
        pass
    assert answer is True
