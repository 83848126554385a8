"""Prometheus: what is counted, under which labels, and how it is shown."""

from __future__ import annotations

import asyncio
import urllib.request

import pytest
from prometheus_client import CollectorRegistry

import holdfast
from holdfast import AsyncClient, Client, DefinitionError, Retry, RunFailed, step, workflow
from holdfast.observe import Prometheus
from holdfast.observe.series import Spread
from tests.worker.stage import stage, until

PATIENCE = "60s"


@step
async def double(number: int) -> int:
    return number * 2


@step(retry=Retry(attempts=3, initial=0))
async def broken() -> None:
    raise LookupError("nothing there")


@workflow
async def doubled(number: int) -> int:
    return await double(number)


@workflow
async def fails() -> None:
    await broken()


@workflow
async def waits() -> None:
    await holdfast.wait_for_signal("go")


@pytest.fixture
def metrics() -> Prometheus:
    return Prometheus(registry=CollectorRegistry())


def value(metrics: Prometheus, name: str, **labels: str) -> float | None:
    found: float | None = metrics.registry.get_sample_value(name, labels)
    return found


async def test_runs_are_counted_by_how_they_ended(database_url, metrics):
    async with stage(database_url, doubled, fails, observers=[metrics]) as on:
        for _ in range(2):
            await (await on.client.start(doubled, 1)).result(timeout=PATIENCE)
        with pytest.raises(RunFailed):
            await (await on.client.start(fails)).result(timeout=PATIENCE)
    assert value(metrics, "holdfast_runs_started_total", workflow="doubled") == 2
    assert value(metrics, "holdfast_runs_completed_total", workflow="doubled", status="completed") == 2
    assert value(metrics, "holdfast_runs_completed_total", workflow="fails", status="failed") == 1
    assert value(metrics, "holdfast_run_duration_seconds_count", workflow="fails", status="failed") == 1


async def test_a_run_that_waits_for_an_hour_has_lasted_an_hour(database_url, metrics):
    async with stage(database_url, waits, observers=[metrics]) as on:
        run = await on.client.start(waits)
        await on.until_waiting(run)
        on.skip("1h")
        await on.client.signal(run.id, "go")
        await run.result(timeout=PATIENCE)
    labels = {"workflow": "waits", "status": "completed"}
    assert value(metrics, "holdfast_run_duration_seconds_bucket", **labels, le="1800.0") == 0
    assert value(metrics, "holdfast_run_duration_seconds_bucket", **labels, le="7200.0") == 1
    assert 3600 <= (value(metrics, "holdfast_run_duration_seconds_sum", **labels) or 0) < 3700


async def test_a_run_claimed_again_is_started_once(database_url, metrics):
    async with stage(database_url, waits, observers=[metrics]) as on:
        run = await on.client.start(waits)
        await on.until_waiting(run)
        await on.client.signal(run.id, "go")
        await run.result(timeout=PATIENCE)
    assert value(metrics, "holdfast_runs_started_total", workflow="waits") == 1
    assert (value(metrics, "holdfast_queue_lag_seconds_count", queue="default") or 0) == 2
    assert value(metrics, "holdfast_messages_taken_total", workflow="waits", kind="signal") == 1


async def test_lag_is_counted_from_when_a_run_was_due(database_url, metrics):
    async with stage(database_url) as on:
        run = await on.client.start(doubled, 1, delay="1h")
        on.skip("3h")
        async with on.worker(doubled, observers=[metrics]):
            await run.result(timeout=PATIENCE)
    assert 7200 <= (value(metrics, "holdfast_queue_lag_seconds_sum", queue="default") or 0) < 7300


def test_a_duration_that_two_clocks_make_negative_counts_as_none():
    spread = Spread("lag", "Lag.", (), (1.0,), 1)
    spread.add_all((), [-5, 3])
    assert spread.of(()) == [1, 1, 3]


async def test_steps_are_counted_by_how_each_attempt_ended(database_url, metrics):
    async with stage(database_url, fails, observers=[metrics]) as on:
        with pytest.raises(RunFailed):
            await (await on.client.start(fails)).result(timeout=PATIENCE)
    name = "holdfast_step_duration_seconds_count"
    assert value(metrics, name, workflow="fails", step="broken", status="retrying") == 2
    assert value(metrics, name, workflow="fails", step="broken", status="failed") == 1
    assert value(metrics, "holdfast_step_retries_total", workflow="fails", step="broken") == 2


async def test_claims_and_commits_are_counted_with_their_size(database_url, metrics):
    async with stage(database_url) as on:
        runs = await on.client.start_many(doubled, [(1,), (2,), (3,)])
        async with on.worker(doubled, observers=[metrics]):
            for run in runs:
                await run.result(timeout=PATIENCE)
    assert value(metrics, "holdfast_claim_size_sum") == 3
    assert value(metrics, "holdfast_claim_seconds_count") == value(metrics, "holdfast_claim_size_count")
    assert value(metrics, "holdfast_commit_size_sum") == 3
    assert value(metrics, "holdfast_commit_seconds_count") == value(metrics, "holdfast_commit_size_count")


async def test_runs_in_flight_are_those_in_a_worker_s_hands(database_url, metrics):
    begun, go_on = asyncio.Event(), asyncio.Event()

    @step
    async def gate() -> None:
        begun.set()
        await go_on.wait()

    @workflow
    async def gated() -> None:
        await gate()

    async with stage(database_url, gated, observers=[metrics]) as on:
        run = await on.client.start(gated)
        await begun.wait()
        assert value(metrics, "holdfast_runs_in_flight", workflow="gated") == 1
        assert value(metrics, "holdfast_steps_in_flight") == 1
        go_on.set()
        await run.result(timeout=PATIENCE)
        await until(lambda: value(metrics, "holdfast_runs_in_flight", workflow="gated") is None)
        assert value(metrics, "holdfast_workers") == 1
    assert value(metrics, "holdfast_workers") == 0


async def test_names_beyond_the_limit_are_counted_as_other(database_url):
    metrics = Prometheus(registry=CollectorRegistry(), names=2)

    @workflow
    async def many() -> None:
        for number in range(5):
            await double.options(name=f"step {number}")(number)

    async with stage(database_url, many, observers=[metrics]) as on:
        await (await on.client.start(many)).result(timeout=PATIENCE)
    name = "holdfast_step_duration_seconds_count"
    assert value(metrics, name, workflow="many", step="step 1", status="completed") == 1
    assert value(metrics, name, workflow="many", step="step 2", status="completed") is None
    assert value(metrics, name, workflow="many", step="other", status="completed") == 3


async def test_no_label_names_a_run(database_url, metrics):
    async with stage(database_url, doubled, observers=[metrics]) as on:
        run = await on.client.start(doubled, 1, key="order-42")
        await run.result(timeout=PATIENCE)
    body, content_type = metrics.render()
    assert b"holdfast_runs_completed_total" in body
    assert content_type.startswith("text/plain")
    assert run.id.encode() not in body
    assert b"order-42" not in body


def test_what_a_client_does_is_counted(database_url, metrics):
    with Client(database_url, observers=[metrics]) as client:
        run = client.start(waits)
        client.signal(run.id, "go")
        client.publish("news")
    assert value(metrics, "holdfast_client_starts_total", workflow="waits") == 1
    assert value(metrics, "holdfast_client_messages_total", kind="signal") == 1
    assert value(metrics, "holdfast_client_messages_total", kind="event") == 1


async def test_a_port_is_served_while_a_worker_runs_and_another_process_gets_the_next(database_url):
    first = Prometheus(registry=CollectorRegistry(), port=29464)
    second = Prometheus(registry=CollectorRegistry(), port=29464)
    async with stage(database_url, doubled, observers=[first]) as on, on.worker(doubled, observers=[second]):
        assert first.address is not None
        assert second.address is not None
        assert second.address[1] > first.address[1]
        url = f"http://127.0.0.1:{second.address[1]}/metrics"
        body = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read())
        assert b"holdfast_workers 1.0" in body
    assert first.address is None


async def test_a_port_is_served_until_the_last_worker_has_stopped(database_url):
    metrics = Prometheus(registry=CollectorRegistry(), port=0)
    async with stage(database_url, doubled, observers=[metrics]) as on:
        async with on.worker(doubled, observers=[metrics]):
            served = metrics.address
        assert metrics.address == served is not None
        url = f"http://127.0.0.1:{served[1]}/metrics"
        assert b"holdfast_workers 1.0" in await asyncio.to_thread(lambda: urllib.request.urlopen(url).read())
    assert metrics.address is None


async def test_a_run_that_is_driven_is_claimed_and_begun_as_any_other(database_url, metrics):
    async with AsyncClient(database_url) as client:
        run = await client.start(doubled, 1)
        assert (await holdfast.Worker(client, workflows=[doubled], observers=[metrics]).drive(run.id)).done
    assert value(metrics, "holdfast_runs_started_total", workflow="doubled") == 1
    assert value(metrics, "holdfast_queue_lag_seconds_count", queue="default") == 1
    assert value(metrics, "holdfast_claim_seconds_count") == value(metrics, "holdfast_claim_size_sum") == 1


async def test_a_port_that_can_t_be_had_keeps_the_worker_from_beginning(database_url):
    served = Prometheus(registry=CollectorRegistry(), port=0)
    refused = Prometheus(registry=CollectorRegistry(), port=9464, host="192.0.2.1")
    worker = holdfast.Worker(database_url, workflows=[doubled], observers=[served, refused])
    with pytest.raises(DefinitionError, match="9464"):
        await worker.run()
    assert served.address is None


def test_a_registry_counts_for_one_only():
    registry = CollectorRegistry()
    Prometheus(registry=registry)
    with pytest.raises(DefinitionError, match="registry="):
        Prometheus(registry=registry)


@pytest.mark.parametrize("given", [{"names": 0}, {"names": True}, {"port": 70000}, {"port": "9464"}], ids=str)
def test_what_makes_no_sense_is_refused(given):
    with pytest.raises(DefinitionError, match="expected"):
        Prometheus(registry=CollectorRegistry(), **given)


async def test_two_workers_add_up(database_url, metrics):
    async with AsyncClient(database_url) as client:
        async with holdfast.Worker(client, workflows=[doubled], observers=[metrics]):
            await (await client.start(doubled, 1)).result(timeout=PATIENCE)
        async with holdfast.Worker(client, workflows=[doubled], observers=[metrics]):
            await (await client.start(doubled, 1)).result(timeout=PATIENCE)
    assert value(metrics, "holdfast_runs_started_total", workflow="doubled") == 2
