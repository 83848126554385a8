"""Changes of runs as they happen: one look at the newest and the live runs each second, however many follow.

Nobody looks while nobody follows. What was seen last and the latest changes are kept, both bounded, so that a follower
who comes back gets what it missed; if that can't be told any more, or by another server, it is told to list again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from holdfast.client import AsyncClient, AsyncRun
from holdfast.errors import ClientClosed, RunNotFound, StoreAway
from holdfast.model import RunFilter, RunStatus

PAUSE = 1.0
"""Seconds between two looks."""
NEWEST, LIVE, NEW = 100, 500, 1_000
"""Runs looked at: the newest, those that live, and at most so many new ones at once."""
KEPT = 2_000
"""Changes that are kept for those who come back."""
_LIVING = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING)
_logger = logging.getLogger("holdfast.web")


class Change(NamedTuple):
    """A run that is new, or other than it was; `run` is None if it is gone. A reset says: list again."""

    number: int
    kind: str
    """"changed", "deleted" or "reset"."""
    run_id: str
    run: AsyncRun[Any] | None


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
    ) -> None:
        self._client = client
        self._pause = pause
        self._newest = newest
        self._live = live
        self._end: ClientClosed | None = None
        self._epoch = secrets.token_hex(4)
        self._number = 0
        self._changes: deque[Change] = deque(maxlen=kept)
        self._known: dict[str, tuple[object, ...]] | None = None
        self._followers: set[asyncio.Event] = set()
        self._looking: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    @property
    def followers(self) -> int:
        return len(self._followers)

    def id_of(self, number: int) -> str:
        """What a follower comes back with."""
        return f"{self._epoch}-{number}"

    async def follow(self, last_id: str | None) -> AsyncIterator[Change]:
        """Changes behind that id, or from now on. The first one is a "ready", or a "reset" if some were missed."""
        awake = asyncio.Event()
        self._followers.add(awake)
        try:
            first = self._place_of(last_id)
            if self._looking is None or self._known is None:
                await self._look()
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
                await self._look()
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

    async def _look(self) -> None:
        # One at a time: two that compare with the same past would tell each change twice.
        async with self._lock:
            await self._look_once()

    async def _look_once(self) -> None:
        runs = await self._client.runs(RunFilter(status=_LIVING)).page(limit=self._live)
        seen = {run.id: run for run in runs.items}
        known = self._known
        is_flood = False
        cursor: str | None = None
        count = 0
        while True:
            page = await self._client.runs().page(cursor=cursor, limit=self._newest)
            seen |= {run.id: run for run in page.items}
            cursor, count = page.next, count + len(page.items)
            if cursor is None or known is None or any(run.id in known for run in page.items):
                break
            if count >= NEW:
                is_flood = True
                break
        if known is not None:
            await self._compare(known, seen, is_flood)
        self._known = {run.id: _print(run) for run in seen.values()}
        for awake in self._followers:
            awake.set()

    async def _compare(
        self, known: dict[str, tuple[object, ...]], seen: dict[str, AsyncRun[Any]], is_flood: bool
    ) -> None:
        if is_flood:
            self._add("reset", "", None)
            return
        # Oldest first, as they came.
        for run in reversed(seen.values()):
            if known.get(run.id) != _print(run):
                self._add("changed", run.id, run)
        missing = [run_id for run_id, last in known.items() if run_id not in seen and last[0] in _LIVING]
        if len(missing) > NEWEST:
            self._add("reset", "", None)
            return
        for run_id in missing:
            try:
                run = await self._client.get_run(run_id)
            except RunNotFound:
                self._add("deleted", run_id, None)
            else:
                # Newer ones may only have taken its place among those that are looked at.
                if _print(run) != known[run_id]:
                    self._add("changed", run_id, run)

    def _add(self, kind: str, run_id: str, run: AsyncRun[Any] | None) -> None:
        self._number += 1
        self._changes.append(Change(self._number, kind, run_id, run))


def _print(run: AsyncRun[Any]) -> tuple[object, ...]:
    """What must be other for a run to have changed."""
    record = run.record
    assert record is not None, "a run that was read has a record"
    return (record.status, record.paused, record.blocked is not None, record.crashes)
