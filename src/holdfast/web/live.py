"""Changes of runs as they happen, by a bounded look each second, however many follow.

A look reads the newest runs, the newest live ones, and a page of the other live ones, which all have their turn. A run
that was live at an earlier look and is missing from its place is read by its id. So the state in which a run ends is
always told: for the newest runs at the next look, for others when their turn comes.

Nobody looks while nobody follows. What was last seen and the latest changes are kept, both bounded, so that a follower
that comes back gets what it missed. If that is no longer known, or another server knew it, the follower is told to list
the runs again.
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
"""How many runs a look reads: the newest, the newest live ones, and others of the live ones."""
NEW, GONE = 1_000, 500
"""How many runs may be new, or missing, before a look gives up and tells everybody to list again."""
FOLLOWED = 50_000
"""How many live runs are remembered: the newest."""
KEPT = 2_000
"""How many changes are kept for followers that come back."""
_NEW, _OLD = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
_logger = logging.getLogger("holdfast.web")


class Change(NamedTuple):
    """A run is new or has changed; `run` is None if it was deleted. A "reset" says: list the runs again."""

    number: int
    kind: str
    """"changed", "deleted" or "reset"; "ready" is the first that a follower gets."""
    run_id: str
    run: RunSummary | None
    workflow: str = ""
    """The run's workflow, also if the run was deleted."""


class Seen(NamedTuple):
    """A run as it was last seen. `created_at` is its place in listings, `workflow` narrows what is followed; if one of
    the others differs, the run has changed."""

    status: RunStatus
    paused: bool
    is_blocked: bool
    crashes: int
    created_at: datetime
    workflow: str


class _Place(NamedTuple):
    """How far a listing was read: its cursor, when the last run was created, and all runs created at that moment.

    The latter tell a missing run from runs of the same moment that were read before or come on the next page."""

    cursor: str | None
    at: datetime
    tied: frozenset[str]

    def behind(self, page: Page[AsyncRun[Any]]) -> _Place:
        """The place behind a page that begins here."""
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
        """The newest runs, as the last look saw them; None before the first look."""
        self._living: dict[str, Seen] = {}
        """All live runs that were seen, as they were last seen."""
        self._turn: _Place | None = None
        """How far the other live runs have had their turn; None: it begins with the first of them."""
        self._walked = 0
        self._followers: set[asyncio.Event] = set()
        self._looking: asyncio.Task[None] | None = None
        self._lock = LoopLock()

    @property
    def followers(self) -> int:
        return len(self._followers)

    @property
    def followed(self) -> int:
        """How many live runs are remembered."""
        return len(self._living)

    @property
    def changes(self) -> Sequence[Change]:
        """The changes that are kept."""
        return tuple(self._changes)

    def id_of(self, number: int) -> str:
        """The id with which a follower comes back."""
        return f"{self._epoch}-{number}"

    async def follow(self, last_id: str | None) -> AsyncIterator[Change]:
        """Changes behind that id, or from now on. The first is a "ready", or a "reset" if some were missed."""
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
                self._looking = asyncio.create_task(self._keep_looking(), name="holdfast: look at runs")
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
        """Whether all changes behind this number are kept."""
        return place >= self._number or bool(self._changes and self._changes[0].number <= place + 1)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            try:
                await self.look()
            except StoreAway:
                # The next look sees what changes meanwhile, when the store is back.
                continue
            except ClientClosed as closed:
                self._end = closed
                for awake in self._followers:
                    awake.set()
                return
            except Exception:
                _logger.exception("looking at runs for /v1/live failed; it is tried again")

    async def look(self) -> None:
        """See what has changed. Runs once a second while there are followers."""
        # One at a time: two looks that compare with the same past would tell each change twice.
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
            self._remember(seen.values())
            for run_id in gone:
                del self._living[run_id]
        else:
            await self._add_changes(seen, gone)
        self._recent = {run.id: _seen(run) for run in newest}
        for awake in self._followers:
            awake.set()

    async def _look_first(self) -> None:
        """Remember how all runs are, before anybody is told that one changes."""
        cursor: str | None = None
        while len(self._living) < self._followed:
            page = await self._page(cursor, min(LIVE, self._followed - len(self._living)))
            self._remember(page.items)
            cursor = page.next
            if cursor is None:
                break
        page = await self._client.runs().page(limit=self._newest)
        self._remember(page.items)
        self._recent = {run.id: _seen(run) for run in page.items}

    async def _page(self, cursor: str | None, limit: int) -> Page[AsyncRun[Any]]:
        return await self._client.runs(RunFilter(status=LIVING)).page(cursor=cursor, limit=limit)

    async def _read_newest(self, recent: dict[str, Seen]) -> tuple[list[AsyncRun[Any]], bool]:
        """The newest runs, back to one that is known, and whether that took too many."""
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
        """Let the runs behind this place be next, or the first ones again."""
        self._walked = count if self._turn is None else self._walked + count
        self._turn = None if place.cursor is None else place
        if self._turn is not None and self._live + self._walked >= self._followed:
            # Older runs get no turn, so what is known of them is forgotten.
            self._turn = None
            self._living = {run_id: last for run_id, last in self._living.items() if last.created_at >= place.at}

    def _missing(self, seen: Container[str], first: _Place, last: _Place) -> set[str]:
        """Live runs whose place is between these two, and that were not read there."""
        return {
            run_id
            for run_id, known in self._living.items()
            if last.at < known.created_at <= first.at and run_id not in seen and run_id not in first.tied
        }

    async def _add_changes(self, seen: dict[str, AsyncRun[Any]], gone: set[str]) -> None:
        recent = self._recent or {}
        # In the order of their creation.
        for run in sorted(seen.values(), key=_created):
            if (self._living.get(run.id) or recent.get(run.id)) != _seen(run):
                self._add("changed", run.id, run.workflow, run)
        self._remember(seen.values())
        for run_id in sorted(gone, key=lambda run_id: self._living[run_id].created_at):
            try:
                run = await self._client.get_run(run_id)
            except RunNotFound:
                self._add("deleted", run_id, self._living.pop(run_id).workflow, None)
            else:
                # A run that has not changed was only pushed out of the page by newer ones.
                if _seen(run) != self._living[run_id]:
                    self._add("changed", run_id, run.workflow, run)
                self._remember([run])

    def _remember(self, runs: Iterable[AsyncRun[Any]]) -> None:
        """Keep how live runs are now, and forget those that have ended."""
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
    # Interned: there are many runs, and few workflows.
    workflow = sys.intern(record.workflow)
    return Seen(record.status, record.paused, is_blocked, record.crashes, record.created_at, workflow)


def _created(run: AsyncRun[Any]) -> datetime:
    record = run.record
    assert record is not None, "a run that was read has a record"
    return record.created_at
