"""One dialect under test: two stores on one database, and all that can be read of it in a form that can be compared.

What is each store's own is taken out: numbers of messages, the texts of errors, and times that a store read from its
own clock because the contract gives it no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model import SECOND, Instant, Message, Page, RunFilter, RunRecord, WorkflowVersion
from holdfast.store import Store
from tests.differential.operations import ACCEPTS, LANES, WORKERS, Operation

ITS_OWN_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_GIVEN_SINCE = datetime(2099, 1, 1, tzinfo=UTC)
_PAGE = 7
_UNORDERED = ("reap_workers", "release_strays")


@dataclass
class Side:
    """A dialect."""

    name: str
    make_store: Callable[[], Store]
    stores: list[Any] = field(default_factory=list)
    messages: dict[tuple[str, str], int] = field(default_factory=dict)

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
        if operation.name == "commit_turns":
            turns = zip(arguments["turns"], operation.taken, strict=True)
            arguments = {**arguments, "turns": [self._taking(turn, messages) for turn, messages in turns]}
        answer = await getattr(store, operation.name)(**arguments)
        if operation.name == "read_inbox":
            return [self._known(message) for message in answer]
        if operation.name == "claim_runs":
            return [msgspec.structs.replace(run, inbox=tuple(map(self._known, run.inbox))) for run in answer]
        if operation.name == "cancel_run" and answer is not None:
            return comparable(answer)
        if operation.name == "next_due":
            return _given(answer)
        if operation.name == "list_versions":
            return _by_workflow(answer)
        return sorted(answer) if operation.name in _UNORDERED else answer

    def _taking(self, turn: Any, messages: tuple[tuple[str, str], ...]) -> Any:
        ids = tuple(self.messages[one] for one in messages if one in self.messages)
        return msgspec.structs.replace(turn, taken=ids)

    def _known(self, message: Message) -> Message:
        self.messages[message.run_id, message.kind] = message.id
        return msgspec.structs.replace(message, id=0)

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

    async def state(self, now: int) -> dict[str, Any]:
        """All that can be read, by what it is."""
        store: Store = self.stores[0]
        listed = [record for page in await self._pages(store, {}, _PAGE) for record in page]
        ids = sorted(record.id for record in listed)
        found: dict[str, Any] = {"listed": listed}
        records = await asyncio.gather(*map(store.get_run, ids))
        found["runs"] = {record.id: comparable(record) for record in records if record is not None}
        found["journals"] = dict(zip(ids, await asyncio.gather(*map(store.read_journal, ids)), strict=True))
        ended = await store.read_ended([*ids, "r999"])
        found["ended"] = sorted(map(comparable, ended), key=lambda record: record.id)
        held = sorted({(record.workflow, record.key) for record in listed if record.key is not None})
        holders = await asyncio.gather(*(store.find_run(*one) for one in held))
        found["holders"] = {one: record and record.id for one, record in zip(held, holders, strict=True)}
        found["workers"] = await store.list_workers()
        inboxes = await asyncio.gather(*map(store.read_inbox, WORKERS))
        found["inboxes"] = [[self._known(message) for message in inbox] for inbox in inboxes]
        found["next due"] = _given(await store.next_due(LANES, now=now))
        found["versions"] = _by_workflow(await store.list_versions(now=now))
        found["workflows"] = await store.list_workflows()
        return found


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
