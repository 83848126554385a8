"""Children: a turn begins them, their parent gets a message when they end, and they may be cancelled with it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.model import ChildEnd, ClaimedRun, Message, NewRun, Out, OutSignal, RowChange, RunFilter, RunStatus

from .events import chain_began
from .stage import T0, Stage, after, ids_of, new_run, on_stage, turn


@on_stage
class TestChildren:
    async def test_a_child_is_created_with_the_turn(self, stage: Stage) -> None:
        parent = await stage.held()
        child = child_of(parent, input=b"in", priority=3, tags={"a": "b"}, deadline_at=after(9))
        assert await stage.commit(turn(parent, out=Out(children=(child,))), now=after(1)) == [True]
        claimed = await stage.claim_one(now=after(2))
        assert (claimed.id, claimed.input, claimed.priority, dict(claimed.tags)) == (child.id, b"in", 3, {"a": "b"})
        assert (claimed.created_at, claimed.deadline_at) == (after(1), after(9))
        assert (claimed.parent_id, claimed.chain_id) == (parent.id, child.id)
        assert await chain_began(stage, claimed) == after(1)
        assert ids_of((await stage.store.list_runs(RunFilter(parent=parent.id))).items) == [child.id]

    async def test_a_child_s_end_and_the_message_to_its_parent_are_one_commit(self, stage: Stage) -> None:
        parent, child = await family(stage)
        change = RowChange(status=RunStatus.FAILED, output=b"\x00out", error=b"why")
        assert await stage.commit(turn(child, change=change), now=after(4)) == [True]
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, message.kind, message.name, message.sent_at) == (parent.id, "child", "pay", after(4))
        assert end_in(message) == ChildEnd(child.id, "failed", b"\x00out", b"why")

    async def test_a_child_s_end_wakes_a_parked_parent(self, stage: Stage) -> None:
        parent, child = await family(stage)
        await stage.hand_back(parent)
        await stage.end(child)
        again = await stage.claim_one()
        assert again.id == parent.id
        assert [end_in(message).status for message in again.inbox] == ["completed"]

    async def test_an_end_sent_again_is_told_once(self, stage: Stage) -> None:
        _, child = await family(stage)
        end = turn(child, change=RowChange(status=RunStatus.COMPLETED))
        assert [await stage.commit(end) for _ in range(2)] == [[True], [True]]
        assert len(await stage.store.read_inbox("one")) == 1

    async def test_the_parent_is_told_of_a_child_cancelled_by_force(self, stage: Stage) -> None:
        _, child = await family(stage)
        await stage.store.cancel_run(child.id, force=True, now=T0)
        [message] = await stage.store.read_inbox("one")
        assert end_in(message) == ChildEnd(child.id, "cancelled")

    async def test_the_parent_is_told_of_a_child_cancelled_before_it_began(self, stage: Stage) -> None:
        parent = await stage.held()
        child = child_of(parent)
        await stage.commit(turn(parent, out=Out(children=(child,))))
        await stage.store.cancel_run(child.id, now=T0)
        [message] = await stage.store.read_inbox("one")
        assert end_in(message) == ChildEnd(child.id, "cancelled")

    async def test_a_child_without_a_parent_s_key_tells_nobody(self, stage: Stage) -> None:
        _, child = await family(stage, parent_key=None)
        await stage.end(child)
        assert await stage.store.read_inbox("one") == []

    async def test_an_ended_parent_is_told_nothing(self, stage: Stage) -> None:
        parent, child = await family(stage, on_parent_end="abandon")
        await stage.end(parent)
        await stage.end(child)
        assert await stage.claim() == []
        assert await stage.store.read_inbox("one") == []

    async def test_a_parent_is_told_of_many_children_in_one_batch(self, stage: Stage) -> None:
        parent = await stage.held()
        children = tuple(child_of(parent, f"pay:{number}") for number in range(600))
        await stage.commit(turn(parent, out=Out(children=children)))
        claimed = await stage.claim(600, worker="two")
        assert len(claimed) == 600
        assert all(await stage.commit(*(turn(run, change=RowChange(status=RunStatus.COMPLETED)) for run in claimed)))
        assert {message.name for message in await stage.store.read_inbox("one")} == {one.parent_key for one in children}

    async def test_children_are_asked_to_end_when_their_parent_ends(self, stage: Stage) -> None:
        parent, child = await family(stage)
        await stage.end(parent)
        [message] = await stage.store.read_inbox("two")
        assert (message.run_id, message.kind) == (child.id, "cancel")

    async def test_an_abandoned_child_goes_on(self, stage: Stage) -> None:
        parent, _ = await family(stage, on_parent_end="abandon")
        await stage.end(parent)
        assert await stage.store.read_inbox("two") == []

    async def test_a_parent_ended_by_force_takes_its_children_along(self, stage: Stage) -> None:
        parent, child = await family(stage)
        await stage.store.cancel_run(parent.id, force=True, now=T0)
        assert [message.run_id for message in await stage.store.read_inbox("two")] == [child.id]

    async def test_a_child_that_never_began_is_found_with_its_cancel(self, stage: Stage) -> None:
        parent = await stage.held()
        child = child_of(parent, due_at=after(1000))
        await stage.commit(turn(parent, out=Out(children=(child,))))
        await stage.commit(turn(parent, after=1, change=RowChange(status=RunStatus.COMPLETED)))
        found = await stage.run(child.id)
        if not found.status.is_final:
            claimed = await stage.claim_one()
            assert claimed.id == child.id
            assert [message.kind for message in claimed.inbox] == ["cancel"]

    async def test_children_begun_with_the_last_turn_follow_it(self, stage: Stage) -> None:
        parent = await stage.held()
        kept, gone = child_of(parent, "kept", on_parent_end="abandon"), child_of(parent, "gone")
        change = RowChange(status=RunStatus.COMPLETED)
        assert await stage.commit(turn(parent, change=change, out=Out(children=(kept, gone)))) == [True]
        claimed = {run.id: [message.kind for message in run.inbox] for run in await stage.claim()}
        assert claimed.get(kept.id) == []
        assert claimed.get(gone.id, ["cancel"]) == ["cancel"]

    async def test_a_parent_may_cancel_its_children(self, stage: Stage) -> None:
        parent, child = await family(stage)
        assert await stage.commit(turn(parent, out=Out(cancels=(child.id, child.id)))) == [True]
        assert [message.kind for message in await stage.store.read_inbox("two")] == ["cancel"]

    async def test_a_run_may_not_cancel_what_is_no_child_of_its_own(self, stage: Stage) -> None:
        _, child = await family(stage)
        stranger = await stage.held()
        assert await stage.commit(turn(stranger, out=Out(cancels=(child.id,)))) == [True]
        assert await stage.store.read_inbox("two") == []

    async def test_a_child_whose_key_is_taken_joins_the_run_that_holds_it(self, stage: Stage) -> None:
        parent = await stage.held()
        holder = await stage.held(worker="two", key="k")
        child = child_of(parent, key="k")
        assert await stage.commit(turn(parent, out=Out(children=(child,)))) == [True]
        assert await stage.store.get_run(child.id) is None
        change = RowChange(status=RunStatus.COMPLETED, output=b"out")
        assert await stage.commit(turn(holder, change=change)) == [True]
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, message.kind, message.name) == (parent.id, "child", "pay")
        assert end_in(message) == ChildEnd(holder.id, "completed", b"out")

    async def test_a_run_that_has_ended_is_joined_at_once(self, stage: Stage) -> None:
        parent = await stage.held()
        holder = await stage.held(worker="two", key="k")
        await stage.commit(turn(holder, change=RowChange(status=RunStatus.FAILED, error=b"why")))
        await stage.commit(turn(parent, out=Out(children=(child_of(parent, key="k"),))))
        [message] = await stage.store.read_inbox("one")
        assert end_in(message) == ChildEnd(holder.id, "failed", None, b"why")

    async def test_a_child_of_a_later_try_takes_the_key_from_a_run_that_has_ended(self, stage: Stage) -> None:
        parent = await stage.held()
        holder = await stage.held(worker="two", key="k")
        await stage.end(holder, RunStatus.FAILED)
        child = child_of(parent, key="k", on_conflict="restart")
        assert await stage.commit(turn(parent, out=Out(children=(child,)))) == [True]
        assert await stage.store.read_inbox("one") == []
        found = await stage.store.find_run(child.workflow, "k")
        assert found is not None
        assert (found.id, found.parent_id) == (child.id, parent.id)

    async def test_a_child_of_a_later_try_joins_a_live_run_that_holds_its_key(self, stage: Stage) -> None:
        parent = await stage.held()
        holder = await stage.held(worker="two", key="k")
        child = child_of(parent, key="k", on_conflict="restart")
        assert await stage.commit(turn(parent, out=Out(children=(child,)))) == [True]
        assert await stage.store.get_run(child.id) is None
        await stage.end(holder)
        [message] = await stage.store.read_inbox("one")
        assert end_in(message).run_id == holder.id

    async def test_a_child_of_a_later_try_joins_a_completed_run_that_holds_its_key(self, stage: Stage) -> None:
        parent = await stage.held()
        holder = await stage.held(worker="two", key="k")
        await stage.end(holder)
        child = child_of(parent, key="k", on_conflict="restart")
        assert await stage.commit(turn(parent, out=Out(children=(child,)))) == [True]
        assert await stage.store.get_run(child.id) is None
        [message] = await stage.store.read_inbox("one")
        assert (end_in(message).run_id, end_in(message).status) == (holder.id, "completed")

    async def test_a_child_asked_for_anew_waits_for_the_end_of_the_cancelled_child_with_its_key(
        self, stage: Stage
    ) -> None:
        before, orphan = await family(stage, key="k")
        await stage.end(before, RunStatus.FAILED)
        parent = await stage.held()
        child = child_of(parent, key="k", on_conflict="restart")
        assert await stage.commit(turn(parent, out=Out(children=(child,)))) == [True]
        assert await stage.claim() == []
        await stage.end(orphan, RunStatus.CANCELLED)
        assert await stage.store.read_inbox("one") == []
        claimed = await stage.claim_one()
        assert (claimed.id, claimed.parent_id) == (child.id, parent.id)

    async def test_each_claim_of_a_cancelled_child_says_that_it_still_waits_for_another_run(self, stage: Stage) -> None:
        before, orphan = await family(stage, key="k")
        await stage.end(before, RunStatus.FAILED)
        parent = await stage.held()
        child = child_of(parent, key="k", on_conflict="restart")
        assert await stage.commit(turn(parent, out=Out(children=(child,)))) == [True]
        assert await stage.commit(turn(parent, after=1, change=RowChange(status=RunStatus.FAILED))) == [True]
        for worker in ("three", "four"):
            assert (await stage.claim_one(worker=worker, run_id=child.id)).has_to_wait
            await stage.lose(worker)
        assert not orphan.has_to_wait

    async def test_a_child_asked_for_anew_joins_the_abandoned_child_with_its_key(self, stage: Stage) -> None:
        before, heir = await family(stage, key="k", on_parent_end="abandon")
        await stage.end(before, RunStatus.FAILED)
        parent = await stage.held()
        child = child_of(parent, key="k", on_conflict="restart")
        assert await stage.commit(turn(parent, out=Out(children=(child,)))) == [True]
        await stage.end(heir)
        [message] = await stage.store.read_inbox("one")
        assert end_in(message).run_id == heir.id

    async def test_a_child_whose_id_exists_joins_that_run(self, stage: Stage) -> None:
        parent = await stage.held()
        other = await stage.held(worker="two")
        await stage.commit(turn(parent, out=Out(children=(child_of(parent, id=other.id),))))
        await stage.end(other)
        [message] = await stage.store.read_inbox("one")
        assert end_in(message).run_id == other.id

    async def test_an_id_asked_for_twice_is_the_second_child_s_if_the_first_joins_another_run(
        self, stage: Stage
    ) -> None:
        holder = await stage.start_one(key="k")
        parent = await stage.held()
        children = (child_of(parent, "first", id="same", key="k"), child_of(parent, "second", id="same"))
        await stage.commit(turn(parent, out=Out(children=children)))
        for claimed in await stage.claim(worker="two"):
            await stage.end(claimed)
        received = {message.name: end_in(message).run_id for message in await stage.store.read_inbox("one")}
        assert received == {"first": holder, "second": "same"}

    async def test_several_may_join_one_run(self, stage: Stage) -> None:
        parents = [await stage.held(), await stage.held()]
        await stage.commit(
            *(
                turn(one, out=Out(children=(child_of(one, "a", key="k"), child_of(one, "b", key="k"))))
                for one in parents
            )
        )
        child = await stage.claim_one(worker="two")
        await stage.end(child)
        received = sorted((message.run_id, message.name) for message in await stage.store.read_inbox("one"))
        assert received == sorted((one.id, name) for one in parents for name in ("a", "b"))

    async def test_a_run_that_was_joined_is_no_child_of_its_follower(self, stage: Stage) -> None:
        parent = await stage.held()
        holder = await stage.held(worker="two", key="k")
        await stage.commit(turn(parent, out=Out(children=(child_of(parent, key="k"),))))
        await stage.commit(turn(parent, after=1, change=RowChange(status=RunStatus.COMPLETED)))
        assert await stage.store.read_inbox("two") == []
        await stage.end(holder)
        assert await stage.claim() == []

    async def test_a_signal_to_a_child_reaches_the_run_that_was_joined_instead(self, stage: Stage) -> None:
        parents = [await stage.held() for _ in range(2)]
        joined = [await stage.held(worker="two", key=key) for key in ("k", "other")]
        children = [child_of(parent, key=one.key) for parent, one in zip(parents, joined, strict=True)]
        asks = [turn(one, out=Out(children=(child,))) for one, child in zip(parents, children, strict=True)]
        assert await stage.commit(*asks) == [True, True]
        sends = [turn(one, after=1, out=sent_to(child)) for one, child in zip(parents, children, strict=True)]
        assert await stage.commit(*sends) == [True, True]
        received = [(message.run_id, message.kind, message.name) for message in await stage.store.read_inbox("two")]
        assert received == [(one.id, "signal", "go") for one in joined]

    async def test_a_signal_to_a_child_of_a_later_try_reaches_the_one_of_an_earlier_try(self, stage: Stage) -> None:
        parent, first = await family(stage, key="k")
        later = child_of(parent, key="k")
        assert await stage.commit(turn(parent, out=Out(children=(later,)))) == [True]
        assert await stage.commit(turn(parent, after=1, out=sent_to(later))) == [True]
        assert [message.run_id for message in await stage.store.read_inbox("two")] == [first.id]

    async def test_a_signal_to_a_joined_run_does_not_reach_the_child_of_an_earlier_try(self, stage: Stage) -> None:
        parent, first = await family(stage)
        holder = await stage.held(worker="two", key="k")
        later = child_of(parent, key="k")
        assert await stage.commit(turn(parent, out=Out(children=(later,)))) == [True]
        assert await stage.commit(turn(parent, after=1, out=sent_to(later))) == [True]
        assert [message.run_id for message in await stage.store.read_inbox("two")] == [holder.id]
        assert first.id != holder.id

    async def test_a_child_with_a_key_holds_it(self, stage: Stage) -> None:
        parent = await stage.held()
        child = child_of(parent, key="k")
        await stage.commit(turn(parent, out=Out(children=(child,))))
        found = await stage.store.find_run(child.workflow, "k")
        assert found is not None
        assert found.id == child.id

    @pytest.mark.parametrize("how", ["completes", "is cancelled by force", "continues first"])
    async def test_a_run_with_the_id_of_a_deleted_one_is_not_told_of_its_children(self, stage: Stage, how: str) -> None:
        parent, child = await orphan(stage, "abandon")
        if how == "continues first":
            successor = new_run()
            change = RowChange(status=RunStatus.CONTINUED)
            assert await stage.commit(turn(child, change=change, out=Out(successor=successor))) == [True]
            child = await stage.claim_one(worker="two", run_id=successor.id)
        if how == "is cancelled by force":
            await stage.store.cancel_run(child.id, force=True, now=T0)
        else:
            await stage.end(child)
        assert await stage.store.read_inbox("one") == []
        assert (await stage.run(parent.id)).status is RunStatus.RUNNING

    @pytest.mark.parametrize("is_forced", [False, True])
    async def test_the_end_of_a_run_with_the_id_of_a_deleted_one_cancels_none_of_its_children(
        self, stage: Stage, is_forced: bool
    ) -> None:
        child = await stage.held(worker="two", id="c", parent_id="gone", parent_key="pay")
        parent = await stage.held(id="gone")
        assert await stage.commit(turn(parent, out=Out(cancels=(child.id,)))) == [True]
        if is_forced:
            await stage.store.cancel_run(parent.id, force=True, now=T0)
        else:
            await stage.commit(turn(parent, after=1, change=RowChange(status=RunStatus.COMPLETED)))
        assert await stage.store.read_inbox("two") == []

    async def test_a_run_that_joins_a_child_of_a_deleted_one_with_its_id_is_told_of_the_end(self, stage: Stage) -> None:
        parent, child = await orphan(stage, "abandon", key="k")
        other = child_of(parent, key="k")
        assert await stage.commit(turn(parent, out=Out(children=(other,)))) == [True]
        signal = turn(parent, after=1, out=sent_to(other))
        assert await stage.commit(signal) == [True]
        assert [message.kind for message in await stage.store.read_inbox("two")] == ["signal"]
        await stage.end(child)
        assert [end_in(message).run_id for message in await stage.store.read_inbox("one")] == [child.id]


async def orphan(stage: Stage, on_parent_end: str, **fields: Any) -> tuple[ClaimedRun, ClaimedRun]:
    """A run held by "one", and a child, held by "two", of a run that had its id and was deleted."""
    first, child = await family(stage, on_parent_end=on_parent_end, **fields)
    await stage.end(first)
    assert await stage.store.delete_runs([first.id]) == [first.id]
    return await stage.held(id=first.id), child


def child_of(parent: ClaimedRun, parent_key: str | None = "pay", **fields: Any) -> NewRun:
    """A run that a turn of the parent begins."""
    return new_run(**{"parent_id": parent.id, "parent_key": parent_key, **fields})


def sent_to(child: NewRun) -> Out:
    """A signal to a child, as a body gives it out: by the id that the child was to have, and by its key."""
    return Out(signals=(OutSignal(child.id, "go", b"1", child=child.parent_key),))


async def family(stage: Stage, **fields: Any) -> tuple[ClaimedRun, ClaimedRun]:
    """A parent held by "one" and its child held by "two"."""
    parent = await stage.held()
    assert await stage.commit(turn(parent, out=Out(children=(child_of(parent, **fields),)))) == [True]
    parent = msgspec.structs.replace(parent, next_seq=parent.next_seq + 1)
    return parent, await stage.claim_one(worker="two")


def end_in(message: Message) -> ChildEnd:
    """The end of a child in a message."""
    return msgspec.msgpack.decode(message.payload, type=ChildEnd)
