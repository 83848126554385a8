"""Facts: what workers and clients tell those who observe them."""

from __future__ import annotations

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry

import holdfast
from holdfast import AsyncClient, DefinitionError, Retry, RunFailed, RunStatus, Worker, step, workflow
from holdfast.observe import (
    MessageSent,
    MessageTaken,
    Observer,
    Prometheus,
    RunBlocked,
    RunEnded,
    RunReplayed,
    RunRetrying,
    RunsClaimed,
    RunsStarted,
    RunsSwept,
    StepEnded,
    TurnsCommitted,
    WorkerBegan,
    WorkerEnded,
    WorkerLost,
)
from holdfast.worker.session import Session
from holdfast.worker.watched import new_session
from tests.observe.observed import PATIENCE, both, double, fails, waits
from tests.observe.watchers import Notebook
from tests.worker.stage import stage, until


async def test_a_run_is_told_from_its_claim_to_its_end(database_url):
    seen = Notebook()
    async with stage(database_url, both, observers=[seen]) as on:
        run = await on.client.start(both, 4)
        assert await run.result(timeout=PATIENCE) == 4
    [claim] = seen.of(RunsClaimed)
    assert [(one.id, one.epoch) for one in claim.runs] == [(run.id, 1)]
    assert [(fact.run.id, fact.status) for fact in seen.of(RunEnded)] == [(run.id, RunStatus.COMPLETED)]


async def test_each_attempt_of_a_step_is_told_with_how_it_ended_and_why(database_url):
    seen = Notebook()
    async with stage(database_url, fails, observers=[seen]) as on:
        with pytest.raises(RunFailed):
            await (await on.client.start(fails)).result(timeout=PATIENCE)
    told = [(fact.step.key, fact.step.attempt, fact.status, str(fact.error)) for fact in seen.of(StepEnded)]
    assert told == [
        ("broken", 1, "retrying", "nothing there"),
        ("broken", 2, "failed", "nothing there"),
    ]


async def test_a_step_says_how_it_executes_and_how_long_it_took(database_url):
    seen = Notebook()
    async with stage(database_url, both, observers=[seen]) as on:
        await (await on.client.start(both, 4)).result(timeout=PATIENCE)
    assert [fact.step.kind for fact in seen.of(StepEnded)] == ["async", "thread"]
    assert all(fact.at >= fact.began_at > 0 for fact in seen.of(StepEnded))


async def test_a_step_that_nobody_wants_any_more_ends_as_cancelled(database_url):
    begun = asyncio.Event()

    @step
    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    async def body() -> None:
        await forever()

    seen = Notebook()
    async with stage(database_url, body, observers=[seen]) as on:
        run = await on.client.start(body)
        await begun.wait()
        await run.cancel()
        await until(lambda: bool(seen.of(RunEnded)))
    assert [fact.status for fact in seen.of(StepEnded)] == ["cancelled"]
    assert [fact.status for fact in seen.of(RunEnded)] == [RunStatus.CANCELLED]


async def test_commits_are_told_with_their_size(database_url):
    seen = Notebook()
    async with stage(database_url, both, observers=[seen]) as on:
        await (await on.client.start(both, 4)).result(timeout=PATIENCE)
    assert sum(fact.count for fact in seen.of(TurnsCommitted)) == 2


async def test_a_signal_is_told_where_it_is_sent_and_where_it_is_taken(database_url):
    seen = Notebook()
    async with stage(database_url, waits, observers=[seen]) as on, AsyncClient(on.store, observers=[seen]) as client:
        run = await client.start(waits)
        await client.signal(run.id, "go", "now")
        assert await run.result(timeout=PATIENCE) == "now"
    assert [(fact.kind, fact.name, fact.run_id) for fact in seen.of(MessageSent)] == [("signal", "go", run.id)]
    assert [(fact.kind, fact.name, fact.run.id) for fact in seen.of(MessageTaken)] == [("signal", "go", run.id)]


async def test_starts_are_told_and_a_second_one_with_the_same_key_is_none(database_url):
    seen = Notebook()
    async with AsyncClient(database_url, observers=[seen]) as client:
        await client.start(both, 1, key="k")
        await client.start(both, 1, key="k")
        await client.start_many(both, [(1,), (2,)])
    assert [(fact.workflow, fact.count) for fact in seen.of(RunsStarted)] == [("both", 1)] * 3


async def test_a_replay_is_told_with_its_length_and_a_first_turn_is_none(database_url):
    seen = Notebook()

    @workflow
    async def body() -> str:
        await double(1)
        await double(2)
        return str(await holdfast.wait_for_signal("go"))

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
    async with stage(database_url, body, observers=[seen]) as on:
        await on.client.signal(run.id, "go", "on")
        await until(lambda: bool(seen.of(RunEnded)))
    # The start and two results.
    assert [(fact.run.id, fact.length) for fact in seen.of(RunReplayed)] == [(run.id, 3)]


async def test_a_workflow_s_own_retry_is_told(database_url):
    tries = []

    @workflow(retry=Retry(attempts=2, initial=0))
    async def body() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise LookupError
        return 1

    seen = Notebook()
    async with stage(database_url, body, observers=[seen]) as on:
        assert await (await on.client.start(body)).result(timeout=PATIENCE) == 1
    assert len(seen.of(RunRetrying)) == 1
    assert len(seen.of(RunEnded)) == 1


async def test_a_run_that_is_blocked_is_told_with_the_reason(database_url):
    @workflow
    async def forgetful() -> None:
        holdfast.sleep(1)  # type: ignore[unused-coroutine]  # that is the mistake

    seen = Notebook()
    async with stage(database_url, forgetful, observers=[seen]) as on:
        await on.until_blocked(await on.client.start(forgetful))
    assert [fact.reason for fact in seen.of(RunBlocked)] == ["NeverAwaited"]


async def test_a_worker_says_what_it_has_in_its_hands(database_url):
    begun, go_on = asyncio.Event(), asyncio.Event()

    @step
    async def gate() -> None:
        begun.set()
        await go_on.wait()

    @workflow(name="gated")
    async def body() -> None:
        await gate()

    seen = Notebook()
    async with stage(database_url, body, observers=[seen]) as on:
        run = await on.client.start(body)
        await begun.wait()
        load = seen.of(WorkerBegan)[0].load()
        go_on.set()
        await run.result(timeout=PATIENCE)
    assert (load.held, load.busy, load.steps) == ({"gated": 1}, 1, 1)
    assert [fact.worker_id for fact in seen.of(WorkerEnded)] == [fact.worker_id for fact in seen.of(WorkerBegan)]


async def test_a_lost_lease_is_told_and_the_worker_begins_anew(database_url):
    seen = Notebook()
    async with stage(database_url, both, observers=[seen], lease="3s") as on:
        await on.store.reap_workers("somebody", now=on.clock.now() + 3_600_000_000)
        on.skip("1h")
        await on.client.start(both, 1)
        await until(lambda: len(seen.of(WorkerBegan)) == 2)
    assert len(seen.of(WorkerLost)) == 1
    assert len(seen.of(WorkerEnded)) == 2


async def test_what_is_swept_is_told(database_url):
    seen = Notebook()
    async with stage(database_url) as on:
        await on.client.start(both, 1, retention="1s")
        worker = on.worker(both, observers=[seen])
        await worker.drive()
        on.skip("1h")
        await worker.drive()
    assert sum(fact.runs for fact in seen.of(RunsSwept)) == 1


async def test_an_observer_that_raises_is_logged_once_and_harms_nobody(database_url, caplog):
    class Broken(Observer):
        def observe(self, fact):
            raise RuntimeError("out of paper")

        def enter(self, step):
            raise RuntimeError("out of ink")

    seen = Notebook()
    with caplog.at_level(logging.ERROR, "holdfast.observe"):
        async with stage(database_url, both, observers=[Broken(), seen]) as on:
            assert await (await on.client.start(both, 4)).result(timeout=PATIENCE) == 4
    assert len(seen.of(StepEnded)) == 2
    assert len([record for record in caplog.records if record.name == "holdfast.observe"]) == 2


async def test_an_observer_of_one_s_own_hears_of_each_end_when_it_has_come_whoever_is_beside_it(database_url):
    told = []

    class Mine(Observer):
        def observe(self, fact):
            if isinstance(fact, (StepEnded, RunEnded)):
                told.append(fact.step.key if isinstance(fact, StepEnded) else "end")

        def enter(self, step):
            told.append(f"enter {step.key}")

    metrics = Prometheus(registry=CollectorRegistry())
    async with stage(database_url, both, observers=[metrics, Mine()]) as on:
        await (await on.client.start(both, 4)).result(timeout=PATIENCE)
    assert told == ["enter double", "double", "enter half", "half", "end"]


async def test_a_class_derived_from_prometheus_sees_each_fact_and_counts_it_once(database_url):
    told = []

    class Mine(Prometheus):
        def observe(self, fact):
            told.append(type(fact))
            super().observe(fact)

    metrics = Mine(registry=CollectorRegistry())
    async with stage(database_url, both, observers=[metrics]) as on:
        await (await on.client.start(both, 4)).result(timeout=PATIENCE)
    assert (told.count(StepEnded), told.count(RunEnded)) == (2, 1)
    labels = {"workflow": "both", "status": "completed"}
    assert metrics.registry.get_sample_value("holdfast_step_duration_seconds_count", {**labels, "step": "half"}) == 1
    assert metrics.registry.get_sample_value("holdfast_runs_completed_total", labels) == 1


async def test_a_session_that_nobody_observes_is_a_plain_one(database_url):
    async with stage(database_url) as on:
        assert type(new_session(on.worker(both)._plan, {}, lambda: None)) is Session


async def test_a_worker_takes_its_client_s_observers_over(database_url):
    seen = Notebook()
    async with AsyncClient(database_url, observers=[seen]) as client, Worker(client, workflows=[both]):
        await (await client.start(both, 4)).result(timeout=PATIENCE)
    assert len(seen.of(StepEnded)) == 2


@pytest.mark.parametrize("given", [Notebook(), ["metrics"], 7], ids=["one alone", "a word", "a number"])
def test_what_is_no_list_of_observers_is_refused(given):
    with pytest.raises(DefinitionError, match="observers="):
        Worker("sqlite:///:memory:", workflows=[both], observers=given)
