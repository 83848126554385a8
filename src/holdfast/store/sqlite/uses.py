"""Who uses a connection, and how forks are made safe: a child process inherits none of the connections open.

SQLite keeps a table of the locks that the process has on a file, and a child inherits the table without the locks. If a
transaction is open at the fork, the child waits for ever for a lock that nobody has, even with a connection of its own.
If a connection is merely open, the child believes that it has the lock which says so. When another process then closes
the last connection that it knows of, it deletes the log that the child uses, and what the child commits is lost. So a
fork waits for the transaction under way and closes the connection; each link opens another one when it is needed. Lent
connections, and those of callers, are not ours to close. A database in memory is its connection, and stays with the
parent.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from typing import Self
from weakref import WeakSet

from .connections import MEMORY
from .links import Link

_PATIENCE = 5.0
"""Seconds that a fork waits at most: the transaction under way may itself wait for another process."""


class Use:
    """Held while a link is used: by one thread at a time, which must not acquire it again."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._thread: int | None = None
        if link.path != MEMORY:
            with _making:
                _uses.add(self)

    def acquire(self, *, blocking: bool = True) -> bool:
        if not self._lock.acquire(blocking):
            return False
        self._thread = threading.get_ident()
        return True

    def release(self) -> None:
        self._thread = None
        self._lock.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def rest(self, until: float) -> bool:
        """Keep everybody from using the link, and close its connection. False: it was in use until that time."""
        if self._thread == threading.get_ident():
            # A signal handler forks during a transaction of its own thread: to wait for that is to wait for ever.
            return False
        if not self._lock.acquire(timeout=max(until - time.monotonic(), 0)):
            return False
        self._link.close()
        return True

    def go_on(self) -> None:
        """Let the link be used again."""
        self._lock.release()


_uses: WeakSet[Use] = WeakSet()
_resting: list[Use] = []
# Held during a fork, so that no link is made that the fork has not seen.
_making = threading.RLock()


@functools.cache
def heed_forks() -> None:
    """From now on, have forks of this process wait for connections that are in use."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)


def _before() -> None:
    _making.acquire()
    until = time.monotonic() + _PATIENCE
    _resting.extend(use for use in list(_uses) if use.rest(until))


def _after() -> None:
    while _resting:
        _resting.pop().go_on()
    _making.release()
