"""Chains: runs that continue as a successor, and what belongs to the whole chain."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.model import (
    SECOND,
    ClaimedRun,
    NewRun,
    NewWait,
    Out,
    OutSignal,
    RowChange,
    RunStatus,
    Sent,
    moment_of,
)

from .children import child_of, end_in, family
from .events import chain_began, published
from .stage import LANE, T0, Stage, after, ids_of, new_run, on_stage, turn

CONTINUED = RowChange(status=RunStatus.CONTINUED)


@on_stage
class TestContinuedRuns:
    async def test_a_run_ends_as_continued_and_names_its_successor(self, stage: Stage) -> None:
        run = await stage.held()
        successor = new_run(input=b"next")
        assert await stage.commit(turn(run, change=CONTINUED, out=Out(successor=successor)), now=after(5)) == [True]
        old = await stage.run(run.id)
        assert (old.status, old.successor_id, old.ended_at) == (RunStatus.CONTINUED, successor.id, moment_of(after(5)))
        again = await stage.claim_one(now=after(6))
        assert (again.id, again.input, again.next_seq, again.created_at) == (successor.id, b"next", 0, after(5))
        assert (again.chain_id, await chain_began(stage, again)) == (run.id, T0)
        assert (await stage.run(successor.id)).successor_id is None

    async def test_joining_by_key_waits_for_the_successor_even_if_it_is_of_another_workflow(self, stage: Stage) -> None:
        parent, holder = await stage.held(), await stage.held(worker="two", key="k")
        successor = new_run(workflow="bill")
        await stage.commit(turn(holder, change=CONTINUED, out=Out(successor=successor)))
        assert await stage.commit(turn(parent, out=Out(children=(child_of(parent, key="k"),)))) == [True]
        assert await stage.store.read_inbox("one") == []
        [last] = await stage.store.claim_runs("two", [], 1, run_id=successor.id, now=T0)
        await stage.end(last)
        [message] = await stage.store.read_inbox("one")
        assert (end_in(message).run_id, end_in(message).status) == (successor.id, "completed")

    async def test_the_replacement_of_a_cancelled_replacement_waits_for_the_live_run_s_successor(
        self, stage: Stage
    ) -> None:
        first = await stage.held(key="k")
        second = await stage.start_one(key="k", on_conflict="replace")
        await stage.store.cancel_run(second, now=T0)
        successor = await continued(stage, first)
        third = await stage.start_one(key="k", on_conflict="replace")
        assert (await stage.run(third)).after_run_id == successor.id
        assert await stage.claim() == []
        await stage.end(successor)
        assert ids_of(await stage.claim()) == [third]

    async def test_a_chain_may_have_many_runs(self, stage: Stage) -> None:
        first = run = await stage.held()
        for number in range(4):
            run = await continued(stage, run, now=after(number + 1))
        assert (run.chain_id, await chain_began(stage, run)) == (first.id, T0)

    async def test_the_successor_stays_in_the_trace(self, stage: Stage) -> None:
        run = await stage.held(trace="a trace")
        assert (await continued(stage, run)).trace == "a trace"

    async def test_a_successor_may_begin_a_life_of_its_own(self, stage: Stage) -> None:
        run = await stage.held()
        second = await continued(stage, run, id=f"{run.id}+2", origin_id=f"{run.id}+2")
        assert (second.origin_id, second.chain_id) == (second.id, run.id)
        third = await continued(stage, second, id=f"{run.id}+3", origin_id=f"{run.id}+3")
        assert (third.origin_id, third.chain_id) == (third.id, run.id)
        assert [(await stage.run(one.id)).origin_id for one in (run, second, third)] == [run.id, second.id, third.id]

    async def test_a_successor_without_a_given_origin_has_its_chain_s_id_as_origin(self, stage: Stage) -> None:
        run = await stage.held(origin_id="another")
        assert (await continued(stage, run)).origin_id == run.id

    async def test_the_key_goes_over_to_the_successor(self, stage: Stage) -> None:
        run = await stage.held(key="k")
        successor = await continued(stage, run)
        assert successor.key == "k"
        found = await stage.store.find_run(LANE.workflow, "k")
        assert found is not None
        assert found.id == successor.id
        [started] = await stage.store.start_runs([new_run(key="k")], now=T0)
        assert (started.id, started.created) == (successor.id, False)

    async def test_a_key_that_another_run_has_taken_over_does_not_go_over(self, stage: Stage) -> None:
        run = await stage.held(key="k")
        [new] = await stage.store.start_runs([new_run(key="k", on_conflict="replace")], now=T0)
        await continued(stage, run)
        found = await stage.store.find_run(LANE.workflow, "k")
        assert found is not None
        assert found.id == new.id

    async def test_a_key_stays_with_a_run_whose_successor_is_of_another_workflow_and_stands_for_the_chain(
        self, stage: Stage
    ) -> None:
        run = await stage.held(key="k")
        other = new_run(workflow="pay")
        assert await stage.commit(turn(run, change=CONTINUED, out=Out(successor=other))) == [True]
        [same] = await stage.store.start_runs([new_run(key="k", on_conflict="restart")], now=T0)
        assert (same.id, same.created) == (run.id, False)
        [new] = await stage.store.start_runs([new_run(key="k", on_conflict="replace")], now=T0)
        assert new.created
        assert (await stage.run(other.id)).status is RunStatus.CANCELLED

    async def test_a_replacement_waits_for_the_successor_of_the_run_that_it_replaces(self, stage: Stage) -> None:
        run = await stage.held(key="k")
        [new] = await stage.store.start_runs([new_run(key="k", on_conflict="replace")], now=T0)
        successor = await continued(stage, run)
        assert await stage.claim() == []
        await stage.end(successor)
        assert (await stage.claim_one()).id == new.id

    @pytest.mark.parametrize("given", [None, 5 * SECOND])
    async def test_a_retention_that_was_asked_for_goes_over(self, stage: Stage, given: int | None) -> None:
        run = await stage.held(retention=given, has_own_retention=True)
        second = await continued(stage, run, retention=9 * SECOND)
        third = await continued(stage, second, retention=9 * SECOND)
        assert [(await stage.run(run.id)).retention for run in (second, third)] == [given, given]

    async def test_a_retention_that_was_only_declared_does_not_go_over(self, stage: Stage) -> None:
        run = await stage.held(retention=5 * SECOND)
        successor = await continued(stage, run, retention=9 * SECOND)
        assert (await stage.run(successor.id)).retention == 9 * SECOND

    async def test_a_pause_goes_over(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.pause_runs([run.id], True, now=T0)
        successor = new_run()
        await stage.commit(turn(run, change=CONTINUED, out=Out(successor=successor)))
        assert (await stage.run(successor.id)).paused
        assert await stage.claim() == []

    async def test_unread_signals_go_over(self, stage: Stage) -> None:
        run = await stage.held()
        for payload in (b"read", b"1", b"2"):
            await stage.store.send_signal(run.id, "go", payload, now=T0)
        read, *_ = await stage.store.read_inbox("one")
        successor = new_run()
        out = Out(successor=successor)
        assert await stage.commit(turn(run, change=CONTINUED, taken=(read.id,), out=out)) == [True]
        again = await stage.claim_one()
        assert [(message.run_id, message.payload) for message in again.inbox] == [
            (successor.id, b"1"),
            (successor.id, b"2"),
        ]

    async def test_unread_signals_wait_for_a_successor_that_is_not_due(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.send_signal(run.id, "go", b"", now=T0)
        await stage.hand_back(run)
        run = await stage.claim_one()
        successor = new_run(due_at=after(1000), workflow="other")
        await stage.commit(turn(run, change=CONTINUED, out=Out(successor=successor)))
        other = msgspec.structs.replace(LANE, workflow="other")
        assert await stage.store.claim_runs("one", [other], 10, now=T0) == []
        [claimed] = await stage.store.claim_runs("one", [other], 10, now=after(1000))
        assert [message.kind for message in claimed.inbox] == ["signal"]

    async def test_a_message_to_any_run_of_the_chain_reaches_the_live_one(self, stage: Stage) -> None:
        first = await stage.held()
        second = await continued(stage, first)
        third = await continued(stage, second)
        for run in (first, second, third):
            assert await stage.store.send_signal(run.id, "go", run.id.encode(), now=T0) is Sent.SENT
        messages = await stage.store.read_inbox("one")
        assert [(one.run_id, one.payload.decode()) for one in messages] == [
            (third.id, run.id) for run in (first, second, third)
        ]

    async def test_a_message_id_holds_for_the_chain(self, stage: Stage) -> None:
        first = await stage.held()
        await stage.store.send_signal(first.id, "go", b"", message_id="m", now=T0)
        second = await continued(stage, first)
        for run in (first, second):
            assert await stage.store.send_signal(run.id, "go", b"", message_id="m", now=T0) is Sent.DUPLICATE

    async def test_the_chain_ends_with_its_last_run(self, stage: Stage) -> None:
        first = await stage.held()
        await stage.end(await continued(stage, first))
        assert await stage.store.send_signal(first.id, "go", b"", now=T0) is Sent.ENDED

    async def test_the_chain_ends_with_a_run_whose_successor_was_deleted(self, stage: Stage) -> None:
        first, other = await stage.held(), await stage.held()
        second = await continued(stage, first)
        await stage.end(second)
        assert await stage.store.delete_runs([second.id]) == [second.id]
        assert await stage.store.send_signal(first.id, "go", b"", now=T0) is Sent.ENDED
        assert await stage.commit(turn(other, out=Out(signals=(OutSignal(first.id, "go", b""),)))) == [True]

    async def test_the_chain_ends_with_a_run_that_continued_without_a_successor(self, stage: Stage) -> None:
        run, other = await stage.held(), await stage.held()
        await stage.end(run, RunStatus.CONTINUED)
        assert await stage.store.send_signal(run.id, "go", b"", message_id="m", now=T0) is Sent.ENDED
        sends = (OutSignal(run.id, "go", b""), OutSignal(other.id, "go", b""))
        assert await stage.commit(turn(other, out=Out(signals=sends))) == [True]
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [other.id]

    async def test_a_message_passes_by_a_run_of_the_chain_that_was_deleted(self, stage: Stage) -> None:
        first = await stage.held()
        second = await continued(stage, first)
        third = await continued(stage, second)
        assert await stage.store.delete_runs([second.id]) == [second.id]
        assert await stage.store.send_signal(first.id, "go", b"", now=T0) is Sent.SENT
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [third.id]

    async def test_a_replacement_that_was_cancelled_while_it_waited_stays_as_it_was(self, stage: Stage) -> None:
        run = await stage.held(key="k")
        await stage.store.start_runs([new_run(id="next", key="k", on_conflict="replace")], now=T0)
        await stage.store.cancel_run("next", now=T0)
        ended = await stage.store.get_run("next")
        await continued(stage, run)
        assert await stage.store.get_run("next") == ended

    async def test_a_cancel_that_was_not_taken_goes_over(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.cancel_run(run.id, reason="enough", now=T0)
        await stage.commit(turn(run, change=CONTINUED, out=Out(successor=new_run())))
        again = await stage.claim_one()
        assert [(message.kind, message.payload) for message in again.inbox] == [("cancel", b"enough")]

    async def test_a_cancel_that_goes_over_to_another_workflow_wakes_only_workers_with_its_lane(
        self, stage: Stage
    ) -> None:
        run = await stage.held()
        await stage.store.cancel_run(run.id, now=T0)
        await stage.commit(turn(run, change=CONTINUED, out=Out(successor=new_run(workflow="bill"))))
        assert await stage.claim() == []

    @pytest.mark.parametrize("is_taken_before", [True, False])
    async def test_a_cancel_that_was_taken_stays_behind(self, stage: Stage, is_taken_before: bool) -> None:
        run = await stage.held()
        await stage.store.cancel_run(run.id, reason="enough", now=T0)
        [cancel] = await stage.store.read_inbox("one")
        if is_taken_before:
            await stage.commit(turn(run, taken=(cancel.id,)))
        taken = () if is_taken_before else (cancel.id,)
        goes_on = turn(run, after=int(is_taken_before), change=CONTINUED, taken=taken, out=Out(successor=new_run()))
        assert await stage.commit(goes_on) == [True]
        successor = await stage.claim_one()
        assert successor.inbox == ()
        await stage.store.cancel_run(successor.id, reason="again", now=T0)
        assert [message.payload for message in await stage.store.read_inbox("one")] == [b"again"]

    async def test_a_cancel_of_a_continued_run_reaches_the_live_one(self, stage: Stage) -> None:
        first = await stage.held()
        second = await continued(stage, first)
        before = await stage.store.cancel_run(first.id, now=T0)
        assert before is not None
        assert before.id == second.id
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [second.id]

    async def test_a_signal_in_the_same_batch_is_not_lost(self, stage: Stage) -> None:
        run, other = await stage.held(), await stage.held()
        sends = turn(other, out=Out(signals=(OutSignal(run.id, "go", b""),)))
        goes_on = turn(run, change=CONTINUED, out=Out(successor=new_run()))
        assert await stage.commit(goes_on, sends) == [True, True]
        assert [message.kind for message in (await stage.claim_one()).inbox] == ["signal"]

    async def test_an_event_is_taken_once_in_a_chain(self, stage: Stage) -> None:
        first = await stage.held()
        wait = NewWait(number=1, kind="event", name="paid")
        await stage.commit(turn(first, out=Out(waits=(wait,))))
        [found] = (await stage.store.read_unmatched(10)).waits
        taken, free = await published(stage, "paid"), await published(stage, "paid")
        assert await stage.store.deliver_event(taken, [found]) == 1
        second = await continued(stage, first, after=1)
        await stage.commit(turn(second, out=Out(waits=(wait,))))
        [found] = (await stage.store.read_unmatched(10)).waits
        assert found.since == T0
        assert await stage.store.find_events(found) == [free]
        assert await stage.store.deliver_event(taken, [found]) == 0

    async def test_an_event_that_was_not_read_goes_over(self, stage: Stage) -> None:
        first = await stage.held()
        await stage.commit(turn(first, out=Out(waits=(NewWait(number=1, kind="event", name="paid"),))))
        [found] = (await stage.store.read_unmatched(10)).waits
        await stage.store.deliver_event(await published(stage, "paid", b"p"), [found])
        second = await continued(stage, first, after=1)
        assert [(one.kind, one.name, one.payload, one.wait) for one in second.inbox] == [("event", "paid", b"p", None)]

    async def test_values_and_streams_belong_to_the_chain(self, stage: Stage) -> None:
        first = await stage.held()
        await stage.commit(turn(first, out=Out(values=(("at", b"1"),), items=(("log", b"a"),))))
        second = await continued(stage, first, after=1)
        await stage.commit(turn(second, out=Out(values=(("of", b"2"),), items=(("log", b"b"),))))
        for run in (first, second):
            assert await stage.store.read_value(run.id, "at") == b"1"
            assert await stage.store.read_value(run.id, "of") == b"2"
            assert [(one.offset, one.payload) for one in await stage.store.read_items(run.id, "log")] == [
                (1, b"a"),
                (2, b"b"),
            ]

    async def test_the_parent_is_told_of_the_end_of_the_chain_s_last_run(self, stage: Stage) -> None:
        parent, child = await family(stage, on_parent_end="abandon")
        successor = await continued(stage, child, worker="two")
        assert successor.parent_id == parent.id
        assert await stage.store.read_inbox("one") == []
        await stage.end(successor)
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, message.name) == (parent.id, "pay")
        assert (end_in(message).run_id, end_in(message).status) == (successor.id, "completed")

    @pytest.mark.parametrize(("on_parent_end", "received"), [("abandon", []), ("cancel", ["cancel"])])
    async def test_on_parent_end_goes_over(self, stage: Stage, on_parent_end: str, received: list[str]) -> None:
        parent, child = await family(stage, on_parent_end=on_parent_end)
        await continued(stage, child, worker="two")
        await stage.end(parent)
        assert [message.kind for message in await stage.store.read_inbox("two")] == received

    async def test_a_follower_is_told_of_the_end_of_the_chain_s_last_run(self, stage: Stage) -> None:
        follower = await stage.held()
        holder = await stage.held(worker="two", key="k")
        await stage.commit(turn(follower, out=Out(children=(child_of(follower, key="k"),))))
        successor = await continued(stage, holder, worker="two")
        assert await stage.store.read_inbox("one") == []
        await stage.end(successor)
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [follower.id]

    async def test_joining_a_run_that_has_continued_joins_its_chain(self, stage: Stage) -> None:
        follower = await stage.held()
        first = await stage.held(worker="two")
        second = await continued(stage, first, worker="two")
        await stage.commit(turn(follower, out=Out(children=(child_of(follower, id=first.id),))))
        assert await stage.store.read_inbox("one") == []
        await stage.end(second)
        assert [message.name for message in await stage.store.read_inbox("one")] == ["pay"]

    async def test_children_of_a_run_that_continues_are_asked_to_end_unless_abandoned(self, stage: Stage) -> None:
        run = await stage.held()
        kept, gone = child_of(run, "kept", on_parent_end="abandon"), child_of(run, "gone")
        await stage.commit(turn(run, out=Out(children=(kept, gone))))
        assert len(await stage.claim(worker="two")) == 2
        await continued(stage, run, after=1)
        assert [(one.run_id, one.kind) for one in await stage.store.read_inbox("two")] == [(gone.id, "cancel")]

    async def test_a_successor_is_not_told_of_children_that_it_did_not_ask_for(self, stage: Stage) -> None:
        # The successor may have asked for another child by the same key.
        parent, child = await family(stage)
        successor = await continued(stage, parent)
        await stage.end(child)
        assert await stage.store.read_inbox("one") == []
        assert successor.inbox == ()

    async def test_a_cancel_for_a_child_reaches_its_live_run(self, stage: Stage) -> None:
        parent, child = await family(stage)
        successor = await continued(stage, child, worker="two")
        await stage.commit(turn(parent, out=Out(cancels=(child.id,))))
        assert [message.run_id for message in await stage.store.read_inbox("two")] == [successor.id]


async def continued(
    stage: Stage, run: ClaimedRun, *, after: int = 0, worker: str = "one", now: int = T0, **fields: Any
) -> ClaimedRun:
    """Let the run continue as a successor, which the worker claims."""
    successor: NewRun = new_run(**fields)
    change = turn(run, after=after, change=CONTINUED, out=Out(successor=successor))
    assert await stage.commit(change, now=now) == [True]
    return await stage.claim_one(worker=worker, now=now, run_id=successor.id)
