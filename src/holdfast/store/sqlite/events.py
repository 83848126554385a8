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

from .chains import chains_of
from .messages import is_known, remember
from .rows import workflow_version
from .starts import start_runs
from .transactions import Transaction, as_json


def publish_event(
    tx: Transaction, name: str, payload: bytes, message_id: str | None, trace: str | None, now: Instant | None
) -> Sent:
    """Keep an event."""
    if is_known(tx, "event", message_id):
        return Sent.DUPLICATE
    at = tx.now(now)
    remember(tx, "event", message_id, at)
    insert_events(tx, [OutEvent(name, payload, trace)], at)
    return Sent.SENT


def insert_events(tx: Transaction, events: Sequence[OutEvent], at: Instant) -> None:
    """Keep the events that turns publish."""
    tx.rows("publish_event", [(tx.namespace_id, event.name, event.payload, at, event.trace) for event in events])
    tx.news |= News.WORK


def read_unmatched(
    tx: Transaction, limit: int, after_event: tuple[Instant, int], after_wait: tuple[int, int]
) -> Unmatched:
    """Events and waits that nobody has looked at."""
    (at, event), (run, number) = after_event, after_wait
    params = {
        "namespace_id": tx.namespace_id,
        "after_at": at,
        "after_id": event,
        "after_run": run,
        "after_number": number,
        "limit": limit,
    }
    return Unmatched(
        tuple(Event(*row) for row in tx.all("read_unmatched", params)),
        tuple(_event_wait(*row) for row in tx.all("read_unmatched_waits", params)),
    )


def find_waits(
    tx: Transaction, event: Event, probes: Sequence[bytes], after: tuple[int, int] | None, limit: int
) -> list[EventWait]:
    """Waits for the event's name, with one of its probes or none."""
    after_run, after_number = after or (0, 0)
    params = {
        "namespace_id": tx.namespace_id,
        "probes": as_json(["", *{probe.hex() for probe in probes}]),
        "event": event.id,
        "name": event.name,
        "published_at": event.published_at,
        "after_run": after_run,
        "after_number": after_number,
        "limit": limit,
    }
    return [_event_wait(*row) for row in tx.all("find_waits", params)]


def _event_wait(
    run: int,
    number: int,
    name: str,
    match: bytes | None,
    since: Instant,
    registered_at: Instant,
    probe: str,
    may_get_older: int = 0,
) -> EventWait:
    return EventWait(run, number, name, match, since, registered_at, bytes.fromhex(probe), bool(may_get_older))


def find_events(
    tx: Transaction, wait: EventWait, after: tuple[Instant, int], limit: int, looked: Looked | None
) -> list[Event]:
    """Events that were published since the wait's chain began, and not taken by that chain."""
    chain_id = chains_of(tx, [wait.run]).get(wait.run)
    if chain_id is None:
        return []
    probes = probes_to_ask(wait.name, wait.probe)
    params = {
        "namespace_id": tx.namespace_id,
        "name": wait.name,
        "since": wait.since,
        "chain_id": chain_id,
        "limit": limit,
        "probes": as_json([probe.hex() for probe in probes]),
        **places_of(wait, after, looked),
    }
    kind = "find_probed_events" if probes else "find_events" if looked is None else "find_newer_events"
    return [Event(*row) for row in tx.all(kind, params)]


def deliver_event(tx: Transaction, event: Event, waits: Sequence[EventWait]) -> int:
    """Deliver an event to waits. The message counts as sent when the event was published: it comes before a timeout
    that was due later, however late somebody looked."""
    params = {
        "namespace_id": tx.namespace_id,
        "event": event.id,
        "name": event.name,
        "payload": event.payload,
        "published_at": event.published_at,
        "trace": event.trace,
        "waits": _places(waits),
    }
    found = tx.all("find_open", params)
    if found:
        tx.run("take_event", {**params, "chains": as_json([chain_id for _, chain_id, _ in found])})
        params["waits"] = as_json([wait_id for wait_id, _, _ in found])
        tx.run("deliver_event", params)
        tx.run("end_waits", params)
        tx.news |= News.WORK
    return len(found)


def mark_matched(
    tx: Transaction,
    events: Mapping[int, Sequence[bytes]],
    waits: Sequence[EventWait],
    runs: Sequence[NewRun],
    now: Instant | None,
) -> None:
    """Remember that these were looked at. The first to do so notes the events' probes and begins the runs."""
    params = {"ids": as_json(list(events)), "now": tx.now(now)}
    marked = [event for (event,) in tx.all("mark_matched", params)] if events else []
    probes = [(event, probe.hex()) for event in marked for probe in sorted(set(events[event]))]
    if probes:
        tx.run("note_probes", {"probes": as_json(probes)})
    if marked and runs:
        start_runs(tx, runs, now)
    if waits:
        tx.run("mark_waits", {"waits": _places(waits)})


def _places(waits: Sequence[EventWait]) -> str:
    return as_json([(wait.run, wait.number, wait.registered_at) for wait in waits])


def list_triggers(tx: Transaction, event: str, now: Instant | None) -> list[Trigger]:
    """Workflows that an event of this name begins, by what workers have declared."""
    rows = tx.all("list_triggers", {"namespace_id": tx.namespace_id, "event": event, "now": tx.now(now)})
    return triggers_of([workflow_version(row) for row in rows], event)
