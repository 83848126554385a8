"""A journal for readers."""

from __future__ import annotations

import pytest

from holdfast.errors import RunNotFound
from holdfast.model import StepCompleted, StepRetrying, TimerFired
from tests.client.hands import at, total


async def test_entries_are_numbered_and_decoded(client, hands):
    run = await client.start(total, 1)
    await hands.complete(run.id, 42)
    entries = await client.journal(run.id)
    assert [(entry.number, entry.kind, entry.key) for entry in entries] == [
        (0, "started", None),
        (1, "step_asked", "add"),
        (2, "step_completed", "add"),
        (3, "ended", None),
    ]
    assert {(entry.seq, entry.epoch) for entry in entries} == {(0, 1)}
    assert (entries[2].value, entries[2].attempt, entries[3].value) == (42, 1, 42)
    assert entries[1].at == entries[0].at
    assert isinstance(entries[2].entry, StepCompleted)
    assert entries[0].at.tzinfo is not None


async def test_failures_hold_their_exception(client, hands):
    run = await client.start(total, 1)
    await hands.fail(run.id, ValueError("no"))
    failed = [entry for entry in await client.journal(run.id) if entry.kind == "step_failed"]
    assert [(entry.key, entry.attempt, repr(entry.error)) for entry in failed] == [("second", 3, "ValueError('no')")]


async def test_an_entry_prints_as_one_readable_line(client, hands):
    run = await client.start(total, 1)
    claimed = await hands.claim(run.id)
    error = client.codec.encode_exception(ValueError("no"))
    now = at()
    await hands.write(
        claimed,
        StepRetrying(now, "add", 2, error, now + 1_500_000, now),
        StepCompleted(now, "add", 3, b'"' + b"x" * 500 + b'"'),
        TimerFired(now, 4),
    )
    lines = [str(entry) for entry in await client.journal(run.id)]
    assert lines[0].endswith("step_retrying   add  attempt 2  ✗ ValueError: no  (again after 1.5s)")
    assert "step_completed  add  attempt 3  → 'xxx" in lines[1]
    assert lines[1].endswith("…")
    assert lines[2].endswith("timer_fired     (timer 4)")
    assert all("\n" not in line for line in lines)


async def test_a_value_that_can_t_be_decoded_is_given_as_bytes(client, hands):
    run = await client.start(total, 1)
    claimed = await hands.claim(run.id)
    await hands.write(claimed, StepCompleted(at(), "add", 1, b"\x00what"))
    [entry] = await client.journal(run.id)
    assert entry.value == b"\x00what"


async def test_a_run_that_never_began_has_an_empty_journal_and_a_missing_run_has_none(client):
    run = await client.start(total, 1)
    assert await client.journal(run.id) == []
    with pytest.raises(RunNotFound):
        await client.journal("nobody")
