"""The log beside a file: whether it is still the one that a connection writes to.

SQLite itself removes a log only with the last connection. If somebody else removes it, an open connection goes on
writing into the removed file, and nobody finds again what is committed there. The next process begins another log, and
the two logs know nothing of each other. So a process whose log was removed never opens that database again: SQLite
would mix what it still has of the old log with the new one.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time

from holdfast.errors import StoreAway

from .connections import beside, identity

_SAVING = 1.0
"""Seconds to wait for readers before a lost log is given up."""
_lost: dict[tuple[int, int], int] = {}
"""The files whose logs were removed under this process. Each is held by a descriptor: when it is deleted or replaced,
the system would give its number to the next new file, which has lost nothing."""
_HOLD = getattr(os, "O_PATH", os.O_RDONLY)


class Log:
    """The files of the log, as they were when a connection had first read from the database: by then all are there."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._main = identity(path)
        places = [beside(path, ending) for ending in ("-wal", "-shm")]
        self._files = {place: found for place in places if (found := identity(place)) is not None}

    def refuse_if_removed(self, connection: sqlite3.Connection) -> None:
        """Raise StoreAway if one of the files was deleted or replaced. What the log holds is saved first, if it can be.

        The connection must be in no transaction.
        """
        found = {place: identity(place) for place in self._files}
        if found == self._files:
            return
        self._remember()
        [removed, *_] = [place for place, file in self._files.items() if found[place] != file]
        # Where another log is in its place, somebody works already with the database as it is without this one.
        is_alone = all(file in (None, self._files[place]) for place, file in found.items())
        if is_alone and _is_carried_over(connection):
            saved = f"What it held was carried over into {self._path}"
        else:
            saved = f"What it held and {self._path} does not may be lost"
        raise StoreAway(
            f"{removed} was deleted or replaced while {self._path} was open. {saved}; end every process that has"
            " opened it and start it again, and leave the files beside it to SQLite"
        )

    def _remember(self) -> None:
        """Nobody in this process may open the file again, as long as it is there."""
        if self._main is not None and self._main not in _lost and identity(self._path) == self._main:
            # Never closed: that would take away the locks which SQLite has on the file.
            _lost[self._main] = os.open(self._path, _HOLD)


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
