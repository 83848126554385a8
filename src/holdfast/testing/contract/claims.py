"""Claims: which runs a worker gets, in which order, and with what."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.model import SECOND, Claimed, Lane, RowChange, RunStatus, Sent, decode_entries, moment_of

from .stage import LANE, T0, Stage, after, ids_of, new_run, on_stage, turn

OTHER = Lane("other", "1")


@on_stage
class TestClaimRuns:
    async def test_a_claim_makes_the_worker_the_owner(self, stage: Stage) -> None:
        run_id = await stage.start_one(input=b"[1]", seed=b"s", key="k", priority=3, tags={"a": "b"}, parent_id="p")
        run = await stage.claim_one(now=after(5))
        assert (run.id, run.workflow, run.version, run.epoch, run.next_seq) == (
            run_id,
            LANE.workflow,
            LANE.version,
            1,
            0,
        )
        assert (run.input, run.seed, run.key, run.priority, dict(run.tags)) == (b"[1]", b"s", "k", 3, {"a": "b"})
        assert (run.created_at, run.started_at, run.claimed_at) == (T0, after(5), after(5))
        assert (run.chain_id, run.parent_id, run.crashes, run.is_takeover) == (run_id, "p", 0, False)
        assert (run.rows, run.inbox, run.blocked, run.deadline_at) == ((), (), None, None)
        found = await stage.run(run_id)
        assert (found.owner, found.epoch, found.status) == ("one", 1, RunStatus.RUNNING)
        assert found.started_at == moment_of(after(5))

    async def test_a_run_begins_with_its_first_claim(self, stage: Stage) -> None:
        run = await stage.held(now=after(1))
        await stage.hand_back(run, due_at=T0)
        again = await stage.claim_one(now=after(2))
        assert (again.started_at, again.claimed_at) == (after(1), after(2))
        assert (await stage.run(run.id)).started_at == moment_of(after(1))

    async def test_a_claim_says_whether_it_is_the_first_also_where_time_stands_still(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.hand_back(run, due_at=T0)
        again = await stage.claim_one()
        await stage.hand_back(again, due_at=T0)
        by_name = await stage.claim_one(run_id=run.id)
        assert [one.is_first for one in (run, again, by_name)] == [True, False, False]

    async def test_a_run_that_is_handed_back_as_pending_is_as_if_it_had_not_been_claimed(self, stage: Stage) -> None:
        run_id = await stage.start_one()
        before = await stage.run(run_id)
        run = await stage.claim_one(now=after(1))
        assert run.is_first
        assert await stage.hand_back(run, status=RunStatus.PENDING, due_at=run.due_at) is True
        found = await stage.run(run_id)
        assert (found.status, found.started_at, found.due_at, found.owner) == (before.status, None, before.due_at, None)
        again = await stage.claim_one(now=after(5))
        assert (again.started_at, again.is_first, again.is_takeover) == (after(5), True, False)
        assert await stage.hand_back(again, status=RunStatus.PENDING, due_at=run.due_at) is True
        await stage.store.cancel_run(run_id, now=after(6))
        assert (await stage.run(run_id)).status is RunStatus.CANCELLED

    async def test_a_claim_of_unbegun_runs_leaves_out_begun_ones_and_takes_no_others_instead(
        self, stage: Stage
    ) -> None:
        begun = await stage.held()
        await stage.hand_back(begun, due_at=T0)
        fresh = await stage.start(3, now=after(1))
        assert ids_of(await stage.claim(3, unbegun=True, now=after(2))) == fresh[:2], (
            "none in the stead of the begun one"
        )
        assert ids_of(await stage.claim(3, now=after(2))) == [begun.id, fresh[2]]

    async def test_a_claim_says_since_when_the_run_was_due(self, stage: Stage) -> None:
        run_id = await stage.start_one(delay=2 * SECOND)
        run = await stage.claim_one(now=after(5))
        assert run.due_at == after(2)
        await stage.hand_back(run, due_at=None)
        await stage.store.send_signal(run_id, "go", b"1", now=after(7))
        assert (await stage.claim_one(now=after(9))).due_at == after(7)

    async def test_a_run_claimed_by_its_id_has_its_origin(self, stage: Stage) -> None:
        run_id = await stage.start_one(origin_id="the one before")
        assert (await stage.claim_one(run_id=run_id)).origin_id == "the one before"

    async def test_a_run_that_has_been_due_since_before_1970_is_claimed(self, stage: Stage) -> None:
        ids = [await stage.start_one(due_at=-SECOND), await stage.start_one(deadline_at=-2 * SECOND)]
        assert await stage.store.next_due([LANE], now=T0) == -2 * SECOND
        assert await stage.store.next_due([LANE]) == 0
        assert sorted(ids_of(await stage.store.claim_runs("one", [LANE], 2))) == sorted(ids)

    async def test_a_run_is_claimed_once(self, stage: Stage) -> None:
        await stage.start(30)
        claims = await asyncio.gather(*(stage.claim(10, worker=f"w{number}") for number in range(6)))
        claimed = [run.id for claim in claims for run in claim]
        assert len(claimed) == len(set(claimed)) == 30

    async def test_the_limit_holds(self, stage: Stage) -> None:
        await stage.start(5)
        assert [len(await stage.claim(2)) for _ in range(4)] == [2, 2, 1, 0]

    async def test_larger_priority_comes_first_and_then_the_oldest_due(self, stage: Stage) -> None:
        wanted = []
        for priority, delay in [(0, 3), (9, 2), (0, 1), (5, 0), (9, 1), (1, 0)]:
            run_id = await stage.start_one(priority=priority, due_at=after(delay))
            wanted.append((-priority, delay, run_id))
        order = [run_id for _, _, run_id in sorted(wanted)]
        assert ids_of(await stage.claim(5, now=after(10))) == order[:5]
        assert ids_of(await stage.claim(5, now=after(10))) == order[5:]

    async def test_a_larger_priority_is_chosen_although_others_have_been_due_for_longer(self, stage: Stage) -> None:
        await stage.start_one(due_at=after(1))
        urgent = await stage.start_one(priority=9, due_at=after(5))
        await stage.start_one(priority=5, due_at=after(3))
        assert ids_of(await stage.claim(1, now=after(10))) == [urgent]

    async def test_of_one_level_the_oldest_due_is_chosen_whichever_was_started_first(self, stage: Stage) -> None:
        await stage.start_one(due_at=after(3))
        oldest = await stage.start_one(due_at=after(1))
        assert ids_of(await stage.claim(1, now=after(10))) == [oldest]

    async def test_the_order_holds_across_lanes(self, stage: Stage) -> None:
        ids = []
        for number in range(6):
            lane = (LANE, OTHER)[number % 2]
            ids.append(await stage.start_one(workflow=lane.workflow, due_at=after(-number)))
        claimed = await stage.store.claim_runs("one", [LANE, OTHER], 10, now=T0)
        assert ids_of(claimed) == ids[::-1]

    async def test_an_old_waiting_run_comes_before_newer_starts(self, stage: Stage) -> None:
        waiting = await stage.held()
        await stage.hand_back(waiting, due_at=after(1))
        new = await stage.start(3, now=after(2))
        assert ids_of(await stage.claim(now=after(3))) == [waiting.id, *new]

    async def test_a_run_that_is_not_due_is_left_alone(self, stage: Stage) -> None:
        await stage.start_one(delay=SECOND)
        assert await stage.claim(now=after(0.999999)) == []
        assert len(await stage.claim(now=after(1))) == 1

    @pytest.mark.parametrize("field", ["workflow", "version", "queue"])
    async def test_a_run_of_an_unknown_lane_is_left_alone(self, stage: Stage, field: str) -> None:
        fields: dict[str, Any] = {field: "unknown"}
        run_id = await stage.start_one(**fields)
        assert await stage.claim() == []
        lane = {"workflow": LANE.workflow, "version": LANE.version, "queue": LANE.queue, **fields}
        assert ids_of(await stage.store.claim_runs("two", [Lane(**lane)], 10, now=T0)) == [run_id]

    async def test_without_lanes_nothing_is_claimed(self, stage: Stage) -> None:
        await stage.start(2)
        assert await stage.store.claim_runs("one", [], 10, now=T0) == []

    async def test_a_takeover_writes_a_fence_and_counts_as_a_crash(self, stage: Stage) -> None:
        stale = await stage.held()
        assert await stage.commit(turn(stale)) == [True]
        await stage.lose("one")
        run = await stage.claim_one(worker="two", now=after(1))
        assert (run.epoch, run.next_seq, run.is_takeover, run.crashes) == (2, 2, True, 1)
        assert run.started_at == stale.started_at
        fence = run.rows[-1]
        assert (fence.seq, fence.epoch, fence.at) == (1, 2, after(1))
        assert decode_entries(fence.data) == [Claimed(after(1), "two")]
        assert (await stage.run(run.id)).crashes == 1

    async def test_a_takeover_of_an_empty_journal_writes_its_fence_first(self, stage: Stage) -> None:
        stale = await stage.held()
        await stage.lose("one")
        run = await stage.claim_one(worker="two")
        assert [(row.seq, row.epoch) for row in run.rows] == [(0, 2)]
        assert run.next_seq == 1
        assert await stage.commit(turn(stale)) == [False]

    async def test_crashes_add_up_until_a_turn_says_otherwise(self, stage: Stage) -> None:
        run_id = await stage.start_one()
        for crashes in range(3):
            assert (await stage.claim_one()).crashes == crashes
            await stage.lose("one")
        run = await stage.claim_one(worker="two")
        assert run.crashes == 3
        assert await stage.commit(turn(run, change=RowChange(status=RunStatus.RUNNING))) == [True]
        assert (await stage.run(run_id)).crashes == 0

    async def test_the_whole_journal_comes_with_the_claim(self, stage: Stage) -> None:
        await stage.start(40)
        runs = await stage.claim()
        for number in range(5):
            data = str(number).encode()
            assert all(await stage.commit(*(turn(run, data, after=number) for run in runs)))
        for run in runs:
            await stage.hand_back(run, next_seq=5, due_at=T0)
        for run in await stage.claim(worker="two"):
            assert [row.data for row in run.rows] == [b"0", b"1", b"2", b"3", b"4"]
            assert [row.seq for row in run.rows] == list(range(5))
            assert run.next_seq == 5

    async def test_a_journal_that_the_worker_has_already_is_left_out(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.commit(turn(run)) == [True]
        await stage.hand_back(run, next_seq=1, due_at=T0)
        again = await stage.claim_one(cached={run.id: 1})
        assert (again.rows, again.next_seq) == ((), 1)

    async def test_a_journal_that_has_grown_comes_whole(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.commit(turn(run), turn(run, after=1)) == [True, True]
        await stage.hand_back(run, next_seq=2, due_at=T0)
        assert len((await stage.claim_one(cached={run.id: 1})).rows) == 2

    async def test_a_takeover_brings_the_journal_whatever_is_cached(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.commit(turn(run)) == [True]
        await stage.lose("one")
        assert len((await stage.claim_one(cached={run.id: 1, "nobody": 0})).rows) == 2
        await stage.lose("one")
        assert len((await stage.claim_one(cached={run.id: 3})).rows) == 3

    async def test_a_named_run_is_claimed_alone(self, stage: Stage) -> None:
        _, second, _ = await stage.start(3)
        assert ids_of(await stage.claim(run_id=second)) == [second]
        assert await stage.claim(run_id=second) == []
        assert await stage.claim(run_id="nobody") == []

    async def test_a_named_run_is_claimed_only_if_it_is_due_and_of_a_given_lane(self, stage: Stage) -> None:
        later = await stage.start_one(delay=SECOND)
        other = await stage.start_one(workflow="other")
        assert await stage.claim(run_id=later) == []
        assert await stage.claim(run_id=other) == []
        assert ids_of(await stage.claim(run_id=later, now=after(1))) == [later]

    async def test_a_named_run_is_claimed_whatever_its_lane_if_none_is_given(self, stage: Stage) -> None:
        run_id = await stage.start_one(workflow="other", queue="slow")
        assert ids_of(await stage.store.claim_runs("one", [], 1, run_id=run_id, now=T0)) == [run_id]

    async def test_a_message_wakes_a_parked_run_once(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.hand_back(run)
        assert await stage.claim(now=after(1000)) == []
        await stage.store.cancel_run(run.id, reason="why", now=after(1))
        woken = await stage.claim_one(now=after(2))
        [message] = woken.inbox
        assert (message.run_id, message.kind, message.sent_at) == (run.id, "cancel", after(1))
        assert message.payload == b"why"
        await stage.hand_back(woken)
        assert await stage.claim(now=after(3)) == []

    async def test_a_message_that_came_while_the_run_was_held_wakes_it_when_it_is_parked(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.cancel_run(run.id, now=T0)
        await stage.hand_back(run, due_at=after(1000))
        assert len((await stage.claim_one()).inbox) == 1

    async def test_a_message_does_not_begin_a_delayed_run(self, stage: Stage) -> None:
        run_id = await stage.start_one(delay=60 * SECOND)
        assert await stage.store.send_signal(run_id, "go", b"early", now=T0) is Sent.SENT
        assert await stage.claim(now=after(59)) == []
        assert await stage.claim(now=after(59), run_id=run_id) == []
        assert await stage.store.next_due([LANE], now=after(59)) == after(60)
        begun = await stage.claim_one(now=after(60))
        assert [message.payload for message in begun.inbox] == [b"early"]

    async def test_a_message_does_not_begin_a_run_that_waits_for_the_one_it_replaces(self, stage: Stage) -> None:
        old = await stage.held(key="k")
        new = await stage.start_one(key="k", on_conflict="replace")
        assert await stage.store.send_signal(new, "go", b"early", now=T0) is Sent.SENT
        assert await stage.claim(worker="two") == []
        assert await stage.claim(worker="two", run_id=new) == []
        assert await stage.store.next_due([LANE], now=T0) is None
        await stage.end(old)
        begun = await stage.claim_one(worker="two")
        assert (begun.id, [message.payload for message in begun.inbox]) == (new, [b"early"])

    async def test_a_message_of_an_unknown_lane_wakes_nobody(self, stage: Stage) -> None:
        run_id = await stage.start_one(workflow="other")
        [run] = await stage.store.claim_runs("one", [OTHER], 1, now=T0)
        await stage.hand_back(run)
        await stage.store.cancel_run(run_id, now=T0)
        assert await stage.claim() == []
        assert ids_of(await stage.store.claim_runs("one", [OTHER], 1, now=T0)) == [run_id]

    async def test_a_message_comes_again_after_a_crash(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.hand_back(run)
        await stage.store.cancel_run(run.id, now=T0)
        assert len((await stage.claim_one()).inbox) == 1
        await stage.lose("one")
        assert len((await stage.claim_one(worker="two")).inbox) == 1

    async def test_an_ended_run_is_never_claimed(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.cancel_run(run.id, now=T0)
        await stage.end(run)
        assert await stage.claim(now=after(100)) == []
        assert await stage.claim(now=after(100), run_id=run.id) == []


@on_stage
class TestReadInbox:
    async def test_what_the_worker_knows_already_does_not_come_again(self, stage: Stage) -> None:
        run = await stage.held()
        for name in ("a", "b", "c"):
            await stage.store.send_signal(run.id, name, b"1", now=T0)
        a, b, c = await stage.store.read_inbox("one")
        assert await stage.store.read_inbox("one", known=[a.id, c.id]) == [b]
        assert await stage.store.read_inbox("one", known=[a.id, b.id, c.id, c.id + 9]) == []

    async def test_messages_of_held_runs_come_oldest_first(self, stage: Stage) -> None:
        await stage.start(3)
        runs = await stage.claim()
        for run in reversed(runs):
            await stage.store.cancel_run(run.id, reason=run.id, now=T0)
        messages = await stage.store.read_inbox("one")
        assert [message.run_id for message in messages] == ids_of(runs)[::-1]
        assert [message.payload.decode() for message in messages] == ids_of(runs)[::-1]

    async def test_a_worker_reads_the_messages_of_its_own_runs_only(self, stage: Stage) -> None:
        mine = await stage.held(worker="one")
        parked = await stage.held(worker="two")
        await stage.hand_back(parked, worker="two")
        for run in (mine, parked):
            await stage.store.cancel_run(run.id, now=T0)
        assert await stage.store.read_inbox("two") == []
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [mine.id]

    async def test_a_message_is_there_until_a_turn_takes_it(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.cancel_run(run.id, now=T0)
        [message] = await stage.store.read_inbox("one")
        assert await stage.store.read_inbox("one") == [message]
        assert await stage.commit(turn(run, taken=(message.id,))) == [True]
        assert await stage.store.read_inbox("one") == []

    async def test_an_end_empties_the_inbox(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.cancel_run(run.id, now=T0)
        await stage.end(run)
        assert await stage.store.read_inbox("one") == []


@on_stage
class TestNextDue:
    async def test_without_a_run_to_claim_nothing_is_due(self, stage: Stage) -> None:
        assert await stage.store.next_due([LANE], now=T0) is None
        run = await stage.held()
        assert await stage.store.next_due([LANE], now=T0) is None
        await stage.hand_back(run)
        assert await stage.store.next_due([LANE], now=T0) is None

    async def test_the_earliest_run_counts_whatever_its_priority(self, stage: Stage) -> None:
        for priority, delay in [(9, 7), (0, 5), (3, 6)]:
            await stage.start_one(priority=priority, due_at=after(delay))
        assert await stage.store.next_due([LANE], now=T0) == after(5)

    async def test_only_runs_of_the_given_lanes_count(self, stage: Stage) -> None:
        await stage.start_one(workflow="other", due_at=after(1))
        await stage.start_one(due_at=after(2))
        assert await stage.store.next_due([LANE], now=T0) == after(2)
        assert await stage.store.next_due([LANE, OTHER, Lane("nobody", "1")], now=T0) == after(1)
        assert await stage.store.next_due([], now=T0) is None

    async def test_an_ended_run_is_due_no_more(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.end(run)
        assert await stage.store.next_due([LANE], now=T0) is None

    async def test_a_fresh_message_is_due_at_once(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.hand_back(run, due_at=after(100))
        await stage.store.cancel_run(run.id, now=after(3))
        due_at = await stage.store.next_due([LANE], now=after(2))
        assert due_at is not None
        assert due_at <= after(2)

    async def test_a_message_for_a_held_run_makes_nothing_due(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.cancel_run(run.id, now=T0)
        assert await stage.store.next_due([LANE], now=T0) is None

    async def test_what_is_due_is_what_a_claim_finds(self, stage: Stage) -> None:
        await stage.store.start_runs([new_run(due_at=after(number % 7)) for number in range(20)], now=T0)
        found = 0
        while (due_at := await stage.store.next_due([LANE], now=T0)) is not None:
            assert await stage.claim(now=due_at - 1) == []
            found += len(await stage.claim(now=due_at))
        assert found == 20
