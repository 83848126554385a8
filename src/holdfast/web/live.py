"""Changes of runs as they happen: a bounded look each second, however many follow.

A look reads the newest runs, the newest that live, and the next few of the others that live, so that each of those has
its turn. A run that lived at the last look and is not where it was is asked for by its id. So the state that a run ends
up in is always told: of the newest at the next look, of the others when their turn comes.

Nobody looks while nobody follows. What was seen last and the latest changes are kept, both bounded, so that a follower
who comes back gets what it missed; if that can't be told any more, or by another server, it is told to list again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from collections import deque
from collections.abc import AsyncIterator, Container, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from holdfast.client import AsyncClient, AsyncRun
from holdfast.errors import ClientClosed, RunNotFound, StoreAway
from holdfast.model import LIVE as LIVING
from holdfast.model import Page, RunFilter, RunStatus

from . import showing
from .locks import LoopLock
from .shapes import RunSummary

PAUSE = 1.0
"""Seconds between two looks."""
NEWEST, LIVE, OTHERS = 100, 500, 500
"""Runs that a look reads: the newest, the newest that live, and some of the others that live."""
NEW, GONE = 1_000, 500
"""How many runs may be new, or not where they were, before a look gives up and tells everybody to list again."""
FOLLOWED = 50_000
"""Live runs that are followed; of more, the newest."""
KEPT = 2_000
"""Changes that are kept for those who come back."""
_NEW, _OLD = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
_logger = logging.getLogger("holdfast.web")


class Change(NamedTuple):
    """A run that is new, or other than it was; `run` is None if it is gone. A reset says: list again."""

    number: int
    kind: str
    """"changed", "deleted" or "reset"; "ready" is what a follower hears first."""
    run_id: str
    run: RunSummary | None
    workflow: str = ""
    """The run's, even if it is gone."""


class Seen(NamedTuple):
    """What must be other for a run to have changed; when it was created, which is its place in listings; and of which
    workflow it is, for those who follow that one only."""

    status: RunStatus
    paused: bool
    is_blocked: bool
    crashes: int
    created_at: datetime
    workflow: str


class _Place(NamedTuple):
    """Up to where a listing was read: the cursor, when the last run was created, and which were created just then.

    Those tell runs that are gone from runs of the same moment that were read before, or will be read behind it."""

    cursor: str | None
    at: datetime
    tied: frozenset[str]

    def behind(self, page: Page[AsyncRun[Any]]) -> _Place:
        """The place behind a page that was read from here."""
        if page.next is None:
            return _Place(None, _OLD, frozenset())
        at = _created(page.items[-1])
        tied = frozenset(run.id for run in page.items if _created(run) == at)
        return _Place(page.next, at, tied | self.tied if at == self.at else tied)


class LiveRuns:
    """The changes of a client's runs, for any number of followers on one event loop."""

    def __init__(
        self,
        client: AsyncClient,
        *,
        pause: float = PAUSE,
        kept: int = KEPT,
        newest: int = NEWEST,
        live: int = LIVE,
        others: int = OTHERS,
        followed: int = FOLLOWED,
    ) -> None:
        self._client = client
        self._pause = pause
        self._newest = newest
        self._live = live
        self._others = others
        self._followed = followed
        self._end: ClientClosed | None = None
        self._epoch = secrets.token_hex(4)
        self._number = 0
        self._changes: deque[Change] = deque(maxlen=kept)
        self._recent: dict[str, Seen] | None = None
        """The newest runs, as the last look saw them; None: nobody has looked yet."""
        self._living: dict[str, Seen] = {}
        """All live runs that were seen, as they were seen last."""
        self._turn: _Place | None = None
        """Up to where the others have had their turn; None: it is the first ones'."""
        self._walked = 0
        self._followers: set[asyncio.Event] = set()
        self._looking: asyncio.Task[None] | None = None
        self._lock = LoopLock()

    @property
    def followers(self) -> int:
        return len(self._followers)

    @property
    def followed(self) -> int:
        """How many live runs it knows of."""
        return len(self._living)

    @property
    def changes(self) -> Sequence[Change]:
        """Those that are kept."""
        return tuple(self._changes)

    def id_of(self, number: int) -> str:
        """What a follower comes back with."""
        return f"{self._epoch}-{number}"

    async def follow(self, last_id: str | None) -> AsyncIterator[Change]:
        """Changes behind that id, or from now on. The first one is a "ready", or a "reset" if some were missed."""
        awake = asyncio.Event()
        self._followers.add(awake)
        try:
            first = self._place_of(last_id)
            if self._looking is None or self._recent is None:
                await self.look()
            place = self._number if first is None else first
            is_lost = last_id is not None and (first is None or not self._is_kept(first))
            if is_lost:
                place = self._number
            yield Change(place, "reset" if is_lost else "ready", "", None)
            if self._looking is None:
                self._looking = asyncio.create_task(self._look_on(), name="holdfast: look at runs")
            while True:
                awake.clear()
                if not self._is_kept(place):
                    place = self._number
                    yield Change(place, "reset", "", None)
                for change in [one for one in self._changes if one.number > place]:
                    place = change.number
                    yield change
                await awake.wait()
                if self._end is not None:
                    raise self._end
        finally:
            self._followers.discard(awake)
            if not self._followers and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    def _place_of(self, last_id: str | None) -> int | None:
        epoch, _, number = (last_id or "").partition("-")
        if epoch != self._epoch or not number.isascii() or not number.isdecimal() or len(number) > 15:
            return None
        return int(number) if int(number) <= self._number else None

    def _is_kept(self, place: int) -> bool:
        """Whether all that happened behind this place is still there."""
        return place >= self._number or bool(self._changes and self._changes[0].number <= place + 1)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            try:
                await self.look()
            except StoreAway:
                # It is looked for again; what changes meanwhile is seen when it is back.
                continue
            except ClientClosed as closed:
                self._end = closed
                for awake in self._followers:
                    awake.set()
                return
            except Exception:
                _logger.exception("looking at runs for /v1/live failed; it is tried again")

    async def look(self) -> None:
        """See what has changed. Followers have it done once a second."""
        # One at a time: two that compare with the same past would tell each change twice.
        async with self._lock.here():
            await self._look_once()

    async def _look_once(self) -> None:
        if self._recent is None:
            await self._look_first()
            return
        newest, is_flood = await self._read_newest(self._recent)
        top = await self._page(None, self._live)
        seen = {run.id: run for run in (*newest, *top.items)}
        place = _Place(None, _NEW, frozenset())
        gone = self._missing(seen, place, place.behind(top))
        if top.next is not None:
            place = self._turn or place.behind(top)
            page = await self._page(place.cursor, self._others)
            seen |= {run.id: run for run in page.items}
            gone |= self._missing(seen, place, place.behind(page))
            gone -= seen.keys()
            self._move_on(place.behind(page), len(page.items))
        if is_flood or len(gone) > GONE:
            self._add("reset", "", "", None)
            self._keep(seen.values())
            for run_id in gone:
                del self._living[run_id]
        else:
            await self._tell(seen, gone)
        self._recent = {run.id: _seen(run) for run in newest}
        for awake in self._followers:
            awake.set()

    async def _look_first(self) -> None:
        """How everything is before anybody is told that it changes."""
        cursor: str | None = None
        while len(self._living) < self._followed:
            page = await self._page(cursor, min(LIVE, self._followed - len(self._living)))
            self._keep(page.items)
            cursor = page.next
            if cursor is None:
                break
        page = await self._client.runs().page(limit=self._newest)
        self._keep(page.items)
        self._recent = {run.id: _seen(run) for run in page.items}

    async def _page(self, cursor: str | None, limit: int) -> Page[AsyncRun[Any]]:
        return await self._client.runs(RunFilter(status=LIVING)).page(cursor=cursor, limit=limit)

    async def _read_newest(self, recent: dict[str, Seen]) -> tuple[list[AsyncRun[Any]], bool]:
        """Back to one that is known; and whether there were too many before that."""
        found: list[AsyncRun[Any]] = []
        cursor: str | None = None
        while True:
            page = await self._client.runs().page(cursor=cursor, limit=self._newest)
            found += page.items
            cursor = page.next
            if cursor is None or any(run.id in recent or run.id in self._living for run in page.items):
                return found, False
            if len(found) >= NEW:
                return found, True

    def _move_on(self, place: _Place, count: int) -> None:
        """Whose turn it is next: those behind this place, or the first ones again."""
        self._walked = count if self._turn is None else self._walked + count
        self._turn = None if place.cursor is None else place
        if self._turn is not None and self._live + self._walked >= self._followed:
            # Older ones have no turn: what is known of them grows old.
            self._turn = None
            self._living = {run_id: last for run_id, last in self._living.items() if last.created_at >= place.at}

    def _missing(self, seen: Container[str], first: _Place, last: _Place) -> set[str]:
        """Runs that lived and were not read, though their place is between these two."""
        return {
            run_id
            for run_id, known in self._living.items()
            if last.at < known.created_at <= first.at and run_id not in seen and run_id not in first.tied
        }

    async def _tell(self, seen: dict[str, AsyncRun[Any]], gone: set[str]) -> None:
        recent = self._recent or {}
        # Oldest first, as they came.
        for run in sorted(seen.values(), key=_created):
            if (self._living.get(run.id) or recent.get(run.id)) != _seen(run):
                self._add("changed", run.id, run.workflow, run)
        self._keep(seen.values())
        for run_id in sorted(gone, key=lambda run_id: self._living[run_id].created_at):
            try:
                run = await self._client.get_run(run_id)
            except RunNotFound:
                self._add("deleted", run_id, self._living.pop(run_id).workflow, None)
            else:
                # Newer ones may only have taken its place among those that were read.
                if _seen(run) != self._living[run_id]:
                    self._add("changed", run_id, run.workflow, run)
                self._keep([run])

    def _keep(self, runs: Iterable[AsyncRun[Any]]) -> None:
        for run in runs:
            if not run.status.is_final:
                self._living[run.id] = _seen(run)
            else:
                self._living.pop(run.id, None)

    def _add(self, kind: str, run_id: str, workflow: str, run: AsyncRun[Any] | None) -> None:
        self._number += 1
        shown = None if run is None else showing.summary(run)
        self._changes.append(Change(self._number, kind, run_id, shown, workflow))


def _seen(run: AsyncRun[Any]) -> Seen:
    record = run.record
    assert record is not None, "a run that was read has a record"
    is_blocked = record.blocked is not None
    # One text for all: there are many runs, and few workflows.
    workflow = sys.intern(record.workflow)
    return Seen(record.status, record.paused, is_blocked, record.crashes, record.created_at, workflow)


def _created(run: AsyncRun[Any]) -> datetime:
    record = run.record
    assert record is not None, "a run that was read has a record"
    return record.created_at
