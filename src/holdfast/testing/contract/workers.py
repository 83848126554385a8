"""Workers: leases, dead workers, and registrations."""

from __future__ import annotations

import asyncio
import threading

from holdfast.model import (
    SECOND,
    Declared,
    Instant,
    Lane,
    Parameter,
    Registration,
    RowChange,
    RunStatus,
    moment_of,
)

from .stage import LANE, LEASE, T0, Stage, after, ids_of, on_stage, turn


@on_stage
class TestRegisterWorker:
    async def test_a_registered_worker_is_listed(self, stage: Stage) -> None:
        lanes = [LANE, Lane("other", "2", "slow")]
        at = await stage.store.register_worker("one", lanes, LEASE)
        [worker] = await stage.store.list_workers()
        assert (worker.id, worker.lanes) == ("one", tuple(lanes))
        assert (worker.started_at, worker.renewed_at) == (moment_of(at), moment_of(at))
        assert worker.lease_until == moment_of(at + LEASE)
        assert worker.host
        assert worker.pid > 0

    async def test_the_store_s_time_is_returned(self, stage: Stage) -> None:
        assert await stage.store.register_worker("one", [LANE], LEASE, now=T0) == T0

    async def test_a_worker_registered_twice_is_listed_once(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], LEASE)
        await stage.store.register_worker("one", [LANE, LANE], 2 * LEASE)
        assert len(await stage.store.list_workers()) == 1

    async def test_blocked_runs_of_its_lanes_are_tried_at_once(self, stage: Stage) -> None:
        await stage.start(3)
        await stage.start_one(workflow="other")
        runs = await stage.store.claim_runs("one", [LANE, Lane("other", "1")], 10, now=T0)
        for run in runs[1:]:
            await stage.hand_back(run, blocked="why", due_at=after(500))
        await stage.hand_back(runs[0], due_at=after(500))
        await stage.store.register_worker("two", [LANE], LEASE, now=after(1))
        woken = await stage.claim(worker="two", now=after(1))
        assert sorted(ids_of(woken)) == sorted(run.id for run in runs[1:] if run.workflow == LANE.workflow)

    async def test_a_blocked_run_that_is_held_is_left_alone(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.hand_back(run, blocked="why", release=False)
        before = await stage.run(run.id)
        await stage.store.register_worker("two", [LANE], LEASE, now=after(1))
        assert await stage.run(run.id) == before
        assert await stage.claim(worker="two", now=after(1)) == []


@on_stage
class TestReleaseStrays:
    async def test_runs_that_a_worker_owns_and_does_not_hold_are_released_without_a_crash(self, stage: Stage) -> None:
        await stage.start(3)
        held, *strays = await stage.claim(3)
        assert sorted(await stage.store.release_strays("one", [held.id], now=after(1))) == sorted(ids_of(strays))
        again = await stage.claim(3, worker="two", now=after(1))
        assert sorted(ids_of(again)) == sorted(ids_of(strays))
        assert {(run.is_takeover, run.crashes, run.next_seq) for run in again} == {(False, 0, 0)}
        assert (await stage.run(held.id)).owner == "one"

    async def test_a_released_run_goes_on_behind_its_journal(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.commit_turns([turn(run), turn(run, after=1)])
        await stage.store.release_strays("one", [], now=after(1))
        assert (await stage.claim_one(worker="two", now=after(1))).next_seq == 2

    async def test_runs_of_others_are_left_alone(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.store.release_strays("two", []) == []
        assert (await stage.run(run.id)).owner == "one"


@on_stage
class TestRenewLease:
    async def test_a_lease_is_extended(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], SECOND, now=T0)
        assert await asyncio.to_thread(stage.store.renew_lease, "one", LEASE, now=after(1)) == after(1)
        assert await stage.store.reap_workers("two", now=after(30)) == []
        assert await stage.store.reap_workers("two", now=after(32)) == ["one"]

    async def test_without_a_time_given_the_store_s_clock_counts(self, stage: Stage) -> None:
        at = await stage.store.register_worker("one", [LANE], SECOND)
        renewed_at = await asyncio.to_thread(stage.store.renew_lease, "one", LEASE)
        assert renewed_at is not None
        assert at <= renewed_at < at + 60 * SECOND
        [worker] = await stage.store.list_workers()
        assert worker.lease_until == moment_of(renewed_at + LEASE)

    async def test_a_lapsed_lease_may_be_renewed_until_it_is_reaped(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], SECOND, now=T0)
        assert await asyncio.to_thread(stage.store.renew_lease, "one", LEASE, now=after(100)) == after(100)
        assert await stage.store.reap_workers("two", now=after(101)) == []

    async def test_the_lease_of_a_reaped_worker_is_not_renewed(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], SECOND, now=T0)
        await stage.store.reap_workers("two", now=after(2))
        assert await asyncio.to_thread(stage.store.renew_lease, "one", LEASE, now=after(3)) is None
        assert await asyncio.to_thread(stage.store.renew_lease, "nobody", LEASE, now=after(3)) is None

    async def test_renewal_goes_on_while_the_loop_is_blocked(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], SECOND, now=T0)
        renewed: list[Instant | None] = []
        thread = threading.Thread(target=lambda: renewed.append(stage.store.renew_lease("one", LEASE, now=after(1))))
        thread.start()
        # This blocks the loop's thread, so the renewal can't depend on the loop.
        thread.join(10)
        assert renewed == [after(1)]


@on_stage
class TestReapWorkers:
    async def test_a_lapsed_lease_ends_and_its_runs_are_due_at_once(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], 10 * SECOND, now=T0)
        run = await stage.held()
        await stage.hand_back(run, release=False, status=RunStatus.WAITING, due_at=after(500))
        assert await stage.store.reap_workers("two", now=after(10)) == []
        assert await stage.store.reap_workers("two", now=after(11)) == ["one"]
        found = await stage.run(run.id)
        assert (found.owner, found.due_at) == (None, moment_of(after(11)))
        again = await stage.claim_one(worker="two", now=after(11))
        assert (again.is_takeover, again.crashes) == (True, 1)

    async def test_the_dead_are_reaped_once(self, stage: Stage) -> None:
        for number in range(5):
            await stage.store.register_worker(f"w{number}", [LANE], SECOND, now=T0)
        reaps = await asyncio.gather(*(stage.store.reap_workers(f"r{number}", now=after(9)) for number in range(3)))
        assert sorted(name for reap in reaps for name in reap) == [f"w{number}" for number in range(5)]

    async def test_a_worker_does_not_reap_itself(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], SECOND, now=T0)
        run = await stage.held()
        assert await stage.store.reap_workers("one", now=after(100)) == []
        assert (await stage.run(run.id)).owner == "one"

    async def test_the_living_keep_their_runs(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], LEASE, now=T0)
        await stage.store.register_worker("two", [LANE], SECOND, now=T0)
        kept = await stage.held(worker="one")
        lost = await stage.held(worker="two")
        assert await stage.store.reap_workers("three", now=after(5)) == ["two"]
        assert (await stage.run(kept.id)).owner == "one"
        assert (await stage.run(lost.id)).owner is None

    async def test_what_a_worker_claimed_after_it_was_reaped_is_not_lost(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], SECOND, now=T0)
        await stage.store.reap_workers("two", now=after(2))
        run = await stage.held(worker="one", now=after(2))
        assert await stage.store.reap_workers("two", now=after(2)) == ["one"]
        assert (await stage.claim_one(worker="two", now=after(2))).id == run.id

    async def test_a_reaped_worker_s_run_stays_due_whatever_its_turn_says(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.lose("one", now=after(1))
        change = RowChange(status=RunStatus.WAITING, due_at=None)
        assert await stage.commit(turn(run, change=change), now=after(1)) == [True]
        again = await stage.claim_one(worker="two", now=after(1))
        assert (again.is_takeover, again.next_seq) == (True, 2)

    async def test_a_reaped_worker_s_turn_counts_until_somebody_takes_over(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.lose("one")
        await stage.end(run)
        assert (await stage.run(run.id)).status is RunStatus.COMPLETED
        assert await stage.claim(worker="two") == []


@on_stage
class TestRemoveWorker:
    async def test_a_removed_worker_is_not_listed_and_its_runs_are_due(self, stage: Stage) -> None:
        at = await stage.store.register_worker("one", [LANE], LEASE)
        run = await stage.held(now=at)
        await stage.store.remove_worker("one")
        assert await stage.store.list_workers() == []
        assert await asyncio.to_thread(stage.store.renew_lease, "one", LEASE) is None
        [again] = await stage.store.claim_runs("two", [LANE], 1)
        assert (again.id, again.is_takeover) == (run.id, True)

    async def test_a_run_handed_back_before_its_worker_is_removed_is_no_takeover(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], LEASE, now=T0)
        run = await stage.held()
        await stage.hand_back(run, due_at=T0)
        await stage.store.remove_worker("one")
        assert not (await stage.claim_one(worker="two")).is_takeover

    async def test_removing_nobody_changes_nothing(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], LEASE)
        await stage.store.remove_worker("nobody")
        assert [worker.id for worker in await stage.store.list_workers()] == ["one"]


@on_stage
class TestListWorkers:
    async def test_a_worker_whose_lease_has_lapsed_is_left_out(self, stage: Stage) -> None:
        at = await stage.store.register_worker("one", [LANE], LEASE)
        await stage.store.register_worker("two", [LANE], SECOND, now=at - 10 * SECOND)
        assert [worker.id for worker in await stage.store.list_workers()] == ["one"]


@on_stage
class TestListVersions:
    async def test_versions_are_listed_in_the_order_of_their_first_registration(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [Lane("ship", "b")], LEASE, now=T0)
        await stage.store.register_worker("two", [Lane("ship", "a")], LEASE, now=after(1))
        await stage.store.register_worker("three", [Lane("ship", "b")], LEASE, now=after(2))
        found = await stage.store.list_versions("ship", now=after(2))
        assert [(one.version, one.first_at) for one in found] == [("b", T0), ("a", after(1))]

    async def test_versions_registered_together_are_ordered_by_their_numbers(self, stage: Stage) -> None:
        lanes = [Lane("ship", version) for version in ("9", "10", "1.2", "1.10", "alpha")]
        await stage.store.register_worker("one", lanes, LEASE, now=T0)
        found = await stage.store.list_versions("ship", now=T0)
        assert [one.version for one in found] == ["alpha", "1.2", "1.10", "9", "10"]

    async def test_a_workflow_that_no_worker_registered_has_no_versions(self, stage: Stage) -> None:
        await stage.start_one()
        assert await stage.store.list_versions("ship", now=T0) == []

    async def test_all_workflows_are_listed_if_none_is_named(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [Lane("ship", "1"), Lane("pack", "1")], LEASE, now=T0)
        found = await stage.store.list_versions(now=T0)
        assert sorted(one.workflow for one in found) == ["pack", "ship"]

    async def test_a_version_s_queues_are_those_in_which_live_workers_serve_it(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [Lane("ship", "1", "a"), Lane("ship", "2", "c")], LEASE, now=T0)
        await stage.store.register_worker("two", [Lane("ship", "1", "b"), Lane("ship", "1", "a")], LEASE, now=T0)
        found = {one.version: one.queues for one in await stage.store.list_versions("ship", now=T0)}
        assert found == {"1": ("a", "b"), "2": ("c",)}

    async def test_a_version_of_a_removed_worker_is_listed_without_queues(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], LEASE, now=T0)
        await stage.store.remove_worker("one")
        [found] = await stage.store.list_versions(LANE.workflow, now=T0)
        assert (found.version, found.queues, found.is_live) == (LANE.version, (), False)

    async def test_a_version_of_a_worker_whose_lease_has_lapsed_is_not_live(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], SECOND, now=T0)
        assert [one.is_live for one in await stage.store.list_versions(LANE.workflow, now=after(1))] == [True]
        assert [one.is_live for one in await stage.store.list_versions(LANE.workflow, now=after(2))] == [False]

    async def test_a_declaration_is_read_back_as_it_was_given(self, stage: Stage) -> None:
        declared = Declared(
            queue="ü", deadline=5, retention=None, parameters=(Parameter("order", 1, True), Parameter("n", 3, False))
        )
        registration = Registration(LANE.workflow, LANE.version, declared)
        await stage.store.register_worker("one", [LANE], LEASE, workflows=[registration], now=T0)
        [found] = await stage.store.list_versions(LANE.workflow, now=T0)
        assert found.declared == declared

    async def test_the_last_declaration_counts_and_a_registration_without_one_leaves_it(self, stage: Stage) -> None:
        for queue in ("old", "new"):
            registration = Registration(LANE.workflow, LANE.version, Declared(queue=queue))
            await stage.store.register_worker("one", [LANE], LEASE, workflows=[registration], now=T0)
        await stage.store.register_worker("two", [LANE], LEASE, now=after(1))
        [found] = await stage.store.list_versions(LANE.workflow, now=after(1))
        assert found.declared == Declared(queue="new")

    async def test_a_version_without_a_declaration_has_none(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [LANE], LEASE, now=T0)
        [found] = await stage.store.list_versions(LANE.workflow, now=T0)
        assert found.declared is None


@on_stage
class TestListWorkflows:
    async def test_the_registered_and_the_started_are_listed_with_counts(self, stage: Stage) -> None:
        await stage.store.register_worker("one", [Lane("ship", "1"), Lane("idle", "1")], LEASE, now=T0)
        await stage.store.register_worker("two", [Lane("ship", "2")], LEASE, now=after(1))
        await stage.start(3)
        await stage.start_one(workflow="ghost", version="7")
        await stage.end((await stage.claim(1))[0])
        found = {one.name: (one.versions, one.counts) for one in await stage.store.list_workflows()}
        assert found == {
            "ship": (("1", "2"), {"pending": 2, "completed": 1}),
            "idle": (("1",), {}),
            "ghost": (("7",), {"pending": 1}),
        }
