"""The store inside a caller's own transaction, on the caller's own thread or task.

Nothing that is learned in it is remembered, for it may be rolled back. New lanes are inserted by a connection of the
store's own: in the caller's transaction, one would keep everybody waiting who starts or serves that workflow, until the
caller commits. NOTIFY is sent with the caller's commit, which is not on our hot path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from holdfast.errors import DefinitionError
from holdfast.model import (
    Instant,
    JournalRow,
    Lane,
    NewRun,
    RunRecord,
    StartedRun,
    WorkflowCount,
    WorkflowVersion,
)

from . import runs, starts, workflows
from .drivers import Driver, driver_of
from .messaging import Deed, Messaging
from .migrations import applied
from .notifications import notification
from .statements import PostgresBlocks
from .texts import refuse_unstorable
from .transactions import Known, Transaction

T = TypeVar("T")
_SENDER = "guest"


class Home(NamedTuple):
    """The store that a guest belongs to."""

    shown: str
    namespace: str
    channel: str
    blocks: PostgresBlocks
    known: Known
    make_lanes: Callable[[Sequence[Lane]], Awaitable[None]]
    make_lanes_now: Callable[[Sequence[Lane]], None]
    """The same for a caller that blocks."""


class PostgresGuest(Messaging):
    """The store on one connection of a caller."""

    needs_open = True
    _is_guest = True

    def __init__(self, home: Home, connection: Any) -> None:
        self._home = home
        self._connection = connection
        self._driver: Driver = driver_of(connection)
        self.is_async = self._driver.is_async
        self._is_checked = False

    async def read_clock(self) -> Instant:
        return await self._read(lambda tx: tx.now(None))

    async def start_runs(self, runs: Sequence[NewRun], *, now: Instant | None = None) -> list[StartedRun]:
        refuse_unstorable(runs)
        asked = {Lane(run.workflow, run.version, run.queue) for run in runs}
        missing = [lane for lane in asked if lane not in self._home.known.lanes]
        if missing:
            # First make sure that the connection is to the right database.
            await self._write(_nothing)
            if self.is_async:
                await self._home.make_lanes(missing)
            else:
                self._home.make_lanes_now(missing)
        return await self._write(partial(starts.start_runs, runs=runs, now=now))

    async def get_run(self, run_id: str) -> RunRecord | None:
        return await self._read(partial(runs.get_run, run_id=run_id))

    async def find_run(self, workflow: str, key: str) -> RunRecord | None:
        return await self._read(partial(runs.find_run, workflow=workflow, key=key))

    async def read_journal(self, run_id: str) -> list[JournalRow]:
        return await self._read(partial(runs.read_journal, run_id=run_id))

    async def list_versions(self, workflow: str | None = None, *, now: Instant | None = None) -> list[WorkflowVersion]:
        return await self._read(partial(workflows.list_versions, workflow=workflow, now=now))

    async def list_workflows(self) -> list[WorkflowCount]:
        return await self._read(workflows.list_workflows)

    async def _read(self, deed: Deed[T]) -> T:
        return await self._write(deed)

    async def _write(self, deed: Deed[T], *, is_one: bool = False) -> T:
        home = self._home
        # A copy: what is learned in this transaction may be rolled back.
        known = replace(home.known, lanes=dict(home.known.lanes), numbers={}, floors={})
        tx = Transaction(self._driver.execute, home.blocks, known)
        async with self._driver.scope():
            if not self._is_checked:
                await self._check(tx)
                self._is_checked = True
            answer = await deed(tx)
            if tx.news:
                # When the caller commits, this news is at least as old as the caller's transaction.
                await tx.one("notify", notification(home.channel, _SENDER, tx.news, tx.since))
        return answer

    async def _check(self, tx: Transaction) -> None:
        """Refuse a connection to another database: no worker of this store would ever see what is written there."""
        home = self._home
        # `applied` first: to query a missing table is an error, which would abort the caller's transaction.
        place = await tx.one("find_place", {"name": home.namespace}) if await applied(tx) else None
        if place is None or tuple(place) != (home.known.origin, home.known.namespace_id):
            raise DefinitionError(
                f"connection={self._connection!r} is not one to this client's database, {home.shown} (schema"
                f" {home.blocks.schema!r}); connect to that one, or make a client for the other"
            )


async def _nothing(tx: Transaction) -> None:
    pass
