"""What steps send while they execute: values and items of streams, visible at once.

They go out in the order in which they were sent, a few statements behind the step, and a step's result is recorded
only after what it has sent. A process that dies takes along what was not out yet; the next attempt sends it again.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import NamedTuple, Protocol

from holdfast.errors import StoreAway, StoreError
from holdfast.model import StepItems
from holdfast.store import Store

from .clock import Clock
from .held import Held

_log = logging.getLogger("holdfast.worker")
_PAUSE = 0.2


NO_ITEMS: dict[str, int] = {}


class Sender(Protocol):
    """One execution of a step."""

    streams: dict[str, int]
    """How many items it has sent to each."""

    @property
    def key(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def held(self) -> Held: ...


class Item(NamedTuple):
    """A value, or an item of a stream."""

    sender: Sender
    name: str
    data: bytes
    is_value: bool
    number: int = 0
    """How many items the sender has sent to the stream before."""


class Outbox:
    """Lives on the worker's loop; steps in threads may add to it."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._items: list[Item] = []
        self._task: asyncio.Task[None] | None = None
        self._added = 0
        self._moved = asyncio.Event()
        """Set whenever something has gone out."""

    def add(self, item: Item) -> None:
        """Send it; from any thread."""
        self._loop.call_soon_threadsafe(self._add, item, context=self._context)

    def _add(self, item: Item) -> None:
        if not item.is_value:
            # Here and not where it was sent: threads of one step may send at once.
            streams = item.sender.streams
            item = item._replace(number=streams.get(item.name, 0))
            item.sender.streams = {**streams, item.name: item.number + 1}
        self._items.append(item)
        self._added += 1
        if self._task is None:
            self._task = self._loop.create_task(self._send(), name="holdfast: send")

    async def flush(self) -> None:
        """Wait until everything added so far is out."""
        # What a step has just added is on its way to the loop, one turn ahead of this.
        await asyncio.sleep(0)
        wanted = self._added
        # What others add meanwhile is not waited for.
        while self._task is not None and self._added - len(self._items) < wanted:
            self._moved.clear()
            await self._moved.wait()

    def close(self) -> None:
        """Nothing more goes out."""
        self._items.clear()
        if self._task is not None:
            self._task.cancel()

    async def _send(self) -> None:
        try:
            while self._items:
                try:
                    await self._send_some()
                except StoreAway:
                    await asyncio.sleep(_PAUSE)
                except StoreError as error:
                    lost = self._items.pop(0)
                    _log.error(
                        "run %s: what its step sent as %r could not be kept: %s", lost.sender.held.id, lost.name, error
                    )
                self._moved.set()
        finally:
            self._task = None
            self._moved.set()

    async def _send_some(self) -> None:
        first = self._items[0]
        held = first.sender.held
        now = self._clock.store_time()
        if first.is_value:
            await self._store.set_value(held.id, first.name, first.data, epoch=held.epoch, now=now)
            count = 1
        else:
            # Items of one stream that follow one another go out together.
            count = 1
            while count < len(self._items) and self._items[count][:2] == first[:2] and not self._items[count].is_value:
                count += 1
            payloads = tuple(item.data for item in self._items[:count])
            sent = StepItems(
                held.id, first.name, payloads, first.sender.key, first.sender.attempt, held.epoch, first.number
            )
            await self._store.append_items(sent, now=now)
        del self._items[:count]
