"""Connections to one SQLite file: opening, pragmas, waiting for the write lock, and what an error means.

SQLITE_BUSY never leaves this file: the write lock is asked for again every millisecond, since SQLite's own waiting
backs off to a tenth of a second and starves whoever comes third. A process that has just had the lock lets those who
wait go first: asking every millisecond is no match for asking again at once. Errors of the disk become StoreAway.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from holdfast.errors import LeaseLost, StoreAway, StoreError
from holdfast.store.locks import WaitingRoom

from .lent import LentConnection

MEMORY = ":memory:"
PATIENCE = 30.0
LIMIT_LOG = "PRAGMA journal_size_limit = 67108864"
"""The log is cut to 64 MiB when SQLite begins it anew: as long as a reader keeps a snapshot open, it only grows."""
CHECKPOINT = "PRAGMA wal_autocheckpoint = 4000"
NO_CHECKPOINT = "PRAGMA wal_autocheckpoint = 0"
_PAUSE = 0.001
_GIVES_WAY = 0.002
"""Seconds for which a process that had the write lock leaves it to those who wait: longer than they pause."""
_BUSY = frozenset({5, 6})  # BUSY, LOCKED
_AWAY = frozenset({3, 7, 8, 10, 13, 14, 15})  # PERM, NOMEM, READONLY, IOERR, FULL, CANTOPEN, PROTOCOL
_CORRUPT = 11
_BROKEN = frozenset({_CORRUPT, 26})  # NOTADB
_ERROR = 1
T = TypeVar("T")


def error_code(error: BaseException) -> int:
    """SQLite's primary result code, or 0 if the error did not come from SQLite."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether somebody else has the lock, so that it is worth asking again."""
    return error_code(error) in _BUSY


def is_away(error: BaseException) -> bool:
    """Whether the database itself is the trouble, rather than the statement."""
    if isinstance(error, LeaseLost):
        # This concerns one worker only: the other jobs of the same commit go on.
        return False
    return isinstance(error, StoreError) or error_code(error) in _AWAY | _BROKEN or _is_lacking(error)


def _is_lacking(error: BaseException) -> bool:
    """Whether a table of ours is missing or changed: all were there when the file was opened."""
    return error_code(error) == _ERROR and str(error).startswith(("no such table", "no such column", "no such index"))


def explained(error: BaseException, path: str) -> BaseException:
    """The error as a user should meet it."""
    code = error_code(error)
    if code in _AWAY:
        return StoreAway(
            f"{path}: {error}. Nothing was changed; work goes on when the file can be written again:"
            " check that it exists, its permissions and the space on its disk"
        )
    if _is_lacking(error):
        return StoreAway(
            f"{path}: {error}. Nothing was changed; somebody else has changed Holdfast's tables: put them back, and"
            " work goes on"
        )
    if code in _BROKEN:
        told = f"{path}: {error}. This is not a SQLite database, or a damaged one; restore it or name another file"
        if code == _CORRUPT:
            told += (
                f". If it was restored just now, the log of the file before it may have been carried over into it: stop"
                f" all who have it open, remove {path}-wal and {path}-shm, and restore it once more"
            )
        return StoreError(told)
    return error


class Turnstile:
    """How one connection gets the write lock. `folder` shows who else waits for it; None: there is nobody else."""

    def __init__(self, folder: str | None) -> None:
        self._room = WaitingRoom(folder)
        self._had_it_at = 0.0

    def begin(self, deed: Callable[[], T], path: str) -> T:
        """Do a deed that takes the write lock as soon as that is free. Those who waited while we had it go first."""
        if self.must_wait():
            time.sleep(max(self._had_it_at + _GIVES_WAY - time.monotonic(), 0))
        return patiently(deed, path, self._room)

    def must_wait(self) -> bool:
        """Whether we have just had the lock and somebody waits for it."""
        return time.monotonic() < self._had_it_at + _GIVES_WAY and self._room.has_others()

    def done(self) -> None:
        """To be called when the lock was given back."""
        self._had_it_at = time.monotonic()

    def close(self) -> None:
        """Let go of what it has open."""
        self._room.close()


def patiently(deed: Callable[[], T], path: str, room: WaitingRoom | None = None) -> T:
    """Do a deed as soon as the lock is free. Raises StoreAway if it is not free for long."""
    ends = 0.0
    is_seen = False
    try:
        while True:
            try:
                return deed()
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                if not ends:
                    ends = time.monotonic() + PATIENCE
                elif time.monotonic() > ends:
                    raise StoreAway(
                        f"{path}: another process has held the write lock for {PATIENCE:.0f} s. Nothing was changed;"
                        " look for a transaction that was left open"
                    ) from error
            is_seen = is_seen or (room is not None and room.enter())
            time.sleep(_PAUSE)
    finally:
        if is_seen and room is not None:
            room.leave()


def connect(
    path: str,
    *,
    create: bool = False,
    read_only: bool = False,
    is_lent: bool = False,
    look: Callable[[sqlite3.Connection], None] | None = None,
) -> sqlite3.Connection:
    """A connection in autocommit mode, with this store's pragmas. It makes the file only with `create`.

    `is_lent`: a transactional step will get it. In memory there is one connection only, so that one may always be lent.
    `look` is called for a file that is not in WAL mode yet, and may refuse it: to set the mode writes into the file,
    which may be somebody else's.
    """
    try:
        if path == MEMORY:
            connection = _connection(MEMORY, uri=False, factory=LentConnection)
        else:
            mode = "rwc" if create else "rw"
            factory = LentConnection if is_lent else sqlite3.Connection
            connection = _connection(f"file:{quote(path)}?mode={mode}", uri=True, factory=factory)
    except sqlite3.Error as error:
        raise explained(error, path) from error
    try:
        patiently(lambda: _prepare(connection, read_only, look), path)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise explained(error, path) from error
        raise
    return connection


def _connection(name: str, *, uri: bool, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
    return sqlite3.connect(
        name, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256, uri=uri, factory=factory
    )


def _prepare(
    connection: sqlite3.Connection, read_only: bool, look: Callable[[sqlite3.Connection], None] | None
) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode not in ("wal", "memory"):
        if look is not None:
            look(connection)
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cache_size = -32000")
    connection.execute(CHECKPOINT)
    connection.execute(LIMIT_LOG)
    if read_only:
        connection.execute("PRAGMA query_only = ON")


def beside(path: str, ending: str) -> str:
    """The path of a companion of a database file: beside the file itself, not beside a link to it, as SQLite does
    it."""
    return f"{os.path.realpath(path)}{ending}"


def identity(path: str) -> tuple[int, int] | None:
    """Which file is at the path. It tells whether the file was deleted or replaced under an open connection."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def refuse_vanished(path: str) -> StoreAway:
    """The error for a file that is no longer the one that was opened."""
    return StoreAway(f"{path}: the file was deleted or replaced while it was open; put it back and work goes on")


def require_folder(path: str) -> None:
    """Raise a clear error if the file's folder is missing, or the path is a folder: SQLite only says "unable to
    open"."""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise StoreAway(f"{path}: there is no folder {folder}; create it or name another file")
    if os.path.isdir(path):  # Of a name that is too long this says no; a Path raises.
        raise StoreAway(f"{path} is a folder; name a file in it")
