"""Wake-ups: whoever subscribed hears of commits, its own store's at once, those of other processes by watching a file.

While there are subscribers, a thread looks at the write-ahead log's time and size. An idle database is never queried,
and no file is opened: closing a descriptor of a database file drops the locks that SQLite holds on it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable

_EVERY = 0.01
_GRAIN = 20_000_000
"""Nanoseconds within which two writes may carry the same time."""


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


class Watcher:
    """Subscribers of one store, and the thread that watches its file for them; without a file there is no thread."""

    def __init__(self, file: str | None, look: Callable[[], None]) -> None:
        self._file = file
        self._look = look
        self._subscribers: list[_Subscriber] = []
        self._lock = threading.Lock()
        self._stop: threading.Event | None = None

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` on the running loop from now on. Returns the way to unsubscribe."""
        subscriber = _Subscriber(asyncio.get_running_loop(), changed)
        with self._lock:
            self._subscribers.append(subscriber)
            if self._stop is None and self._file is not None:
                self._stop = threading.Event()
                # Looked at here: what is written from now on counts, however late the thread gets to run.
                arguments = (self._file, self._stop, _look_at(self._file))
                thread = threading.Thread(
                    target=self._watch, args=arguments, name="holdfast-sqlite-watcher", daemon=True
                )
                thread.start()

        def unsubscribe() -> None:
            with self._lock:
                if subscriber in self._subscribers:
                    self._subscribers.remove(subscriber)
                if not self._subscribers:
                    self._end()
            subscriber.changed = _nothing

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
                with self._lock:
                    if one in self._subscribers:
                        self._subscribers.remove(one)

    def stop(self) -> None:
        """No more wake-ups."""
        with self._lock:
            self._subscribers.clear()
            self._end()

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _watch(self, file: str, stop: threading.Event, seen: tuple[int, int]) -> None:
        # A second write within the same tick of the file's clock does not show: so we ask once more after that tick.
        again_at = seen[0] + _GRAIN
        while not stop.wait(_EVERY):
            found = _look_at(file)
            if found != seen:
                seen = found
                again_at = found[0] + _GRAIN
            elif again_at and time.time_ns() > again_at:
                again_at = 0
            else:
                continue
            # It may have been ourselves: only the writer's own connection can tell whether anybody else wrote.
            self._look()


def _look_at(file: str) -> tuple[int, int]:
    try:
        found = os.stat(file)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _nothing() -> None:
    pass
