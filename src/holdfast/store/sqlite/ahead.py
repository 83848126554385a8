"""Lengthening the write-ahead log before commits need the room.

A commit that makes the log longer waits for the disk twice: for its own page, and for the file system to record the new
length. A commit that overwrites existing pages waits once, which on many disks is half the time. SQLite begins its log
anew after a few thousand pages, and overwrites it from then on. Until then we make the log longer than it is used, in
large pieces: a transaction spills pages that nobody needs into the log and is rolled back, and the next commits
overwrite them. These pages are never part of the database, and a crash in the middle leaves what a crash in any
transaction leaves. A short log is left as it is.
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
"""The length at which SQLite carries the log over into the file and begins it anew: 4000 pages."""
_ROOM = 32
"""Pages. If so many still fit into the log as it is, there is nothing to do."""


class Ahead:
    """Looks at the log of one file between commits, and doubles its length if it has grown."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = beside(path, "-wal")
        self._seen = 0

    def look(self) -> None:
        """To be called after a commit. If the log can't be lengthened now, it grows by itself until the next look."""
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
        # A connection of its own: its small cache makes it spill, and the writer's statements stay prepared.
        with contextlib.closing(connect(self._path)) as connection:
            connection.execute("PRAGMA cache_size = 10")
            (page,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute("BEGIN IMMEDIATE")
            found = self._length()
            connection.execute("CREATE TABLE holdfast_ahead (filler)")
            for piece in (_ROOM * page, size):
                connection.execute("INSERT INTO holdfast_ahead VALUES (zeroblob(?))", (piece,))
                if self._length() == found:
                    # There was room: the log had grown because another process has lengthened it. Two processes that
                    # each lengthen it whenever the other has would never stop.
                    break
            connection.execute("ROLLBACK")
