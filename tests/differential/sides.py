"""One dialect under test: two stores on one database, and all that can be read of it in a form that can be compared.

What is each store's own is taken out: numbers of messages, the texts of errors, and times that a store read from its
own clock because the contract gives it no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model import (
    SECOND,
    Event,
    EventWait,
    Instant,
    Message,
    NewRun,
    Page,
    RunFilter,
    RunRecord,
    Turn,
    Unmatched,
    WaitRecord,
    WorkflowVersion,
    probes_of,
)
from holdfast.store import Store
from tests.differential.life import EVENTS, STREAMS, VALUES, Operation
from tests.differential.listings import ACCEPTS
from tests.differential.operations import LANES, WORKERS, name_of

ITS_OWN_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_GIVEN_SINCE = datetime(2099, 1, 1, tzinfo=UTC)
_PAGE = 7
_UNORDERED = ("reap_workers", "release_strays", "delete_runs", "pause_runs")
_MATCHING = ("read_unmatched", "find_waits", "find_events", "deliver_event", "mark_matched")


@dataclass
class Side:
    """A dialect."""

    name: str
    make_store: Callable[[], Store]
    stores: list[Any] = field(default_factory=list)
    messages: dict[tuple[object, ...], int] = field(default_factory=dict)
    events: dict[bytes, Event] = field(default_factory=dict)
    """By payload, as this side knows them."""
    waits: dict[int, EventWait] = field(default_factory=dict)
    """By number, as this side knows them."""
    touched: set[str] = field(default_factory=set)
    """Runs that may have values, streams or waits."""
    tokens: set[str] = field(default_factory=set)

    async def open(self) -> None:
        self.stores = [self.make_store(), self.make_store()]
        for store in self.stores:
            await store.open()

    async def close(self) -> None:
        for store in self.stores:
            await store.close()

    async def apply(self, operation: Operation) -> Any:
        """The answer, or the error."""
        try:
            return await self._apply(operation)
        except (HoldfastError, ValueError) as error:
            return error

    async def _apply(self, operation: Operation) -> Any:
        store = self.stores[operation.via]
        arguments = operation.arguments
        if operation.name == "reopen":
            await store.close()
            await store.open()
            return None
        if operation.name == "list_runs":
            return await self._pages(store, **arguments)
        if operation.name == "renew_lease":
            return store.renew_lease(**arguments)
        if operation.name in _MATCHING:
            return await getattr(self, f"_{operation.name}")(store, **arguments)
        self.touched.update(one for one in [arguments.get("run_id")] if one is not None)
        if operation.name == "commit_turns":
            self._touch(arguments["turns"])
            turns = zip(arguments["turns"], operation.taken, strict=True)
            arguments = {**arguments, "turns": [self._taking(turn, messages) for turn, messages in turns]}
        answer = await getattr(store, operation.name)(**arguments)
        if operation.name == "read_inbox":
            return self._all_known(answer)
        if operation.name == "claim_runs":
            # What a worker that left held is due since then, by the store's own clock.
            return [
                msgspec.structs.replace(run, inbox=tuple(self._all_known(run.inbox)), due_at=_given(run.due_at))
                for run in answer
            ]
        if operation.name == "cancel_run" and answer is not None:
            return comparable(answer)
        if operation.name == "next_due":
            return _given(answer)
        if operation.name == "sweep":
            return msgspec.structs.replace(answer, run_ids=tuple(sorted(answer.run_ids)))
        if operation.name == "list_versions":
            return _by_workflow(answer)
        return sorted(answer) if operation.name in _UNORDERED else answer

    def _touch(self, turns: list[Turn]) -> None:
        for turn in turns:
            if turn.out is not None:
                self.touched.add(turn.run_id)
                self.touched.update(one.id for one in (turn.out.successor,) if one is not None)
                self.tokens.update(wait.token for wait in turn.out.waits if wait.token is not None)

    def _taking(self, turn: Turn, messages: tuple[tuple[object, ...], ...]) -> Turn:
        ids = tuple(self.messages[one] for one in messages if one in self.messages)
        return msgspec.structs.replace(turn, taken=ids)

    def _all_known(self, messages: Iterable[Message]) -> list[Message]:
        """A parent's end cancels its children in any order with what is sent to them by the same commit."""
        return sorted(map(self._known, messages), key=lambda message: message.kind == "cancel")

    def _known(self, message: Message) -> Message:
        self.messages[name_of(message)] = message.id
        return msgspec.structs.replace(message, id=0)

    async def _read_unmatched(self, store: Store, limit: int) -> Unmatched:
        found = await store.read_unmatched(limit)
        return Unmatched(tuple(map(self._event, found.events)), self._ordered(found.waits))

    def _event(self, event: Event) -> Event:
        self.events[event.payload] = event
        return msgspec.structs.replace(event, id=0)

    def _ordered(self, waits: Iterable[EventWait]) -> tuple[EventWait, ...]:
        self.waits.update((wait.number, wait) for wait in waits)
        found = (msgspec.structs.replace(wait, run=0) for wait in waits)
        return tuple(sorted(found, key=lambda wait: wait.number))

    async def _find_waits(self, store: Store, event: bytes, limit: int) -> Any:
        if event not in self.events:
            return None
        known, after, found = self.events[event], None, []
        probes = probes_of(known.name, msgspec.json.decode(event))
        while some := await store.find_waits(known, probes, after=after, limit=limit):
            found += some
            after = some[-1].run, some[-1].number
        return self._ordered(found)

    async def _find_events(self, store: Store, wait: int, limit: int) -> Any:
        if wait not in self.waits:
            return None
        found: list[Event] = []
        after = 0, 0
        while some := await store.find_events(self.waits[wait], after=after, limit=limit):
            found += some
            after = some[-1].published_at, some[-1].id
        return [self._event(event) for event in found]

    async def _deliver_event(self, store: Store, event: bytes, waits: list[int]) -> Any:
        if event not in self.events:
            return None
        known = [self.waits[wait] for wait in waits if wait in self.waits]
        # As whoever matches them does: of the event's name, and of chains that had begun by then.
        fitting = [
            wait
            for wait in known
            if wait.name == self.events[event].name and wait.since <= self.events[event].published_at
        ]
        return await store.deliver_event(self.events[event], fitting)

    async def _mark_matched(
        self, store: Store, events: list[bytes], waits: list[int], runs: list[NewRun], now: Instant
    ) -> None:
        await store.mark_matched(
            {
                self.events[event].id: probes_of(self.events[event].name, msgspec.json.decode(event))[1:]
                for event in events
                if event in self.events
            },
            [self.waits[wait] for wait in waits if wait in self.waits],
            runs=runs,
            now=now,
        )

    async def _pages(
        self, store: Store, where: dict[str, Any], limit: int, accept: str | None = None, cursor: str | None = None
    ) -> list[list[RunRecord]]:
        """All pages, each by the cursor of the one before."""
        pages: list[list[RunRecord]] = []
        while True:
            page: Page[RunRecord] = await store.list_runs(
                RunFilter(**where), limit=limit, cursor=cursor, accept=None if accept is None else ACCEPTS[accept]
            )
            pages.append([comparable(record) for record in page.items])
            cursor = page.next
            if cursor is None:
                return pages

    async def state(self, now: int, *, with_life: bool) -> dict[str, Any]:
        """All that can be read, by what it is; `with_life`: also what only some operations change."""
        store: Store = self.stores[0]
        listed = [record for page in await self._pages(store, {}, _PAGE) for record in page]
        ids = sorted(record.id for record in listed)
        found: dict[str, Any] = {"listed": listed}
        records = await asyncio.gather(*map(store.get_run, ids))
        found["runs"] = {record.id: comparable(record) for record in records if record is not None}
        found["journals"] = dict(zip(ids, await asyncio.gather(*map(store.read_journal, ids)), strict=True))
        ended = await store.read_ended([*ids, "r999"])
        found["ended"] = sorted(map(comparable, ended), key=lambda record: record.id)
        found["gone"] = sorted(await store.read_gone(sorted({*ids, *self.touched, "r999"})))
        held = sorted({(record.workflow, record.key) for record in listed if record.key is not None})
        holders = await asyncio.gather(*(store.find_run(*one) for one in held))
        found["holders"] = {one: record and record.id for one, record in zip(held, holders, strict=True)}
        found["workers"] = await store.list_workers()
        inboxes = await asyncio.gather(*map(store.read_inbox, WORKERS))
        found["inboxes"] = [self._all_known(inbox) for inbox in inboxes]
        found["next due"] = _given(await store.next_due(LANES, now=now))
        found["versions"] = _by_workflow(await store.list_versions(now=now))
        found["workflows"] = await store.list_workflows()
        found["unmatched"] = await self._read_unmatched(store, 1000)
        return {**found, **await self._life(store, found["runs"], now)} if with_life else found

    async def _life(self, store: Store, runs: dict[str, RunRecord], now: int) -> dict[str, Any]:
        touched = sorted(self.touched)
        chains = sorted({runs[one].chain_id if one in runs else one for one in touched})
        lasts = await _each(store.find_last, [(one,) for one in touched])
        cancels = await _each(store.find_cancel, [(one,) for one in touched])
        return {
            "lasts": {one: record and record.id for one, record in lasts.items()},
            "cancels": {one: message and (message.run_id, message.payload) for one, message in cancels.items()},
            "unread": await _each(store.count_unread, [(one,) for one in touched]),
            "triggers": {name: await store.list_triggers(name, now=now) for name in EVENTS},
            "waits": await _each(_renumbered(store.read_waits), [(one,) for one in touched]),
            "values": await _each(store.read_value, [(one, name) for one in chains for name in VALUES]),
            "items": await _each(store.read_items, [(one, name) for one in chains for name in STREAMS]),
            "names": await _each(store.list_values, [(one,) for one in chains]),
            "streams": await _each(store.list_streams, [(one,) for one in chains]),
            "hooks": [await store.find_hook(one) for one in sorted(self.tokens)],
        }


def _renumbered(read: Callable[[str], Awaitable[list[WaitRecord]]]) -> Callable[[str], Awaitable[list[WaitRecord]]]:
    """Hooks of an earlier run of the chain have numbers below zero, of each store's own choice."""

    async def found(run_id: str) -> list[WaitRecord]:
        waits = [msgspec.structs.replace(one, number=max(one.number, 0)) for one in await read(run_id)]
        return sorted(waits, key=lambda one: (one.number, one.registered_at, one.name))

    return found


async def _each(read: Callable[..., Any], asked: list[tuple[str, ...]]) -> dict[tuple[str, ...], Any]:
    return dict(zip(asked, await asyncio.gather(*(read(*one) for one in asked)), strict=True))


def comparable(record: RunRecord) -> RunRecord:
    """Without what a store read from its own clock."""
    changes = {
        name: ITS_OWN_TIME
        for name in ("due_at", "ended_at", "started_at")
        if getattr(record, name) is not None and getattr(record, name) < _GIVEN_SINCE
    }
    return msgspec.structs.replace(record, **changes) if changes else record


def _given(due_at: Instant | None) -> Instant | None:
    """The same of an answer to next_due."""
    return due_at if due_at is None or due_at > _GIVEN_SINCE.timestamp() * SECOND else 0


def _by_workflow(versions: list[WorkflowVersion]) -> list[WorkflowVersion]:
    """The newest of each workflow last; nothing is promised of one workflow beside another."""
    return sorted(versions, key=lambda version: version.workflow)
