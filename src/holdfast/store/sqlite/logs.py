"""The log beside a file: whether it is still the one that a connection writes to.

SQLite itself takes a log away only with the last connection, and goes on writing into one that somebody else has
removed: what is committed there, nobody finds again. Whoever comes then begins another log, and the two know nothing
of each other. So a process that has lost one never opens that file again: SQLite would join what it still has of the
old log with the new one.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time

from holdfast.errors import StoreAway

from .connections import beside, identity

_SAVING = 1.0
"""Seconds for which those who still read are waited for."""
_lost: set[tuple[int, int]] = set()
"""The files whose logs were removed under this process."""


class Log:
    """What SQLite keeps beside a file for a connection that has read from it: by then it is all there."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._main = identity(path)
        places = [beside(path, ending) for ending in ("-wal", "-shm")]
        self._files = {place: found for place in places if (found := identity(place)) is not None}

    def refuse_if_removed(self, connection: sqlite3.Connection) -> None:
        """Raise StoreAway if one of its files was deleted or replaced. What is in the log is saved first, if it can be.

        The connection is in no transaction.
        """
        found = {place: identity(place) for place in self._files}
        if found == self._files:
            return
        if self._main is not None:
            _lost.add(self._main)
        [removed, *_] = [place for place, file in self._files.items() if found[place] != file]
        # With another one in its place somebody has begun anew, from what the file was without this log.
        is_alone = all(file in (None, self._files[place]) for place, file in found.items())
        if is_alone and _is_carried_over(connection):
            saved = f"What it held was carried over into {self._path}"
        else:
            saved = f"What it held and {self._path} does not may be lost"
        raise StoreAway(
            f"{removed} was deleted or replaced while {self._path} was open. {saved}; end every process that has"
            " opened it and start it again, and leave the files beside it to SQLite"
        )


def refuse_lost(path: str) -> None:
    """Raise StoreAway for a file whose log was removed while this process had it open."""
    if identity(path) in _lost:
        raise StoreAway(
            f"{path}: the log beside it ({path}-wal, {path}-shm) was deleted or replaced while this process had it"
            " open; end every process that has opened it and start it again"
        )


def _is_carried_over(connection: sqlite3.Connection) -> bool:
    ends = time.monotonic() + _SAVING
    with contextlib.suppress(sqlite3.Error):
        while True:
            is_busy, pages, carried = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            if not is_busy and pages == carried:
                return True
            if time.monotonic() > ends:
                break
            time.sleep(0.005)
    return False
