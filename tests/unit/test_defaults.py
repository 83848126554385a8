"""What holds where nobody says otherwise: the numbers that the contract names."""

from __future__ import annotations

import inspect

from holdfast import Codec, Retry, Worker, hook, step, workflow
from holdfast.model import microseconds
from holdfast.store import open_store


@step
async def one() -> None: ...


@workflow
async def body() -> None: ...


def test_a_workflow_has_a_version_a_retention_and_limits_and_neither_retry_nor_deadline():
    assert (body.version, body.retry, body.deadline) == ("1", None, None)
    assert (body.retention, body.max_crashes, body.journal_limit) == (microseconds("30d"), 5, 50_000)


def test_a_step_is_tried_three_times_and_has_no_timeout():
    assert (one.retry, one.timeout) == (Retry(), None)
    assert Retry() == Retry(attempts=3, initial="1s", factor=2, max="60s", jitter=0.2)


def test_a_hook_expires_after_thirty_days():
    assert microseconds(inspect.signature(hook).parameters["expires"].default) == microseconds("30d")


def test_a_value_may_have_four_mebibytes():
    assert Codec().max_payload == 4 * 1024 * 1024


def test_the_defaults_of_a_worker_are_those_of_the_contract():
    plan = Worker("sqlite:///:memory:", workflows=[body])._plan
    assert (plan.lease, plan.concurrency, plan.threads, plan.grace) == (30_000_000, 100, 32, 20_000_000)
    assert (plan.blocked_after, plan.stall) == (1_000_000, microseconds("5m"))
    assert plan.event_retention == microseconds("7d")


async def test_a_transactional_step_holds_the_lock_of_sqlite_for_five_seconds_at_most():
    store = open_store("sqlite:///:memory:")
    await store.open()
    assert store.lender(30_000_000).timeout == 5_000_000
    await store.close()
