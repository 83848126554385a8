"""Listings: many runs, newest first, read a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.define import CHUNK_RUNS, refuse_in_body
from holdfast.errors import BadDuration, DefinitionError
from holdfast.model import LIVE, Page, RunFilter, RunRecord, RunStatus, WorkflowCount, instant_of

from .connections import Connection
from .inputs import InputTest
from .runs import AsyncRun

PAGE = 100
LARGEST_PAGE = 1_000


class AsyncRuns:
    """The runs that a filter lets through: `async for run in client.runs(...)`, or one page at a time.

    Reading raises DefinitionError if the filter asks for arguments by name and nobody knows the names. Runs that are
    started meanwhile don't disturb it: each run that existed before is seen once.
    """

    def __init__(self, connection: Connection, where: RunFilter) -> None:
        self._connection = connection
        self._where = where

    async def page(self, *, cursor: str | None = None, limit: int = PAGE) -> Page[AsyncRun[Any]]:
        """One page; `page.next` is the cursor of the one that follows."""
        refuse_in_body("client.runs()", "do it in a step")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LARGEST_PAGE:
            raise DefinitionError(f"limit={limit!r}: expected a whole number from 1 to {LARGEST_PAGE}")
        store = await self._connection.opened()
        accept = None
        if self._where.input:
            versions = await store.list_versions(self._where.workflow)
            accept = InputTest(self._where, self._connection.codec, versions, self._connection.started)
        page = await store.list_runs(self._where, cursor=cursor, limit=limit, accept=accept)
        if accept is not None:
            accept.check()
        handles = tuple(
            AsyncRun[Any](self._connection, record.id, workflow=record.workflow, status=record.status, record=record)
            for record in page.items
        )
        return Page(handles, page.next)

    async def __aiter__(self) -> AsyncIterator[AsyncRun[Any]]:
        cursor: str | None = None
        while True:
            page = await self.page(cursor=cursor)
            for run in page.items:
                yield run
            cursor = page.next
            if cursor is None:
                return


def checked_filter(where: RunFilter | None) -> RunFilter:
    """The filter, checked, with its statuses as RunStatus. Raises DefinitionError."""
    if where is None:
        return RunFilter()
    if not isinstance(where, RunFilter):
        raise DefinitionError(f"{where!r} is not a filter; expected RunFilter(workflow=..., status=..., ...)")
    for what, moment in (("since", where.since), ("until", where.until)):
        if isinstance(moment, str):
            raise BadDuration(
                f"RunFilter({what}={moment!r}): expected an aware datetime, not text; give a datetime, such as "
                "datetime.now(UTC) - timedelta(hours=1)"
            )
        if moment is not None:
            instant_of(moment, what=f"RunFilter({what}=)")
    if where.status is None:
        return where
    given = where.status if isinstance(where.status, (tuple, list, set, frozenset)) else (where.status,)
    try:
        return replace(where, status=tuple(RunStatus(status) for status in given))
    except ValueError as error:
        raise DefinitionError(f"RunFilter(status=): {error}; expected any of {', '.join(RunStatus)}") from None


def narrowed(where: RunFilter, statuses: Sequence[RunStatus]) -> RunFilter | None:
    """The filter restricted to these statuses; None if it then lets nothing through."""
    wanted = tuple(one for one in statuses if where.status is None or one in where.status)
    return replace(where, status=wanted) if wanted else None


async def matching(
    connection: Connection, where: RunFilter, statuses: Sequence[RunStatus] | None = None
) -> AsyncIterator[RunRecord]:
    """The runs that a filter lets through, restricted to `statuses` if given, for doing something to each."""
    meant = checked_filter(where) if statuses is None else narrowed(checked_filter(where), statuses)
    if meant is not None and meant.input:
        # All pages first: any of them may raise because it can't be decided which runs are meant, and then nothing may
        # have been done to the runs before.
        for record in [run.record async for run in AsyncRuns(connection, meant)]:
            if record is not None:
                yield record
    elif meant is not None:
        async for run in AsyncRuns(connection, meant):
            if run.record is not None:
                yield run.record


async def live_runs(connection: Connection, where: RunFilter) -> list[RunRecord]:
    """The live runs that a filter lets through, without missing a chain that continues while they are read.

    Pages are read one after the other. A run that continues as new in between is on none of them: it has ended when its
    page is read, and its successor is newer than all pages. So the runs that were created since are read, too, and
    those added whose chains were not seen and did not begin meanwhile.
    """
    live = narrowed(where, LIVE)
    if live is None:
        return []
    records = [run.record async for run in AsyncRuns(connection, live) if run.record is not None]
    is_one_moment = len(records) < PAGE and not live.tags and not live.input
    if is_one_moment or not records or live.status != LIVE:
        # If only some live statuses are asked for, a run may leave them at any time anyway.
        return records
    newest = records[0].created_at
    newer = replace(live, since=max(newest, live.since or newest), status=(*LIVE, RunStatus.CONTINUED))
    come = [run.record async for run in AsyncRuns(connection, newer) if run.record is not None]
    seen = {record.chain_id for record in records}
    for record in come:
        is_first = record.id == record.chain_id or record.forked_from is not None
        if is_first and record.created_at > newest:
            seen.add(record.chain_id)
    missed = {record.chain_id: record for record in come if record.chain_id not in seen}
    return [*records, *missed.values()]


def shown(found: Iterable[WorkflowCount]) -> list[WorkflowCount]:
    """The workflows to list. That of chunk runs, which every worker registers, is left out if it has no runs."""
    return [one for one in found if one.counts or one.name != CHUNK_RUNS.name]
