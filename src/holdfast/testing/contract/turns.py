"""Turns and row-only writes: which are accepted, and what they change."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.model import Out, OutSignal, RunStatus, moment_of
from holdfast.model import RowChange as Change

from .stage import T0, Stage, after, ids_of, on_stage, row_write, turn


@on_stage
class TestCommitTurns:
    @pytest.mark.parametrize("count", [1, 2, 100, 513, 1100])
    async def test_a_batch_of_any_size_is_accepted(self, stage: Stage, count: int) -> None:
        await stage.start(count)
        runs = await stage.claim(count)
        assert await stage.commit(*(turn(run, run.id.encode()) for run in runs)) == [True] * count
        for run in (runs[0], runs[-1]):
            assert await stage.journal(run.id) == [(0, 1, run.id.encode())]

    async def test_a_batch_is_on_its_way_before_it_is_awaited(self, stage: Stage) -> None:
        run = await stage.held()
        turns = [turn(run)]
        answers = stage.store.commit_turns(turns, now=T0)
        turns.clear()
        assert await answers == [True]

    async def test_committing_nothing_changes_nothing(self, stage: Stage) -> None:
        assert await stage.commit() == []

    @pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xfe\x00'\"", bytes(range(256)) * 5000])
    async def test_bytes_are_read_back_as_they_were(self, stage: Stage, data: bytes) -> None:
        run = await stage.held()
        change = Change(status=RunStatus.FAILED, output=data, error=data)
        assert await stage.commit(turn(run, data, change=change)) == [True]
        [row] = await stage.store.read_journal(run.id)
        found = await stage.run(run.id)
        assert (row.seq, row.epoch, row.at, row.data) == (0, 1, T0, data)
        assert (found.output, found.error) == (data, data)

    async def test_a_turn_sent_again_is_accepted_and_changes_nothing_twice(self, stage: Stage) -> None:
        run = await stage.held()
        parked = turn(run, change=Change(status=RunStatus.WAITING, due_at=T0, release=True))
        assert await stage.commit(parked) == [True]
        again = await stage.claim_one(worker="two")
        assert await stage.commit(parked) == [True]
        found = await stage.run(run.id)
        assert (found.owner, found.epoch, found.status) == ("two", again.epoch, RunStatus.RUNNING)
        assert len(await stage.journal(run.id)) == 1

    async def test_a_stale_turn_after_a_takeover_is_refused_whole(self, stage: Stage) -> None:
        stale = await stage.held()
        await stage.lose("one")
        new = await stage.claim_one(worker="two")
        end = turn(stale, b"stale", change=Change(status=RunStatus.COMPLETED, output=b"stale"))
        assert await stage.commit(end) == [False]
        found = await stage.run(stale.id)
        assert (found.status, found.owner, found.output) == (RunStatus.RUNNING, "two", None)
        assert await stage.commit(turn(new, b"new")) == [True]
        assert [data for _, _, data in await stage.journal(stale.id)][1:] == [b"new"]

    async def test_stale_turns_are_refused_behind_turns_of_the_new_owner(self, stage: Stage) -> None:
        stale = await stage.held()
        assert await stage.commit(turn(stale, b"0"), turn(stale, b"1", after=1)) == [True, True]
        await stage.lose("one")
        new = await stage.claim_one(worker="two")
        assert await stage.commit(turn(new, b"new")) == [True]
        late = [turn(stale, b"2", after=2), turn(stale, b"3", after=3), turn(stale, b"4", after=4)]
        assert await stage.commit(*late) == [False, False, False]
        rows = await stage.journal(stale.id)
        assert [(seq, epoch) for seq, epoch, _ in rows] == [(0, 1), (1, 1), (2, 2), (3, 2)]
        assert rows[-1][2] == b"new"

    async def test_nothing_follows_a_refused_turn_however_large_the_batch(self, stage: Stage) -> None:
        stale = await stage.held()
        await stage.lose("one")
        await stage.claim_one(worker="two")
        await stage.start(1200)
        others = await stage.claim(1200)
        batch = [turn(stale, b"0"), *(turn(run) for run in others), turn(stale, b"1", after=1)]
        assert await stage.commit(*batch) == [False, *[True] * 1200, False]
        assert [seq for seq, _, _ in await stage.journal(stale.id)] == [0]

    async def test_the_first_of_two_turns_at_one_seq_is_kept(self, stage: Stage) -> None:
        run = await stage.held()
        ended = turn(run, b"second", epoch=run.epoch + 1, change=Change(status=RunStatus.COMPLETED))
        assert await stage.commit(turn(run, b"first"), ended) == [True, False]
        assert await stage.journal(run.id) == [(0, 1, b"first")]
        assert (await stage.run(run.id)).status is RunStatus.RUNNING

    async def test_a_turn_given_twice_in_one_batch_is_written_once(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.commit(turn(run), turn(run)) == [True, True]
        assert len(await stage.journal(run.id)) == 1

    @pytest.mark.parametrize("count", [10, 1100])
    async def test_one_refused_turn_leaves_the_others_alone(self, stage: Stage, count: int) -> None:
        await stage.start(count)
        stale = await stage.claim(count)
        await stage.lose("one")
        taken_over = await stage.claim(1, worker="two", run_id=stale[count // 2].id)
        assert len(taken_over) == 1
        runs = [run for run in stale if run.id != taken_over[0].id]
        ends = [turn(run, change=Change(status=RunStatus.COMPLETED, output=run.id.encode())) for run in stale]
        assert await stage.commit(*ends) == [run.id != taken_over[0].id for run in stale]
        assert len(await stage.store.read_ended(ids_of(stale))) == len(runs)
        for run in (runs[0], runs[-1]):
            found = await stage.run(run.id)
            assert (found.status, found.output) == (RunStatus.COMPLETED, run.id.encode())
        assert (await stage.run(taken_over[0].id)).status is RunStatus.RUNNING

    async def test_a_batch_sent_again_with_more_in_it_does_only_what_is_new(self, stage: Stage) -> None:
        await stage.start(3)
        runs = await stage.claim()
        change = Change(status=RunStatus.WAITING, crashes=3)
        turns = [turn(run, change=change) for run in runs]
        assert await stage.commit(turns[0], turns[1]) == [True, True]
        assert await stage.commit(turn(runs[0], after=1, change=Change(status=RunStatus.RUNNING))) == [True]
        assert await stage.commit(*turns) == [True, True, True]
        assert [(await stage.run(run.id)).crashes for run in runs] == [0, 3, 3]

    async def test_a_turn_for_a_run_that_is_not_there_is_refused(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.commit(turn(run, run_id="nobody"), turn(run)) == [False, True]
        assert await stage.journal("nobody") == []

    @pytest.mark.parametrize("kind", ["plain", "changing", "giving"])
    async def test_a_late_turn_below_the_checkpoint_of_another_owner_is_refused(self, stage: Stage, kind: str) -> None:
        stale, other = await stage.held(), await stage.held()
        await stage.lose("one")
        run = await stage.claim_one(worker="two", run_id=stale.id)
        assert await stage.commit(turn(run), turn(run, b"checkpoint", after=1, out=Out(truncate=True))) == [True, True]
        late = {
            "plain": turn(stale, b"late"),
            "changing": turn(stale, b"late", change=Change(status=RunStatus.WAITING, release=True)),
            "giving": turn(stale, b"late", out=Out(signals=(OutSignal(other.id, "go", b""),))),
        }
        before = await stage.run(stale.id)
        assert await stage.commit(late[kind]) == [False]
        assert await stage.run(stale.id) == before
        assert [data for _, _, data in await stage.journal(stale.id)] == [b"checkpoint"]
        [again] = await stage.claim(run_id=other.id)
        assert again.inbox == ()

    async def test_a_late_turn_below_a_checkpoint_leaves_the_others_of_its_batch_alone(self, stage: Stage) -> None:
        stale, other = await stage.held(), await stage.held(worker="two")
        await stage.lose("one")
        run = await stage.claim_one(worker="two", run_id=stale.id)
        await stage.commit(turn(run, out=Out(truncate=True)))
        assert await stage.commit(turn(other), turn(stale)) == [True, False]

    async def test_a_turn_that_its_own_owner_s_checkpoint_has_cut_off_is_accepted_again(self, stage: Stage) -> None:
        # A worker goes on to a checkpoint only after its turn was accepted, so the first answer was yes.
        run, other = await stage.held(), await stage.held()
        sends = turn(run, out=Out(signals=(OutSignal(other.id, "go", b""),)))
        assert await stage.commit(sends, turn(run, after=1, out=Out(truncate=True))) == [True, True]
        assert await stage.commit(sends) == [True]
        assert [seq for seq, _, _ in await stage.journal(run.id)] == [1]
        assert len(await stage.store.read_inbox("one")) == 1

    async def test_a_turn_that_another_owner_s_checkpoint_has_cut_off_is_refused_although_it_was_accepted(
        self, stage: Stage
    ) -> None:
        # The row at this seq is gone, so the store can't tell whose it was. The sender has lost the run in any case.
        run = await stage.held()
        parked = turn(run, change=Change(status=RunStatus.WAITING, due_at=T0, release=True))
        assert await stage.commit(parked) == [True]
        again = await stage.claim_one(worker="two")
        assert await stage.commit(turn(again), turn(again, after=1, out=Out(truncate=True))) == [True, True]
        assert await stage.commit(parked) == [False]
        assert (await stage.run(run.id)).owner == "two"

    async def test_a_run_with_a_checkpoint_goes_on_after_a_takeover(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.commit(turn(run), turn(run, b"checkpoint", after=1, out=Out(truncate=True)))
        await stage.lose("one")
        again = await stage.claim_one(worker="two")
        assert [row.seq for row in again.rows] == [1, 2]
        assert await stage.commit(turn(again)) == [True]
        assert await stage.commit(turn(run, after=2)) == [False]

    async def test_an_end_is_written_with_its_turn(self, stage: Stage) -> None:
        run = await stage.held()
        change = Change(status=RunStatus.FAILED, error=b"error", crashes=2, due_at=T0)
        assert await stage.commit(turn(run, change=change), now=after(4)) == [True]
        found = await stage.run(run.id)
        assert (found.status, found.error, found.owner, found.due_at) == (RunStatus.FAILED, b"error", None, None)
        assert (found.ended_at, found.crashes) == (moment_of(after(4)), 2)
        assert await stage.claim(now=after(100)) == []

    @pytest.mark.parametrize(
        "status", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.CONTINUED]
    )
    async def test_an_end_is_final(self, stage: Stage, status: RunStatus) -> None:
        run = await stage.held()
        await stage.end(run, status)
        before = await stage.run(run.id)
        for change in (Change(status=RunStatus.WAITING, due_at=T0, release=True), Change(status=RunStatus.FAILED)):
            await stage.commit(turn(run, after=1, change=change), now=after(1))
            await stage.commit(turn(run, after=2, epoch=run.epoch + 1, change=change), now=after(1))
        await stage.store.cancel_run(run.id, now=after(1))
        await stage.store.cancel_run(run.id, force=True, now=after(1))
        assert await stage.run(run.id) == before
        assert await stage.claim(now=after(100)) == []

    async def test_a_run_may_be_given_back_with_its_turn(self, stage: Stage) -> None:
        run = await stage.held()
        change = Change(status=RunStatus.WAITING, due_at=after(10), release=True)
        assert await stage.commit(turn(run, change=change)) == [True]
        found = await stage.run(run.id)
        assert (found.owner, found.status, found.due_at) == (None, RunStatus.WAITING, moment_of(after(10)))
        assert await stage.claim(now=after(9)) == []
        again = await stage.claim_one(now=after(10))
        assert (again.next_seq, again.is_takeover, again.crashes) == (1, False, 0)

    async def test_a_change_without_release_keeps_the_owner(self, stage: Stage) -> None:
        run = await stage.held()
        change = Change(status=RunStatus.WAITING, due_at=T0, crashes=4, blocked="why")
        assert await stage.commit(turn(run, change=change)) == [True]
        found = await stage.run(run.id)
        assert (found.owner, found.status, found.crashes, found.blocked) == ("one", RunStatus.WAITING, 4, "why")
        assert await stage.claim(worker="two", now=after(1)) == []
        assert await stage.commit(turn(run, after=1)) == [True]

    async def test_messages_taken_go_with_the_turn_and_stay_with_a_refused_one(self, stage: Stage) -> None:
        stale = await stage.held()
        await stage.store.cancel_run(stale.id, now=T0)
        [message] = await stage.store.read_inbox("one")
        await stage.lose("one")
        run = await stage.claim_one(worker="two")
        assert await stage.commit(turn(stale, taken=(message.id,))) == [False]
        assert [one.id for one in run.inbox] == [message.id]
        assert await stage.commit(turn(run, taken=(message.id,))) == [True]
        await stage.hand_back(run, worker="two", due_at=T0)
        assert (await stage.claim_one(worker="two")).inbox == ()

    async def test_turns_of_many_callers_are_answered_each_for_itself(self, stage: Stage) -> None:
        await stage.start(50)
        runs = await stage.claim()
        answers = await asyncio.gather(
            *(stage.commit(turn(run)) for run in runs),
            *(stage.commit(turn(run, epoch=9), turn(run, run_id="nobody")) for run in runs),
        )
        assert answers == [[True]] * 50 + [[False, False]] * 50

    async def test_a_turn_that_can_t_be_stored_fails_alone(self, stage: Stage) -> None:
        await stage.start(3)
        runs = await stage.claim()
        bad = turn(runs[1], at=object())
        answers = await asyncio.gather(
            stage.commit(turn(runs[0])), stage.commit(bad), stage.commit(turn(runs[2])), return_exceptions=True
        )
        assert (answers[0], answers[2]) == ([True], [True])
        # The error may be raised, or be the answer for this turn.
        error = answers[1] if isinstance(answers[1], BaseException) else answers[1][0]
        assert isinstance(error, Exception)
        assert await stage.journal(runs[1].id) == []


@on_stage
class TestWriteRows:
    async def test_a_run_handed_back_is_claimed_without_a_takeover(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.commit(turn(run)) == [True]
        assert await stage.hand_back(run, next_seq=1, due_at=T0)
        again = await stage.claim_one(worker="two")
        assert (again.next_seq, again.epoch, again.is_takeover, again.crashes) == (1, 2, False, 0)
        assert [row.data for row in again.rows] == [b"turn"]

    async def test_a_parked_run_sleeps_until_it_is_due(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.hand_back(run, due_at=after(60))
        assert await stage.claim(now=after(59)) == []
        assert len(await stage.claim(now=after(60))) == 1

    async def test_a_blocked_run_says_why(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.hand_back(run, blocked="it diverged", due_at=after(60), crashes=2)
        found = await stage.run(run.id)
        assert (found.blocked, found.status, found.crashes) == ("it diverged", RunStatus.WAITING, 2)
        assert (await stage.claim_one(now=after(60))).blocked == "it diverged"

    async def test_a_write_by_another_worker_or_epoch_is_refused(self, stage: Stage) -> None:
        run = await stage.held()
        before = await stage.run(run.id)
        assert not await stage.hand_back(run, worker="two", due_at=T0)
        assert not await stage.hand_back(run, epoch=run.epoch + 1, due_at=T0)
        assert not await stage.hand_back(run, epoch=run.epoch - 1, due_at=T0)
        assert await stage.run(run.id) == before

    async def test_a_write_after_the_same_worker_claimed_again_is_refused(self, stage: Stage) -> None:
        stale = await stage.held()
        assert await stage.hand_back(stale, due_at=T0)
        again = await stage.claim_one()
        assert not await stage.hand_back(stale)
        assert (await stage.run(again.id)).owner == "one"

    async def test_a_write_for_a_run_that_ended_or_never_was_is_refused(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.end(run)
        assert not await stage.hand_back(run, due_at=T0)
        assert await stage.store.write_rows([row_write(run, run_id="nobody")]) == [False]
        assert (await stage.run(run.id)).status is RunStatus.COMPLETED

    async def test_each_write_of_a_batch_stands_for_itself(self, stage: Stage) -> None:
        await stage.start(700)
        runs = await stage.claim(700)
        writes = [row_write(run, epoch=run.epoch + number % 2, due_at=T0) for number, run in enumerate(runs)]
        assert await stage.store.write_rows(writes) == [number % 2 == 0 for number in range(700)]
        assert len(await stage.claim(700, worker="two")) == 350

    async def test_a_run_is_handed_back_once(self, stage: Stage) -> None:
        run = await stage.held()
        writes = [row_write(run, due_at=after(1)), row_write(run, due_at=after(2))]
        assert await stage.store.write_rows(writes) == [True, False]
        assert (await stage.run(run.id)).due_at == moment_of(after(1))

    async def test_an_end_needs_a_turn(self, stage: Stage) -> None:
        run = await stage.held()
        with pytest.raises(ValueError, match="turn"):
            await stage.hand_back(run, status=RunStatus.COMPLETED)
        assert (await stage.run(run.id)).status is RunStatus.RUNNING

    async def test_writing_nothing_changes_nothing(self, stage: Stage) -> None:
        assert await stage.store.write_rows([]) == []
