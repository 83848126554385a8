"""What steps send while they execute: values and items of streams, visible at once.

They go out in the order in which they were sent, a few statements behind the step. A step's result or failure is
recorded only after everything that it has sent. If the process dies, what was not out yet is lost, and the next attempt
sends it again. Beside a transaction on SQLite nothing can go out: see inside.py.
"""

from __future__ import annotations

import asyncio
import contextvars
from functools import partial
from itertools import accumulate, takewhile

import msgspec

from holdfast.define import HouseLogger
from holdfast.errors import StoreAway, StoreError
from holdfast.model import StepItems, StepValue
from holdfast.store import Store

from .attempt import Item
from .clock import Clock
from .tasks import begun_later

_log = HouseLogger("holdfast.worker")
_PAUSE = 0.2
_TOGETHER = 1_000
_BYTES_TOGETHER = 1 << 20
"""The most bytes of a stream that go out in one write."""


def numbered(item: Item) -> Item:
    """Give an item its number among those that its sender sends to its stream. Done on the loop, for several threads
    may send at once."""
    if item.is_value:
        return item
    streams = item.sender.streams
    number = streams.get(item.name, 0)
    item.sender.streams = {**streams, item.name: number + 1}
    return item._replace(number=number)


def as_sent(item: Item) -> StepItems | StepValue:
    """An item in the form in which the store takes it."""
    sender, run_id = item.sender, item.sender.held.id
    if item.is_value:
        return StepValue(run_id, item.name, item.data, sender.epoch)
    return StepItems(run_id, item.name, (item.data,), sender.key, sender.attempt, sender.epoch, item.number)


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
        """Send an item. Called from any thread."""
        self._loop.call_soon_threadsafe(self._add, item, context=self._context)

    def _add(self, item: Item) -> None:
        self._items.append(numbered(item))
        self._added += 1
        if self._task is None:
            self._task = begun_later(self._loop, self._send(), name="holdfast: send")

    async def flush(self) -> None:
        """Wait until everything added so far is out."""
        # An item that the step has just added comes to the loop one turn later.
        await asyncio.sleep(0)
        wanted = self._added
        # What others add meanwhile does not prolong the wait.
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
        sent = as_sent(first)
        now = self._clock.store_time()
        count = 1
        if isinstance(sent, StepValue):
            await self._store.set_value(sent.run_id, sent.name, sent.value, epoch=sent.epoch, now=now)
        else:
            # Consecutive items of one stream go out together, but not too many, so that others may write in between.
            count = sum(1 for _ in takewhile(partial(_goes_along, first), self._items[:_TOGETHER]))
            sizes = accumulate(len(item.data) for item in self._items[:count])
            count = max(sum(1 for size in sizes if size <= _BYTES_TOGETHER), 1)
            payloads = tuple(item.data for item in self._items[:count])
            await self._store.append_items(msgspec.structs.replace(sent, payloads=payloads), now=now)
        del self._items[:count]


def _goes_along(first: Item, item: Item) -> bool:
    return not item.is_value and item.sender is first.sender and item.name == first.name
