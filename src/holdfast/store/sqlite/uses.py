"""Who uses a connection, and how a process forks beside those who do: a child finds none of the parent's open.

SQLite keeps a table of the locks that this process has on a file, and a child inherits the table without the locks. If
a transaction is open at the fork, the child waits for ever for a lock that nobody has, with a connection of its own,
too. If a connection is only open, the child believes to have the lock that says so; whoever closes the file's last one
then deletes the log under it, and what the child commits is lost. So a fork waits for the transaction under way, closes
the connection behind it, and each link opens another one when it is needed. Connections that are lent to steps, and
those of callers, are not ours to close. A database in memory is its connection, and stays with the parent.
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
"""Seconds that a fork waits at most: whoever it waits for may wait for another process that has the write lock."""


class Use:
    """Held by whoever uses a link: by one thread at a time, which is not to ask for it again."""

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
        """Have nobody use the link, and its connection closed. False: it is in use, and was for all that time."""
        if self._thread == threading.get_ident():
            # A signal's handler forks in the midst of a transaction of its own thread: to wait is to wait for ever.
            return False
        if not self._lock.acquire(timeout=max(until - time.monotonic(), 0)):
            return False
        self._link.close()
        return True

    def go_on(self) -> None:
        """Whoever wants to may use it again."""
        self._lock.release()


_uses: WeakSet[Use] = WeakSet()
_resting: list[Use] = []
# Held during a fork, so that nobody begins to use what was not there yet when it looked.
_making = threading.RLock()


@functools.cache
def heed_forks() -> None:
    """Have forks of this process wait for those who use a connection, from now on."""
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
