"""Subscribers: functions to call when something may have happened, each on its own event loop.

A subscriber hears only the kinds of news that it asked for: an end does not make workers look for work, nor does an
item of a stream wake those who wait for an end. Otherwise every busy worker would wake all others with each commit.
"""

from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import Callable


class News(enum.Flag):
    """What may have happened."""

    NONE = 0
    WORK = enum.auto()
    """A run may be due sooner, or a message, an event or a wait may have come: what workers look for."""
    ENDS = enum.auto()
    """A run has ended, or goes on in another one."""
    VALUES = enum.auto()
    """A value was set, an item was sent to a stream, or a wait is over: for those who follow a run."""
    ANY = WORK | ENDS | VALUES


class _Subscriber:
    __slots__ = ("changed", "is_told", "loop", "to")

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None], to: News) -> None:
        self.loop = loop
        self.changed = changed
        self.to = to
        self.is_told = False

    def fire(self) -> None:
        # Cleared first, so that whatever happens from here on is told again.
        self.is_told = False
        self.changed()


class Subscribers:
    """The subscribers of one store. `first` is called when the first one comes, `last` when the last one has gone."""

    def __init__(self, first: Callable[[], None], last: Callable[[], None]) -> None:
        self._first = first
        self._last = last
        self._subscribers: list[_Subscriber] = []
        self._lock = threading.Lock()

    def subscribe(self, changed: Callable[[], None], to: News = News.ANY) -> Callable[[], None]:
        """Call `changed` on the running loop from now on. Returns a function that unsubscribes."""
        subscriber = _Subscriber(asyncio.get_running_loop(), changed, to)
        with self._lock:
            self._subscribers.append(subscriber)
            if len(self._subscribers) == 1:
                self._first()

        def unsubscribe() -> None:
            subscriber.changed = _nothing
            self._remove(subscriber)

        return unsubscribe

    def signal(self, news: News = News.ANY) -> None:
        """Tell every subscriber to such news, unless a call to it is still under way. May be called from any thread."""
        with self._lock:
            subscribers = [one for one in self._subscribers if not one.is_told and one.to & news]
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
