"""Managing runs: pausing them, and removing ended ones with all that they own."""

from __future__ import annotations

import pytest

from holdfast.model import SECOND, NewWait, Out, RowChange, RunFilter, RunStatus, Sent
from holdfast.store import Store

from .chains import continued
from .events import published
from .stage import LANE, T0, Stage, after, ids_of, new_run, on_stage, turn


@on_stage
class TestPauseRuns:
    async def test_a_paused_run_is_not_claimed(self, stage: Stage) -> None:
        first, second = await stage.start(2)
        assert await stage.store.pause_runs([first, "nobody"], True, now=T0) == [first]
        assert (await stage.run(first)).paused
        assert ids_of(await stage.claim()) == [second]
        assert await stage.store.next_due([LANE], now=T0) is None

    @pytest.mark.parametrize("by_id", [True, False])
    async def test_a_paused_run_is_due_at_its_deadline_which_ends_the_pause(self, stage: Stage, by_id: bool) -> None:
        run_id = await stage.start_one(deadline_at=after(5), delay=-SECOND)
        await stage.store.pause_runs([run_id], True, now=T0)
        assert await stage.store.next_due([LANE], now=T0) == after(5)
        named = run_id if by_id else None
        assert await stage.claim(run_id=named, now=after(4)) == []
        claimed = await stage.claim_one(run_id=named, now=after(5))
        assert (claimed.id, claimed.is_paused, (await stage.run(run_id)).paused) == (run_id, True, False)

    async def test_pausing_again_changes_nothing(self, stage: Stage) -> None:
        [run_id] = await stage.start()
        assert [await stage.store.pause_runs([run_id], True, now=T0) for _ in range(2)] == [[run_id], []]
        assert [await stage.store.pause_runs([run_id], False, now=T0) for _ in range(2)] == [[run_id], []]

    async def test_a_run_that_came_due_while_it_was_paused_goes_on_when_resumed(self, stage: Stage) -> None:
        run_id = await stage.start_one(due_at=after(5))
        await stage.store.pause_runs([run_id], True, now=T0)
        assert await stage.claim(now=after(9)) == []
        await stage.store.pause_runs([run_id], False, now=after(9))
        claimed = await stage.claim_one(now=after(9))
        assert (claimed.id, claimed.is_paused) == (run_id, False)

    async def test_a_message_that_came_during_a_pause_wakes_the_run_when_resumed(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.hand_back(run)
        await stage.store.pause_runs([run.id], True, now=T0)
        await stage.store.send_signal(run.id, "go", b"", now=T0)
        assert await stage.claim() == []
        # A worker that gets a due time would claim again and again, and get nothing.
        assert await stage.store.next_due([LANE], now=T0) is None
        await stage.store.pause_runs([run.id], False, now=T0)
        assert [message.kind for message in (await stage.claim_one()).inbox] == ["signal"]

    async def test_the_owner_of_a_paused_run_gets_a_message(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.pause_runs([run.id], True, now=after(1))
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, message.kind, message.name, message.sent_at) == (run.id, "pause", None, after(1))
        assert message.payload == b"paused"
        assert await stage.commit(turn(run, taken=(message.id,))) == [True]
        assert await stage.store.read_inbox("one") == []

    async def test_the_owner_gets_only_the_last_of_several_pauses_and_resumes(self, stage: Stage) -> None:
        run = await stage.held()
        for is_paused in (True, False, True, False):
            await stage.store.pause_runs([run.id], is_paused, now=T0)
        assert [message.payload for message in await stage.store.read_inbox("one")] == [b"resumed"]

    async def test_a_pause_that_no_turn_took_does_not_wake_the_run_when_resumed(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.pause_runs([run.id], True, now=T0)
        await stage.hand_back(run)
        assert await stage.claim() == []
        await stage.store.pause_runs([run.id], False, now=T0)
        assert await stage.store.next_due([LANE], now=T0) is None
        assert await stage.claim() == []
        await stage.store.send_signal(run.id, "go", b"", now=T0)
        again = await stage.claim_one()
        assert [message.kind for message in again.inbox] == ["signal"]
        assert await stage.store.read_inbox("one") == []

    async def test_the_message_that_a_run_is_resumed_does_not_wake_a_parked_run(self, stage: Stage) -> None:
        run = await stage.held()
        for is_paused in (True, False):
            await stage.store.pause_runs([run.id], is_paused, now=T0)
        await stage.hand_back(run, due_at=after(5))
        assert await stage.store.next_due([LANE], now=T0) == after(5)
        assert await stage.claim() == []
        assert await stage.claim(run_id=run.id) == []
        assert (await stage.claim_one(now=after(5))).inbox == ()

    async def test_a_cancel_acts_on_a_paused_run(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.hand_back(run)
        await stage.store.pause_runs([run.id], True, now=T0)
        await stage.store.cancel_run(run.id, now=T0)
        claimed = await stage.claim_one()
        assert claimed.is_paused
        assert [message.kind for message in claimed.inbox] == ["cancel"]

    async def test_a_cancel_ends_the_pause_so_that_a_cleanup_may_wait(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.hand_back(run)
        await stage.store.pause_runs([run.id], True, now=T0)
        await stage.store.cancel_run(run.id, now=T0)
        again = await stage.claim_one()
        assert not (await stage.run(run.id)).paused
        await stage.hand_back(again, due_at=after(5))
        assert ids_of(await stage.claim(now=after(5))) == [run.id]

    async def test_an_ended_run_is_not_paused(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.end(run)
        assert await stage.store.pause_runs([run.id], True, now=T0) == []


@on_stage
class TestDeleteRuns:
    async def test_an_ended_run_goes_and_a_live_one_stays(self, stage: Stage) -> None:
        gone, held = await stage.held(key="k"), await stage.held()
        [pending] = await stage.start()
        await stage.end(gone)
        assert await stage.store.delete_runs([gone.id, held.id, pending, "nobody"]) == [gone.id]
        assert await stage.store.get_run(gone.id) is None
        assert await stage.store.read_journal(gone.id) == []
        assert sorted(ids_of((await stage.store.list_runs(RunFilter())).items)) == sorted([held.id, pending])
        assert await stage.store.delete_runs([gone.id]) == []

    async def test_a_deleted_run_s_key_is_free_again(self, stage: Stage) -> None:
        run = await stage.held(key="k")
        await stage.end(run)
        await stage.store.delete_runs([run.id])
        assert await stage.store.find_run(LANE.workflow, "k") is None
        [started] = await stage.store.start_runs([new_run(key="k")], now=T0)
        assert started.created

    async def test_a_deleted_run_leaves_its_key_to_the_run_that_holds_it_now(self, stage: Stage) -> None:
        run = await stage.held(key="k")
        await stage.end(run)
        [other] = await stage.store.start_runs([new_run(key="k", on_conflict="restart")], now=T0)
        await stage.store.delete_runs([run.id])
        found = await stage.store.find_run(LANE.workflow, "k")
        assert found is not None
        assert found.id == other.id

    async def test_a_deleted_run_s_id_is_free_again_and_nothing_of_the_run_is_left(self, stage: Stage) -> None:
        run = await stage.held(id="again")
        await stage.store.send_signal("again", "go", b"", message_id="m", now=T0)
        out = Out(values=(("at", b"1"),), items=(("log", b"a"),), waits=(NewWait(number=1, kind="event", name="paid"),))
        await stage.commit(turn(run, out=out))
        [wait] = (await stage.store.read_unmatched(10)).waits
        event = await published(stage, "paid")
        await stage.store.deliver_event(event, [wait])
        await stage.commit(turn(run, after=1, change=RowChange(status=RunStatus.COMPLETED)))
        assert await stage.store.delete_runs(["again"]) == ["again"]
        assert await stage.store.read_value("again", "at") is None
        again = await stage.held(id="again")
        assert (again.rows, again.inbox) == ((), ())
        assert await stage.store.read_value("again", "at") is None
        assert await stage.store.read_items("again", "log") == []
        assert await stage.store.send_signal("again", "go", b"", message_id="m", now=T0) is Sent.SENT
        await stage.commit(turn(again, out=Out(waits=(NewWait(number=1, kind="event", name="paid"),))))
        [wait] = (await stage.store.read_unmatched(10)).waits
        assert await stage.store.find_events(wait) == [event]

    async def test_what_belongs_to_a_chain_goes_with_its_last_run(self, stage: Stage) -> None:
        first = await stage.held()
        await stage.commit(turn(first, out=Out(values=(("at", b"1"),), items=(("log", b"a"),))))
        second = await continued(stage, first, after=1)
        await stage.end(second)
        await stage.store.delete_runs([second.id])
        assert await stage.store.read_value(first.id, "at") == b"1"
        assert len(await stage.store.read_items(first.id, "log")) == 1
        await stage.store.delete_runs([first.id])
        assert await stage.store.read_value(second.id, "at") is None
        assert await stage.store.read_value(first.id, "at") is None
        assert await stage.store.read_items(second.id, "log") == []

    async def test_the_first_run_of_a_chain_stays_while_another_run_of_the_chain_is_kept(self, stage: Stage) -> None:
        # The chain has its id: another run with that id would get the chain's values and messages.
        first = await stage.held(id="chain")
        second = await continued(stage, first)
        third = await continued(stage, second)
        assert await stage.store.delete_runs([first.id, second.id]) == [second.id]
        [again] = await stage.store.start_runs([new_run(id="chain")], now=T0)
        assert not again.created
        await stage.end(third)
        assert await stage.store.delete_runs([first.id]) == []
        assert await stage.store.delete_runs([third.id]) == [third.id]
        assert await stage.store.delete_runs([first.id]) == [first.id]

    async def test_a_run_stays_while_a_run_that_retries_it_is_kept(self, stage: Stage) -> None:
        failed = await stage.held()
        await stage.end(failed, RunStatus.FAILED)
        retry = await stage.held(chain_id=failed.id, forked_from=failed.id)
        assert await stage.store.delete_runs([failed.id]) == []
        await stage.end(retry)
        assert sorted(await stage.store.delete_runs([failed.id, retry.id])) == sorted([failed.id, retry.id])

    async def test_a_chain_deleted_at_once_leaves_nothing(self, stage: Stage) -> None:
        first = await stage.held()
        await stage.store.send_signal(first.id, "go", b"", message_id="m", now=T0)
        await stage.commit(turn(first, out=Out(values=(("at", b"1"),))))
        second = await continued(stage, first, after=1)
        await stage.end(second)
        assert sorted(await stage.store.delete_runs([first.id, second.id])) == sorted([first.id, second.id])
        assert await stage.store.send_signal(first.id, "go", b"", message_id="m", now=T0) is Sent.MISSING
        assert await stage.store.read_value(first.id, "at") is None

    async def test_a_turn_of_a_run_that_was_deleted_is_refused(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.cancel_run(run.id, force=True, now=T0)
        await stage.store.delete_runs([run.id])
        assert await stage.commit(turn(run)) == [False]
        assert await stage.commit(turn(run, out=Out(values=(("at", b"1"),)))) == [False]

    async def test_a_turn_of_a_deleted_run_is_not_taken_for_one_of_a_run_that_has_its_id(self, stage: Stage) -> None:
        await refuse_stale_turns(stage, stage.store)


async def refuse_stale_turns(stage: Stage, other: Store) -> None:
    """Have a store remove a run that is held, and start another with its id: no turn of the first may get into it."""
    stale = await stage.held(id="again")
    await other.cancel_run(stale.id, force=True, now=T0)
    await other.delete_runs([stale.id])
    await other.start_runs([new_run(id="again", retention=0)], now=after(1))
    end = RowChange(status=RunStatus.COMPLETED)
    assert await stage.commit(turn(stale)) == [False]
    assert await stage.commit(turn(stale, change=end)) == [False]
    run = await stage.claim_one(now=after(1))
    assert await stage.commit(turn(stale)) == [False]
    assert await stage.commit(turn(run)) == [True]
    assert await stage.commit(turn(stale, after=1, out=Out(values=(("at", b"1"),)))) == [False]
    assert await stage.commit(turn(run, after=1, change=end, out=Out(values=(("at", b"2"),)))) == [True]
    assert await stage.store.read_value("again", "at") == b"2"
    assert [row[0] for row in await stage.journal("again")] == [0, 1]


@on_stage
class TestSweep:
    async def test_runs_go_when_their_retention_is_over(self, stage: Stage) -> None:
        run = await stage.held(retention=10 * SECOND)
        await stage.end(run, now=after(5))
        for seconds in (4, 14.9):
            swept = await stage.store.sweep(10, events_before=T0, now=after(seconds))
            assert (swept.run_ids, swept.is_all) == ((), True)
        swept = await stage.store.sweep(10, events_before=T0, now=after(15))
        assert swept.run_ids == (run.id,)
        assert await stage.store.get_run(run.id) is None

    async def test_runs_without_retention_and_live_runs_are_never_swept(self, stage: Stage) -> None:
        ended, held = await stage.held(retention=None), await stage.held(retention=0)
        await stage.end(ended)
        swept = await stage.store.sweep(10, events_before=T0, now=after(10**8))
        assert swept.run_ids == ()
        assert (await stage.run(held.id)).status is RunStatus.RUNNING

    async def test_the_first_run_of_a_chain_is_swept_after_the_others(self, stage: Stage) -> None:
        first = await stage.held(retention=SECOND)
        second = await continued(stage, first, retention=9 * SECOND)
        assert (await stage.store.sweep(10, events_before=T0, now=after(5))).run_ids == ()
        await stage.end(second)
        swept = await stage.store.sweep(10, events_before=T0, now=after(9))
        assert (swept.run_ids, swept.is_all) == ((second.id,), False)
        swept = await stage.store.sweep(10, events_before=T0, now=after(9))
        assert (swept.run_ids, swept.is_all) == ((first.id,), True)

    async def test_the_first_run_of_a_chain_is_kept_for_its_own_retention_too(self, stage: Stage) -> None:
        first = await stage.held(retention=20 * SECOND)
        second = await continued(stage, first, retention=0)
        await stage.end(second)
        assert (await stage.store.sweep(10, events_before=T0, now=after(1))).run_ids == (second.id,)
        assert (await stage.store.sweep(10, events_before=T0, now=after(19))).run_ids == ()
        assert (await stage.store.sweep(10, events_before=T0, now=after(20))).run_ids == (first.id,)

    async def test_a_chain_whose_retention_is_over_is_swept_at_once(self, stage: Stage) -> None:
        first = await stage.held(retention=0)
        second = await continued(stage, first, retention=0)
        await stage.end(second)
        swept = await stage.store.sweep(10, events_before=T0, now=T0)
        assert (sorted(swept.run_ids), swept.is_all) == (sorted([first.id, second.id]), True)

    async def test_first_runs_that_are_kept_hold_up_no_sweep(self, stage: Stage) -> None:
        for _ in range(5):
            await continued(stage, await stage.held(retention=0), retention=0)
        ended = await stage.held(retention=0)
        await stage.end(ended, now=after(1))
        answers = [await stage.store.sweep(2, events_before=T0, now=after(1)) for _ in range(4)]
        assert [answer.run_ids for answer in answers] == [(), (), (ended.id,), ()]
        assert [answer.is_all for answer in answers] == [False, False, False, True]

    async def test_runs_are_swept_however_they_ended(self, stage: Stage) -> None:
        forced, failed = await stage.held(retention=0), await stage.held(retention=0)
        [unbegun] = await stage.start(retention=0)
        await stage.store.cancel_run(forced.id, force=True, now=T0)
        await stage.end(failed, RunStatus.FAILED)
        await stage.store.cancel_run(unbegun, now=T0)
        swept = await stage.store.sweep(10, events_before=T0, now=T0)
        assert sorted(swept.run_ids) == sorted([forced.id, failed.id, unbegun])

    async def test_a_sweep_takes_the_oldest_first_and_says_if_there_is_more(self, stage: Stage) -> None:
        runs = [await stage.held(retention=SECOND) for _ in range(5)]
        for number, run in enumerate(runs):
            await stage.end(run, now=after(number))
        answers = [await stage.store.sweep(2, events_before=T0, now=after(100)) for _ in range(3)]
        assert [answer.run_ids for answer in answers] == [
            tuple(ids_of(part)) for part in (runs[:2], runs[2:4], runs[4:])
        ]
        assert [answer.is_all for answer in answers] == [False, False, True]

    async def test_old_events_go_with_their_message_ids(self, stage: Stage) -> None:
        for number in range(4):
            await stage.store.publish_event("paid", b"", message_id=str(number), now=after(number))
        swept = await stage.store.sweep(10, events_before=after(2), now=after(100))
        assert (swept.events, swept.is_all) == (2, True)
        left = (await stage.store.read_unmatched(10)).events
        assert [event.published_at for event in left] == [after(2), after(3)]
        answers = [await stage.store.publish_event("paid", b"", message_id=str(n), now=after(9)) for n in range(4)]
        assert answers == [Sent.SENT, Sent.SENT, Sent.DUPLICATE, Sent.DUPLICATE]

    async def test_events_go_in_batches(self, stage: Stage) -> None:
        for number in range(5):
            await stage.store.publish_event("paid", b"", now=after(number))
        answers = [await stage.store.sweep(2, events_before=after(50), now=after(100)) for _ in range(3)]
        assert [(answer.events, answer.is_all) for answer in answers] == [(2, False), (2, False), (1, True)]
