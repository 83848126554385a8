"""Events: publishing one only inserts it; any worker matches it with waits later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.model import (
    Event,
    EventWait,
    Instant,
    Looked,
    NewRun,
    OutEvent,
    Sent,
    Trigger,
    Unmatched,
    probes_to_ask,
)
from holdfast.store.lookbacks import places_of
from holdfast.store.subscribers import News
from holdfast.store.versions import triggers_of

from .rows import workflow_version
from .starts import start_runs
from .transactions import Transaction

_FIRST = -(2**63), -(2**31)


async def publish_event(
    tx: Transaction, name: str, payload: bytes, message_id: str | None, trace: str | None, now: Instant | None
) -> Sent:
    """Keep an event, by one insert."""
    params = {
        "namespace_id": tx.namespace_id,
        "name": name,
        "payload": payload,
        "message_id": message_id,
        "trace": trace,
        "now": now,
    }
    if not await tx.all("publish_event", params):
        return Sent.DUPLICATE
    tx.news |= News.WORK
    return Sent.SENT


async def publish_events(tx: Transaction, events: Sequence[OutEvent], now: Instant | None) -> None:
    """Keep the events that turns publish."""
    params = {
        "namespace_id": tx.namespace_id,
        "names": [event.name for event in events],
        "payloads": [event.payload for event in events],
        "traces": [event.trace for event in events],
        "now": now,
    }
    await tx.all("publish_events", params)


async def read_unmatched(
    tx: Transaction, limit: int, after_event: tuple[Instant, int], after_wait: tuple[int, int]
) -> Unmatched:
    """Events and waits that nobody has looked at, by two statements: each is looked at by itself anyway."""
    (at, event), (run, number) = after_event, after_wait
    params = {
        "namespace_id": tx.namespace_id,
        "after_at": at,
        "after_id": event,
        "after_run": run,
        "after_number": number,
        "limit": limit,
    }
    events = await tx.all("read_unmatched", params)
    waits = await tx.all("read_unmatched_waits", params)
    return Unmatched(tuple(Event(*row) for row in events), tuple(EventWait(*row) for row in waits))


async def find_waits(
    tx: Transaction, event: Event, probes: Sequence[bytes], after: tuple[int, int] | None, limit: int
) -> list[EventWait]:
    """Waits for the event's name, with one of its probes or none."""
    after_run, after_number = after or _FIRST
    params = {
        "namespace_id": tx.namespace_id,
        "event": event.id,
        "name": event.name,
        "published_at": event.published_at,
        "probes": list({b"", *probes}),
        "after_run": after_run,
        "after_number": after_number,
        "limit": limit,
    }
    return [EventWait(*row) for row in await tx.all("find_waits", params)]


async def find_events(
    tx: Transaction, wait: EventWait, after: tuple[Instant, int], limit: int, looked: Looked | None
) -> list[Event]:
    """Events that the wait's chain has not taken."""
    probes = probes_to_ask(wait.name, wait.probe)
    params = {
        "namespace_id": tx.namespace_id,
        "run": wait.run,
        "name": wait.name,
        "since": wait.since,
        "limit": limit,
        "probes": probes,
        **places_of(wait, after, looked),
    }
    kind = "find_probed_events" if probes else "find_events" if looked is None else "find_newer_events"
    return [Event(*row) for row in await tx.all(kind, params)]


async def deliver_event(tx: Transaction, event: Event, waits: Sequence[EventWait]) -> int:
    """Deliver an event to waits, by one statement for all of them."""
    if not waits:
        return 0
    params = {
        "namespace_id": tx.namespace_id,
        "event": event.id,
        "payload": event.payload,
        "published_at": event.published_at,
        "trace": event.trace,
        "runs": [wait.run for wait in waits],
        "numbers": [wait.number for wait in waits],
        "registered_ats": [wait.registered_at for wait in waits],
    }
    delivered = len(await tx.all("deliver_event", params))
    if delivered:
        tx.news |= News.WORK
        tx.since = event.published_at
    return delivered


async def mark_matched(
    tx: Transaction,
    events: Mapping[int, Sequence[bytes]],
    waits: Sequence[EventWait],
    runs: Sequence[NewRun],
    now: Instant | None,
) -> None:
    """Remember that these were looked at. The first to do so notes the events' probes and begins the runs. Rows are
    marked in one order, so that two who mark the same rows wait for each other in line."""
    probes = [(event, probe) for event in sorted(events) for probe in sorted(set(events[event]))]
    params = {
        "namespace_id": tx.namespace_id,
        "events": sorted(events),
        "probed": [event for event, _ in probes],
        "probes": [probe for _, probe in probes],
        "now": now,
    }
    if events and await tx.all("mark_matched", params) and runs:
        await start_runs(tx, runs, now)
    if waits:
        asked = sorted({(wait.run, wait.number, wait.registered_at) for wait in waits})
        params = {
            "runs": [run for run, _, _ in asked],
            "numbers": [number for _, number, _ in asked],
            "registered_ats": [at for _, _, at in asked],
        }
        await tx.all("mark_waits", params)


async def list_triggers(tx: Transaction, event: str, now: Instant | None) -> list[Trigger]:
    """Workflows that an event of this name begins, by what workers have declared."""
    rows = await tx.all("list_triggers", {"namespace_id": tx.namespace_id, "event": event, "now": now})
    return triggers_of([workflow_version(row) for row in rows], event)
