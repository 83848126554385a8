"""Subscribers: whoever wants to hear that something may have happened, each on its own event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


class _Subscriber:
    __slots__ = ("changed", "is_told", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        self.loop = loop
        self.changed = changed
        self.is_told = False

    def fire(self) -> None:
        # Cleared first: what happens from here on is told again.
        self.is_told = False
        self.changed()


class Subscribers:
    """The subscribers of one store. `first` is called when there is one, `last` when the last has gone."""

    def __init__(self, first: Callable[[], None], last: Callable[[], None]) -> None:
        self._first = first
        self._last = last
        self._subscribers: list[_Subscriber] = []
        self._lock = threading.Lock()

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` on the running loop from now on. Returns the way to unsubscribe."""
        subscriber = _Subscriber(asyncio.get_running_loop(), changed)
        with self._lock:
            self._subscribers.append(subscriber)
            if len(self._subscribers) == 1:
                self._first()

        def unsubscribe() -> None:
            subscriber.changed = _nothing
            self._remove(subscriber)

        return unsubscribe

    def signal(self) -> None:
        """Tell every subscriber, once until it has heard. From any thread."""
        with self._lock:
            subscribers = [one for one in self._subscribers if not one.is_told]
            for one in subscribers:
                one.is_told = True
        for one in subscribers:
            try:
                one.loop.call_soon_threadsafe(one.fire)
            except RuntimeError:
                # Its loop was closed without unsubscribing.
                self._remove(one)

    def clear(self) -> None:
        """No more wake-ups."""
        with self._lock:
            if self._subscribers:
                self._subscribers.clear()
                self._last()

    def _remove(self, subscriber: _Subscriber) -> None:
        with self._lock:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)
                if not self._subscribers:
                    self._last()


def _nothing() -> None:
    pass
