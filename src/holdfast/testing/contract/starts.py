"""Starting runs, and which run a key belongs to."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from holdfast.model import SECOND, JournalRow, RunStatus, Stopped, decode_entries, moment_of

from .stage import LANE, T0, Stage, after, ids_of, new_run, on_stage, turn


@on_stage
class TestStartRuns:
    async def test_a_started_run_is_read_back_as_it_was_given(self, stage: Stage) -> None:
        run = new_run(
            input=b"\x00[1]\xff", seed=b"\x00\xff", queue="slow", key="k", priority=9, tags={"a": "ü", 'q"': "\n"},
            chain_id="chain", parent_id="parent", forked_from="fork", deadline=5 * SECOND, delay=SECOND, retention=7,
        )  # fmt: skip
        [started] = await stage.store.start_runs([run], now=T0)
        found = await stage.run(run.id)
        assert (started.id, started.status, started.created) == (run.id, RunStatus.PENDING, True)
        assert (found.input, found.key, found.queue, found.priority) == (run.input, "k", "slow", 9)
        assert dict(found.tags) == run.tags
        assert (found.chain_id, found.parent_id, found.forked_from) == ("chain", "parent", "fork")
        assert (found.created_at, found.due_at) == (moment_of(T0), moment_of(after(1)))
        assert (found.deadline_at, found.retention) == (moment_of(after(5)), 7)
        assert (found.status, found.owner, found.epoch, found.crashes) == (RunStatus.PENDING, None, 0, 0)
        assert (found.started_at, found.ended_at, found.output, found.error) == (None, None, None, None)
        assert not found.paused

    async def test_a_run_comes_with_the_trace_it_was_started_in(self, stage: Stage) -> None:
        trace = f"00-{'a' * 32}-{'b' * 16}-01"
        assert (await stage.held(trace=trace)).trace == trace
        assert (await stage.held()).trace is None

    async def test_a_run_is_its_own_origin_unless_another_is_given(self, stage: Stage) -> None:
        run = await stage.held()
        assert (run.origin_id, (await stage.run(run.id)).origin_id) == (run.id, run.id)
        other = await stage.held(origin_id="the one before")
        assert (other.origin_id, (await stage.run(other.id)).origin_id) == ("the one before", "the one before")

    async def test_the_origin_of_a_later_run_of_a_chain_is_the_first_unless_another_is_given(
        self, stage: Stage
    ) -> None:
        first = await stage.held()
        await stage.end(first)
        again = await stage.held(chain_id=first.id)
        assert (again.origin_id, (await stage.run(again.id)).origin_id) == (first.id, first.id)

    async def test_a_run_without_a_retention_is_kept_for_ever(self, stage: Stage) -> None:
        assert (await stage.run(await stage.start_one())).retention is None

    async def test_a_retry_keeps_the_seed_of_the_run_that_it_goes_on_from(self, stage: Stage) -> None:
        old = await stage.start_one(seed=b"\x00old\xff")
        new = await stage.held(seed=b"new", forked_from=old, keeps_seed=True, delay=-SECOND)
        assert new.seed == b"\x00old\xff"

    async def test_a_retry_takes_the_given_seed_if_the_other_run_is_gone(self, stage: Stage) -> None:
        assert (await stage.held(seed=b"new", forked_from="nobody", keeps_seed=True)).seed == b"new"

    async def test_a_fork_has_a_seed_of_its_own(self, stage: Stage) -> None:
        old = await stage.start_one(seed=b"old", delay=SECOND)
        assert (await stage.held(seed=b"new", forked_from=old)).seed == b"new"

    async def test_a_run_is_due_at_its_deadline_if_its_delay_is_longer(self, stage: Stage) -> None:
        run_id = await stage.start_one(delay=60 * SECOND, deadline=5 * SECOND)
        assert (await stage.run(run_id)).due_at == moment_of(after(5))
        assert await stage.store.next_due([LANE], now=T0) == after(5)
        assert await stage.claim(now=after(4)) == []
        assert ids_of(await stage.claim(now=after(5))) == [run_id]

    async def test_a_run_is_the_first_of_its_chain_unless_another_is_given(self, stage: Stage) -> None:
        run_id = await stage.start_one()
        assert (await stage.run(run_id)).chain_id == run_id

    async def test_absolute_times_are_taken_as_they_are(self, stage: Stage) -> None:
        run_id = await stage.start_one(due_at=after(7), deadline_at=after(9))
        found = await stage.run(run_id)
        assert (found.due_at, found.deadline_at) == (moment_of(after(7)), moment_of(after(9)))

    async def test_without_a_time_given_the_store_s_clock_counts(self, stage: Stage) -> None:
        store_time = await stage.store.register_worker("clock", [LANE], SECOND)
        [started] = await stage.store.start_runs([new_run()])
        created_at = (await stage.run(started.id)).created_at
        assert abs((created_at - moment_of(store_time)).total_seconds()) < 10

    @pytest.mark.parametrize("count", [1, 2, 3, 100, 513, 1100])
    async def test_any_number_is_started_in_one_call(self, stage: Stage, count: int) -> None:
        runs = [new_run(input=str(number).encode()) for number in range(count)]
        started = await stage.store.start_runs(runs, now=T0)
        assert [run.id for run in started] == [run.id for run in runs]
        assert all(run.created for run in started)
        for run in (runs[0], runs[-1]):
            assert (await stage.run(run.id)).input == run.input

    async def test_starting_nothing_changes_nothing(self, stage: Stage) -> None:
        assert await stage.store.start_runs([], now=T0) == []

    async def test_an_id_that_exists_is_returned_as_it_is(self, stage: Stage) -> None:
        run = await stage.held(id="mine", input=b"first")
        await stage.end(run)
        [again] = await stage.store.start_runs([new_run(id="mine", input=b"second")], now=T0)
        assert (again.id, again.status, again.created) == ("mine", RunStatus.COMPLETED, False)
        assert (await stage.run("mine")).input == b"first"

    async def test_an_id_given_twice_in_one_call_is_one_run(self, stage: Stage) -> None:
        runs = [new_run(id="twin"), new_run(id="twin"), new_run(id="keyed", key="k"), new_run(id="keyed", key="other")]
        started = await stage.store.start_runs(runs, now=T0)
        assert [(run.id, run.created) for run in started] == [
            ("twin", True), ("twin", False), ("keyed", True), ("keyed", False)
        ]  # fmt: skip

    async def test_an_id_given_twice_in_one_call_is_settled_in_order(self, stage: Stage) -> None:
        runs = [
            new_run(id="keyed", key="k"), new_run(id="keyed"),
            new_run(id="plain"), new_run(id="plain", key="other"),
            new_run(id="over", key="new", on_conflict="replace"), new_run(id="over"),
        ]  # fmt: skip
        started = await stage.store.start_runs(runs, now=T0)
        assert [(run.id, run.created) for run in started] == [(run.id, not place % 2) for place, run in enumerate(runs)]
        assert [(await stage.run(id)).key for id in ("keyed", "plain", "over")] == ["k", None, "new"]

    async def test_an_id_given_twice_in_one_call_is_the_second_run_s_if_the_first_start_led_to_another_run(
        self, stage: Stage
    ) -> None:
        holder = await stage.start_one(key="k")
        runs = [new_run(id="a", key="k"), new_run(id="a"), new_run(id="b", key="k"), new_run(id="b", key="other")]
        started = await stage.store.start_runs(runs, now=T0)
        assert [(run.id, run.created) for run in started] == [
            (holder, False), ("a", True), (holder, False), ("b", True)
        ]  # fmt: skip

    async def test_a_start_that_is_sent_again_finds_its_own_run(self, stage: Stage) -> None:
        run = new_run(key="k", on_conflict="replace")
        await stage.store.start_runs([run], now=T0)
        [again] = await stage.store.start_runs([run], now=T0)
        assert again.id == run.id
        assert await stage.store.find_run(LANE.workflow, "k") == await stage.run(run.id)

    async def test_given_rows_begin_the_journal(self, stage: Stage) -> None:
        run = await stage.held(rows=(b"zero", b"one"))
        assert run.rows == (JournalRow(0, 0, T0, b"zero"), JournalRow(1, 0, T0, b"one"))
        assert (run.next_seq, run.is_takeover, run.crashes) == (2, False, 0)
        assert await stage.commit(turn(run, b"two")) == [True]

    async def test_a_bad_run_fails_alone(self, stage: Stage) -> None:
        good, bad = new_run(), new_run(id="again", seed=object())
        answers = await asyncio.gather(
            stage.store.start_runs([good], now=T0), stage.store.start_runs([bad], now=T0), return_exceptions=True
        )
        assert isinstance(answers[1], Exception)
        assert not isinstance(answers[0], BaseException)
        assert (await stage.run(good.id)).status is RunStatus.PENDING
        assert await stage.store.get_run("again") is None
        [again] = await stage.store.start_runs([new_run(id="again")], now=T0)
        assert again.created
        assert len(await stage.claim()) == 2

    async def test_a_priority_out_of_range_is_refused(self, stage: Stage) -> None:
        for priority in (-1, 10):
            with pytest.raises(ValueError, match="priority"):
                await stage.store.start_runs([new_run(priority=priority)], now=T0)

    async def test_runs_started_at_the_same_time_all_exist(self, stage: Stage) -> None:
        runs = [new_run(key=f"k{number}" if number % 2 else None) for number in range(60)]
        answers = await asyncio.gather(*(stage.store.start_runs([run], now=T0) for run in runs))
        assert [answer[0].id for answer in answers] == [run.id for run in runs]
        assert len(await stage.claim(100)) == 60


@on_stage
class TestKeys:
    @pytest.mark.parametrize("on_conflict", ["return", "raise", "retry", "restart"])
    async def test_the_key_of_a_live_run_leads_to_it(
        self, stage: Stage, on_conflict: Literal["return", "raise", "retry", "restart"]
    ) -> None:
        first = await stage.start_one(key="k")
        second = new_run(key="k", on_conflict=on_conflict)
        [answer] = await stage.store.start_runs([second], now=T0)
        assert (answer.id, answer.status, answer.created) == (first, RunStatus.PENDING, False)
        assert await stage.store.get_run(second.id) is None

    @pytest.mark.parametrize("on_conflict", ["return", "raise", "retry"])
    async def test_the_key_of_an_ended_run_leads_to_it(
        self, stage: Stage, on_conflict: Literal["return", "raise", "retry"]
    ) -> None:
        first = await stage.held(key="k")
        await stage.end(first, RunStatus.FAILED)
        second = new_run(key="k", on_conflict=on_conflict)
        [answer] = await stage.store.start_runs([second], now=T0)
        assert (answer.id, answer.status, answer.created) == (first.id, RunStatus.FAILED, False)
        assert await stage.store.get_run(second.id) is None

    @pytest.mark.parametrize("on_conflict", ["restart", "replace"])
    async def test_an_ended_run_gives_up_its_key(
        self, stage: Stage, on_conflict: Literal["restart", "replace"]
    ) -> None:
        first = await stage.held(key="k")
        await stage.end(first)
        second = await stage.start_one(key="k", on_conflict=on_conflict)
        found = await stage.store.find_run(LANE.workflow, "k")
        assert found is not None
        assert (found.id, found.after_run_id) == (second, None)
        assert (await stage.run(first.id)).status is RunStatus.COMPLETED
        assert ids_of(await stage.claim()) == [second]

    async def test_replacing_a_live_run_cancels_it_and_waits_for_its_end(self, stage: Stage) -> None:
        old = await stage.held(key="k")
        new = await stage.start_one(key="k", on_conflict="replace")
        found = await stage.store.find_run(LANE.workflow, "k")
        assert found is not None
        assert (found.id, found.after_run_id, found.status) == (new, old.id, RunStatus.PENDING)
        assert await stage.claim() == []
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, message.kind) == (old.id, "cancel")
        await stage.end(old, RunStatus.CANCELLED, now=after(3))
        assert (await stage.run(new)).due_at == moment_of(after(3))
        assert ids_of(await stage.claim(now=after(3))) == [new]

    async def test_a_replacement_keeps_its_own_delay(self, stage: Stage) -> None:
        old = await stage.held(key="k")
        new = await stage.start_one(key="k", on_conflict="replace", delay=60 * SECOND)
        await stage.end(old, now=after(3))
        assert (await stage.run(new)).due_at == moment_of(after(60))

    async def test_a_replacement_is_due_at_its_deadline_while_it_waits_for_the_old_one(self, stage: Stage) -> None:
        await stage.held(key="k")
        new = await stage.start_one(key="k", on_conflict="replace", deadline=5 * SECOND)
        assert await stage.claim(now=after(4)) == []
        assert ids_of(await stage.claim(now=after(5))) == [new]

    async def test_a_replacement_with_a_longer_delay_than_deadline_is_due_at_the_deadline(self, stage: Stage) -> None:
        old = await stage.held(key="k")
        new = await stage.start_one(key="k", on_conflict="replace", delay=60 * SECOND, deadline=5 * SECOND)
        await stage.end(old, now=after(3))
        found = await stage.run(new)
        assert (found.due_at, found.after_run_id) == (moment_of(after(5)), None)

    async def test_the_cancel_of_a_replaced_run_names_its_replacement(self, stage: Stage) -> None:
        await stage.held(key="k")
        new = await stage.start_one(key="k", on_conflict="replace")
        [message] = await stage.store.read_inbox("one")
        assert message.payload.decode() == f"replaced by run {new}"

    async def test_replacing_a_run_never_begun_ends_it_at_once(self, stage: Stage) -> None:
        old = await stage.start_one(key="k", delay=SECOND)
        new = await stage.start_one(key="k", on_conflict="replace")
        assert (await stage.run(old)).status is RunStatus.CANCELLED
        [(_, _, data)] = await stage.journal(old)
        assert decode_entries(data) == [Stopped(T0, "cancelled", None, None, f"replaced by run {new}")]
        assert ids_of(await stage.claim()) == [new]

    async def test_a_replacement_of_a_replacement_waits_for_the_live_run(self, stage: Stage) -> None:
        first = await stage.held(key="k")
        second = await stage.start_one(key="k", on_conflict="replace")
        third = await stage.start_one(key="k", on_conflict="replace")
        assert (await stage.run(second)).status is RunStatus.CANCELLED
        assert (await stage.run(third)).after_run_id == first.id
        assert await stage.claim() == []
        await stage.end(first)
        assert ids_of(await stage.claim()) == [third]

    @pytest.mark.parametrize("how", ["replace", "restart", "takes_key_of"])
    async def test_a_run_that_takes_over_a_cancelled_replacement_s_key_waits_for_the_live_run(
        self, stage: Stage, how: Literal["replace", "restart", "takes_key_of"]
    ) -> None:
        first = await stage.held(key="k")
        second = await stage.start_one(key="k", on_conflict="replace")
        await stage.store.cancel_run(second, now=T0)
        if how == "takes_key_of":
            third = await stage.start_one(key="k", takes_key_of=second)
        else:
            third = await stage.start_one(key="k", on_conflict=how)
        assert (await stage.run(third)).after_run_id == first.id
        assert await stage.claim() == []
        await stage.end(first)
        assert ids_of(await stage.claim()) == [third]

    async def test_a_deleted_replacement_leaves_its_key_to_the_live_run(self, stage: Stage) -> None:
        first = await stage.held(key="k")
        second = await stage.start_one(key="k", on_conflict="replace")
        await stage.store.cancel_run(second, now=T0)
        assert await stage.store.delete_runs([second]) == [second]
        assert await stage.start_one(key="k") == first.id
        third = await stage.start_one(key="k", on_conflict="replace")
        assert (await stage.run(third)).after_run_id == first.id
        await stage.end(first)
        assert ids_of(await stage.claim()) == [third]

    async def test_a_replacement_does_not_wait_for_a_run_that_has_ended(self, stage: Stage) -> None:
        first = await stage.held(key="k")
        second = await stage.start_one(key="k", on_conflict="replace")
        await stage.end(first)
        await stage.store.cancel_run(second, now=T0)
        third = await stage.start_one(key="k", on_conflict="replace")
        assert (await stage.run(third)).after_run_id is None
        assert ids_of(await stage.claim()) == [third]

    @pytest.mark.parametrize("force", [False, True])
    async def test_a_replacement_begins_however_the_old_one_ends(self, stage: Stage, force: bool) -> None:
        old = await stage.held(key="k")
        new = await stage.start_one(key="k", on_conflict="replace")
        if force:
            await stage.store.cancel_run(old.id, force=True, now=T0)
        else:
            await stage.end(old, RunStatus.FAILED)
        assert ids_of(await stage.claim()) == [new]

    async def test_a_key_belongs_to_one_workflow(self, stage: Stage) -> None:
        one = await stage.start_one(key="k")
        [other] = await stage.store.start_runs([new_run(key="k", workflow="other")], now=T0)
        assert other.created
        assert other.id != one

    async def test_a_key_is_the_same_in_all_versions_and_queues(self, stage: Stage) -> None:
        one = await stage.start_one(key="k")
        [other] = await stage.store.start_runs([new_run(key="k", version="2", queue="slow")], now=T0)
        assert (other.id, other.created) == (one, False)

    async def test_a_key_given_twice_in_one_call_is_settled_in_order(self, stage: Stage) -> None:
        runs = [new_run(key="k"), new_run(key="k"), new_run(key="k", on_conflict="replace")]
        started = await stage.store.start_runs(runs, now=T0)
        assert [(run.id, run.created) for run in started] == [
            (runs[0].id, True), (runs[0].id, False), (runs[2].id, True)
        ]  # fmt: skip
        assert (await stage.run(runs[0].id)).status is RunStatus.CANCELLED

    @pytest.mark.parametrize("on_conflict", ["restart", "replace"])
    async def test_a_key_given_twice_in_one_call_belongs_to_the_first_if_nobody_held_it(
        self, stage: Stage, on_conflict: Literal["restart", "replace"]
    ) -> None:
        runs = [new_run(key="k", on_conflict=on_conflict), new_run(key="k")]
        started = await stage.store.start_runs(runs, now=T0)
        assert [(run.id, run.created) for run in started] == [(runs[0].id, True), (runs[0].id, False)]

    async def test_a_key_that_many_starts_ask_for_at_once_is_given_to_one(self, stage: Stage) -> None:
        runs = [new_run(key="k") for _ in range(20)]
        answers = await asyncio.gather(*(stage.store.start_runs([run], now=T0) for run in runs))
        assert len({answer[0].id for answer in answers}) == 1
        assert [answer[0].created for answer in answers].count(True) == 1

    async def test_a_key_is_taken_over_from_the_run_that_has_ended(self, stage: Stage) -> None:
        old = await stage.held(key="k")
        await stage.end(old, RunStatus.FAILED)
        [new] = await stage.store.start_runs([new_run(key="k", takes_key_of=old.id, forked_from=old.id)], now=T0)
        assert new.created
        found = await stage.store.find_run(LANE.workflow, "k")
        assert found is not None
        assert (found.id, found.forked_from) == (new.id, old.id)

    async def test_a_key_is_not_taken_over_from_a_live_run(self, stage: Stage) -> None:
        old = await stage.held(key="k")
        run = new_run(key="k", takes_key_of=old.id)
        [answer] = await stage.store.start_runs([run], now=T0)
        assert (answer.id, answer.status, answer.created) == (old.id, RunStatus.RUNNING, False)
        assert await stage.store.get_run(run.id) is None

    async def test_a_key_is_not_taken_over_from_a_run_that_has_lost_it(self, stage: Stage) -> None:
        old = await stage.held(key="k")
        await stage.end(old, RunStatus.FAILED)
        holder = await stage.held(key="k", on_conflict="restart")
        await stage.end(holder, RunStatus.FAILED)
        run = new_run(key="k", takes_key_of=old.id)
        [answer] = await stage.store.start_runs([run], now=T0)
        assert (answer.id, answer.status, answer.created) == (holder.id, RunStatus.FAILED, False)
        assert await stage.store.get_run(run.id) is None

    async def test_a_key_that_a_run_had_lost_is_its_own_again_when_nobody_holds_it(self, stage: Stage) -> None:
        old = await stage.held(key="k")
        await stage.end(old, RunStatus.FAILED)
        holder = await stage.held(key="k", on_conflict="restart")
        await stage.end(holder)
        await stage.store.delete_runs([holder.id])
        [new] = await stage.store.start_runs([new_run(key="k", takes_key_of=old.id)], now=T0)
        assert new.created
        found = await stage.store.find_run(LANE.workflow, "k")
        assert found is not None
        assert found.id == new.id

    async def test_a_key_is_not_taken_over_from_an_unknown_run(self, stage: Stage) -> None:
        run = new_run(key="k", takes_key_of="nobody")
        [answer] = await stage.store.start_runs([run], now=T0)
        assert not answer.created
        assert await stage.store.get_run(run.id) is None
        assert await stage.store.find_run(LANE.workflow, "k") is None
