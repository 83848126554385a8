"""Wake-ups: subscribers hear of their own store's commits at once, and of other processes' commits by watching a file.

While there are subscribers, a thread looks at the time and size of the write-ahead log. An idle database is never
queried, and no file is opened: closing a descriptor of a database file drops the locks that SQLite holds on it. The log
is written before the commit can be seen, and a disk may take long in between: so after a write we ask several times.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from holdfast.store.subscribers import Subscribers

_EVERY = 0.01
_GRAIN = 20_000_000
"""Nanoseconds within which two writes may get the same time from the file system."""
_LONGEST = 5_000_000_000
"""Nanoseconds after a write for which we ask. Later commits are found by those who look for themselves now and then."""


class Watcher:
    """Subscribers of one store, and the thread that watches its file for them; without a file there is no thread."""

    def __init__(self, file: str | None, look: Callable[[], None]) -> None:
        self._file = file
        self._look = look
        self._subscribers = Subscribers(self._begin, self._end)
        self.subscribe = self._subscribers.subscribe
        self.signal = self._subscribers.signal
        self.stop = self._subscribers.clear
        self._stop: threading.Event | None = None

    def _begin(self) -> None:
        if self._file is not None:
            self._stop = threading.Event()
            # Looked at here, so that every later write counts, however late the thread gets to run.
            arguments = (self._file, self._stop, _look_at(self._file))
            threading.Thread(target=self._watch, args=arguments, name="holdfast-sqlite-watcher", daemon=True).start()

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _watch(self, file: str, stop: threading.Event, seen: tuple[int, int]) -> None:
        # A second write within the same tick of the file's clock does not show, nor does the commit that follows a
        # write. So we ask once more after that tick, and then at growing intervals.
        pause = _GRAIN
        while not stop.wait(_EVERY):
            found = _look_at(file)
            if found != seen:
                seen = found
                pause = _GRAIN
            elif pause <= _LONGEST and time.time_ns() > seen[0] + pause:
                pause *= 2
            else:
                continue
            # It may have been our own write: only the writer's connection can tell whether anybody else has committed.
            self._look()


def _look_at(file: str) -> tuple[int, int]:
    try:
        found = os.stat(file)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
