"""What each worker does for all: end the leases of the dead, sweep what was kept long enough, and look now and then."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress

from holdfast.errors import StoreAway
from holdfast.model import Swept
from holdfast.store import Store

from .clock import Clock
from .lease import Lease

_REAP_EVERY = 1.0
_POLL_EVERY = 5
_SWEEP_EVERY = 60.0
_SWEEP = 200
_SWEEP_PAUSE = 0.1
WEEK = 7 * 24 * 3600 * 1_000_000


class Upkeep:
    """Two tasks beside a session, since a sweep may take long and the leases of the dead must not wait for it.

    `found` is called when something has become due, `look` when it is time to look, and `swept`, if given, with the
    outcome of each sweep.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        worker_id: str,
        lease: Lease,
        found: Callable[[], None],
        look: Callable[[], None],
        swept: Callable[[Swept], None] | None = None,
        event_retention: int = WEEK,
    ) -> None:
        self._store = store
        self._clock = clock
        self._worker_id = worker_id
        self._lease = lease
        self._found = found
        self._look = look
        self._swept = swept
        self._event_retention = event_retention

    async def run(self) -> None:
        """End the leases of the dead and look for work, until cancelled. If the store is away that only happens
        later."""
        for count in itertools.count():
            with suppress(StoreAway):
                if self._lease.may_reap() and await self._store.reap_workers(
                    self._worker_id, now=self._clock.store_time()
                ):
                    self._found()
            if count % _POLL_EVERY == 0:
                # Notifications are hints: regular looks bound the delay if one is lost.
                self._look()
            await asyncio.sleep(_REAP_EVERY)

    async def sweep(self) -> None:
        """Remove what was kept long enough, until cancelled; the store may be away, as above."""
        while True:
            await asyncio.sleep(_SWEEP_EVERY)
            with suppress(StoreAway):
                await sweep(self._store, self._clock, self._event_retention, self._swept)


async def sweep(store: Store, clock: Clock, event_retention: int, told: Callable[[Swept], None] | None = None) -> None:
    """Remove what was kept long enough, a little at a time, so that nobody waits for it."""
    before = clock.now() - event_retention
    while True:
        swept = await store.sweep(_SWEEP, events_before=before, now=clock.store_time())
        if told is not None:
            told(swept)
        if swept.is_all:
            return
        await asyncio.sleep(_SWEEP_PAUSE)
