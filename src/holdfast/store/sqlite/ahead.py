"""The log, written ahead of its use.

A commit that makes the log longer waits for the disk twice: for its own page, and for the file system to note the new
length. One that overwrites what is there waits once, which on many disks is half the time. SQLite begins its log anew
after a few thousand pages and overwrites it from then on; before that, we make it longer than it is used, in large
pieces: pages that no commit needs are spilled into it and rolled back, and the next commits overwrite them. Nothing of
it is ever part of the database, a crash in the middle leaves what a crash in any transaction does, and a log that was
never long is left as it is.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3

from holdfast.errors import StoreError

from .connections import beside, connect

_FROM = 512 * 1024
_PIECE = 4 * 1024 * 1024
_ENOUGH = 16 * 1024 * 1024
"""What SQLite carries over into the file before it begins anew: 4000 pages."""
_ROOM = 32
"""Pages. Where so many fit in that were written ahead already, nothing is to be done."""


class Ahead:
    """Looks at the log of one file between commits, and makes it longer by as much again if it has grown."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = beside(path, "-wal")
        self._seen = 0

    def look(self) -> None:
        """Something was committed. If it can't be done now, the log grows as it would have, and we look again."""
        found = self._length()
        if self._seen < found < _ENOUGH and found >= _FROM:
            with contextlib.suppress(sqlite3.Error, StoreError):
                self._lengthen(min(found, _PIECE))
            found = self._length()
        self._seen = found

    def _length(self) -> int:
        try:
            return os.stat(self._log).st_size
        except OSError:
            return 0

    def _lengthen(self, size: int) -> None:
        # A connection of its own: a small cache spills what does not fit, and the others' statements stay prepared.
        with contextlib.closing(connect(self._path)) as connection:
            connection.execute("PRAGMA cache_size = 10")
            (page,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute("BEGIN IMMEDIATE")
            found = self._length()
            connection.execute("CREATE TABLE holdfast_ahead (filler)")
            for piece in (_ROOM * page, size):
                connection.execute("INSERT INTO holdfast_ahead VALUES (zeroblob(?))", (piece,))
                if self._length() == found:
                    # There was room in it: it had grown because another process has lengthened it. Two that lengthen it
                    # whenever the other one has would never stop.
                    break
            connection.execute("ROLLBACK")
