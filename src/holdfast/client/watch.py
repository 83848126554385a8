"""Waiting for runs to end: one watcher for all handles of a client on one event loop.

However many wait, at most one query to the store is under way: which of these runs have ended? It is asked for runs
that somebody has just begun to wait for, for all of them when the store says that something changed, and now and then
in case news was lost. A run that was deleted will never be seen to end, so more rarely it is asked which of the runs
are gone. Soon after the last one has stopped waiting, there is no task, no subscription and no query.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from typing import TypeAlias

from holdfast.errors import StoreAway
from holdfast.model import RunRecord
from holdfast.store import News, Store

from .ids import not_found

POLL = 1.0
"""Seconds between two looks when the store says nothing."""
LINGER = 0.5
"""Seconds that the subscription is kept when nobody waits: a script may wait for one run after another."""
LONGEST_PAUSE = 10.0
"""Seconds between two looks while the store is away for long."""
CENSUS = 10.0
"""Seconds between two looks for runs that were deleted."""
CHUNK = 500
"""Runs in one query."""
REST = 3.0
"""After a look there is a pause of so many times what the next look will take: many waits must leave room for work."""
LONGEST_REST = 0.25

_Waiter: TypeAlias = asyncio.Future[RunRecord]


class Watcher:
    """Answers `wait` for any number of runs. Belongs to the event loop that it was made on."""

    def __init__(self, store: Store) -> None:
        self.loop = asyncio.get_running_loop()
        self._store = store
        self._waiting: dict[str, set[_Waiter]] = {}
        self._fresh: set[str] = set()
        self._has_changed = False
        self._census_at = 0.0
        self._missed: set[str] = set()
        self._awake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, run_id: str) -> RunRecord:
        """The run's record once it has ended. While the store is away, this waits."""
        waiter: _Waiter = self.loop.create_future()
        self._waiting.setdefault(run_id, set()).add(waiter)
        self._fresh.add(run_id)
        self._awake.set()
        if self._task is None:
            # In an empty context: the watcher outlives the step or request that happens to wait first.
            self._task = self.loop.create_task(
                self._watch(), name="holdfast: watch runs", context=contextvars.Context()
            )
        try:
            return await waiter
        finally:
            self._forget(run_id, waiter)

    def close(self, error: Exception) -> None:
        """End every wait with `error`. May be called from any thread."""
        if _running_loop() is self.loop:
            self._stop(error)
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._stop, error)

    def _forget(self, run_id: str, waiter: _Waiter) -> None:
        waiters = self._waiting.get(run_id)
        if waiters is not None:
            waiters.discard(waiter)
            if not waiters:
                del self._waiting[run_id]
                self._fresh.discard(run_id)

    def _changed(self) -> None:
        self._has_changed = True
        if self._waiting:
            self._awake.set()

    async def _watch(self) -> None:
        # Subscribed before the first look, so that an end between the two is not lost.
        unsubscribe = self._store.subscribe(self._changed, News.ENDS)
        self._census_at = self.loop.time() + CENSUS
        try:
            pause = POLL
            while await self._is_wanted():
                began = self.loop.time()
                asked = len(self._waiting)
                try:
                    await self._look()
                except StoreAway:
                    self._has_changed = True
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                else:
                    pause = POLL
                    # The next look is shorter by the share of the runs that have ended.
                    share = min(len(self._waiting) / asked, 1.0)
                    await asyncio.sleep(min(REST * share * (self.loop.time() - began), LONGEST_REST))
        except Exception as error:
            self._fail(error)
        finally:
            unsubscribe()
            if self._task is asyncio.current_task():
                self._task = None

    async def _is_wanted(self) -> bool:
        """Wait until there is something to look for; False when nobody has waited for a while."""
        while not (self._waiting and (self._fresh or self._has_changed)):
            self._awake.clear()
            try:
                async with asyncio.timeout(POLL if self._waiting else LINGER):
                    await self._awake.wait()
            except TimeoutError:
                if not self._waiting:
                    return False
                self._has_changed = True
        return True

    async def _look(self) -> None:
        """Ask once, and answer those whose run has ended."""
        run_ids = list(self._waiting) if self._has_changed else list(self._fresh)
        self._has_changed = False
        self._fresh.clear()
        for some in _chunks(run_ids):
            for record in await self._store.read_ended(some):
                for waiter in self._waiting.pop(record.id, ()):
                    if not waiter.done():
                        waiter.set_result(record)
        if self._waiting and self.loop.time() >= self._census_at:
            await self._look_for_the_gone()

    async def _look_for_the_gone(self) -> None:
        """Tell those whose run is missing for the second time. The first time it may still be about to appear: it may
        have been started in a caller's transaction."""
        gone: set[str] = set()
        for some in _chunks(list(self._waiting)):
            gone.update(await self._store.read_gone(some))
        for run_id in gone & self._missed:
            for waiter in self._waiting.pop(run_id, ()):
                if not waiter.done():
                    waiter.set_exception(not_found(run_id, self._store.namespace))
        self._missed = gone
        self._census_at = self.loop.time() + CENSUS

    def _stop(self, error: Exception) -> None:
        self._fail(error)
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _fail(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, {}
        self._fresh.clear()
        for waiters in waiting.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(error)


def _chunks(run_ids: list[str]) -> Iterator[list[str]]:
    return (run_ids[start : start + CHUNK] for start in range(0, len(run_ids), CHUNK))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
