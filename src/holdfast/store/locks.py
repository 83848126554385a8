"""Locks between processes of one host: how others see that a worker is dead before its lease ends, and that they wait.

A lock lives as long as whoever holds it. One file a worker, and one for those who wait, in a folder that belongs to the
database: beside a SQLite file, or among the temporary files for a server. A SQLite database's own files are never
opened here: closing any descriptor of one would drop the locks that SQLite holds on it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from urllib.parse import quote
from weakref import WeakSet

try:
    import fcntl
except ImportError:  # Windows: leases end by lapsing only
    fcntl = None  # type: ignore[assignment]

_TRIES = 20
_LONGEST_NAME = 250
"""Of a file, without its ending: file systems take 255 bytes."""
_WITHOUT = (
    "so other processes can't tell whether this worker is alive: if it dies, they wait until its lease is over; let "
    "TMPDIR name a folder that can be written"
)
_log = logging.getLogger("holdfast.store")


def host_name() -> str:
    """Which host this is: locks of another one say nothing here."""
    return socket.gethostname()


class ProcessLocks:
    """The locks that this store holds for its workers, and a way to try those of others.

    They are this process's: a child that it forks shares the open files, and would hold them when it is long dead.
    """

    def __init__(self, folder: str | None, namespace: str, *, with_parents: bool = False) -> None:
        self._folder = folder if fcntl is not None else None
        self._namespace = namespace
        self._make = partial(os.makedirs, exist_ok=True) if with_parents else os.mkdir
        """The folder beside a database is not made without that: it may be away, and is to come back to its place."""
        self._is_needed = with_parents and fcntl is not None
        """A database in a file has its folder beside it, or is in memory: then there is nobody else."""
        self._held: dict[str, int] = {}
        _locks.add(self)

    def hold(self, worker_id: str) -> bool:
        """Take the worker's lock and keep it; False where there are no locks, or somebody else has this one."""
        if worker_id in self._held:
            return True
        if self._folder is None:
            if self._is_needed:
                _log.warning("there is no folder for temporary files, %s", _WITHOUT)
            return False
        with contextlib.suppress(OSError):
            self._make(self._folder)
        for _ in range(_TRIES):
            descriptor = self._try(worker_id, create=True)
            if descriptor is not None:
                self._held[worker_id] = descriptor
                return True
            # Whoever looks for the dead has it for a moment.
            time.sleep(0.001)
        if self._is_needed and not os.access(self._folder, os.W_OK):
            _log.warning("the folder %s can't be written, %s", self._folder, _WITHOUT)
        return False

    def take_if_dead(self, worker_id: str) -> int | None:
        """A descriptor holding the lock of a worker whose process is gone; None if it lives or can't be told."""
        if self._folder is None or worker_id in self._held:
            return None
        return self._try(worker_id, create=False)

    def is_dead(self, worker_id: str) -> bool:
        """Whether the worker's process is gone, as far as can be told. Nothing is taken from it."""
        descriptor = self.take_if_dead(worker_id)
        if descriptor is None:
            return False
        os.close(descriptor)
        return True

    def drop(self, worker_id: str, descriptor: int) -> None:
        """Remove a dead worker's file and let go of its lock."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(worker_id))
        os.close(descriptor)

    def release(self, worker_id: str) -> None:
        """Let go of a lock that this store holds."""
        descriptor = self._held.pop(worker_id, None)
        if descriptor is not None:
            self.drop(worker_id, descriptor)

    @contextlib.contextmanager
    def registering(self, worker_id: str) -> Iterator[None]:
        """A lock that is taken inside goes if that fails: whoever tries again is another worker, again and again."""
        was_held = worker_id in self._held
        try:
            yield
        except BaseException:
            if not was_held:
                self.release(worker_id)
            raise

    def release_all(self) -> None:
        """Let go of everything, and leave the files: their workers have not left in good order."""
        while self._held:
            os.close(self._held.popitem()[1])

    def _try(self, worker_id: str, *, create: bool) -> int | None:
        try:
            descriptor = os.open(self._path(worker_id), os.O_RDWR | (os.O_CREAT if create else 0), 0o644)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino == os.stat(self._path(worker_id)).st_ino:
                return descriptor
        except OSError:
            pass
        os.close(descriptor)
        return None

    def _path(self, worker_id: str) -> str:
        assert self._folder is not None
        name = f"{quote(self._namespace, safe='')}.{quote(worker_id, safe='')}"
        if len(name) > _LONGEST_NAME:
            # A letter of another alphabet is up to twelve here.
            name = sha256(name.encode()).hexdigest()
        return os.path.join(self._folder, f"{name}.lock")


class WaitingRoom:
    """Who waits for a lock that is polled, told to whoever has just had it and would be back before anybody looks.

    Everybody in it holds a shared lock on one file; that nobody is in it shows by getting that lock alone. Nobody ever
    waits for this lock itself: a process that was stopped in here makes the others give way for nothing, and no more.
    The descriptor is opened when it is needed, and not shared with a child: it is the open file that holds a lock, so
    two users of one would not see each other.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder if fcntl is not None else None
        self._descriptor: int | None = None
        _rooms.add(self)

    def enter(self) -> bool:
        """Be seen to wait. False: not this time, somebody is just looking; or never, where there are no such locks."""
        return self._lock(fcntl.LOCK_SH)

    def leave(self) -> None:
        """Wait no more."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def has_others(self) -> bool:
        """Whether anybody is in it. Only from outside."""
        if self._opened() is None:
            return False
        if self._lock(fcntl.LOCK_EX):
            self.leave()
            return False
        return True

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _lock(self, kind: int) -> bool:
        descriptor = self._opened()
        if descriptor is None:
            return False
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _opened(self) -> int | None:
        if self._folder is None:
            return None
        if self._descriptor is None:
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(self._folder)
                self._descriptor = os.open(os.path.join(self._folder, "waiting"), os.O_RDWR | os.O_CREAT, 0o644)
            except FileNotFoundError:
                # The database is away, and its folder with it.
                return None
            except OSError:
                self._folder = None
        return self._descriptor


_locks: WeakSet[ProcessLocks] = WeakSet()
_rooms: WeakSet[WaitingRoom] = WeakSet()


def _forked() -> None:
    # Closing a copy leaves the lock with whoever has the other one, and does not keep it when that one is dead.
    for locks in list(_locks):
        locks.release_all()
    for room in list(_rooms):
        room.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
