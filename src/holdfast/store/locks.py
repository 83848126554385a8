"""Locks between the processes of one host. They show that a worker is dead before its lease ends, and who is waiting.

The operating system lets go of a lock when the process that holds it dies. There is one file for each worker, and one
for processes that wait for SQLite's write lock, in a folder that belongs to the database: beside a SQLite file, or
among the temporary files for a server. A SQLite database's own files are never opened here: closing any descriptor of
one would drop the locks that SQLite holds on it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import time
from collections.abc import Iterator
from hashlib import sha256
from urllib.parse import quote
from weakref import WeakSet

try:
    import fcntl
except ImportError:  # Windows: leases end by lapsing only
    fcntl = None  # type: ignore[assignment]

_TRIES = 20
_LONGEST_NAME = 250
"""The longest name of a lock file, without its ending: file systems take 255 bytes."""
_WITHOUT = (
    "so other processes can't tell whether this worker is alive: if it dies, they wait until its lease is over; let "
    "TMPDIR name a folder that can be written"
)
_log = logging.getLogger("holdfast.store")


def host_name() -> str:
    """The name of this host. Locks say nothing about workers on other hosts."""
    return socket.gethostname()


class ProcessLocks:
    """The locks that a store holds for its own workers, and a way to try the locks of others.

    They belong to this process alone. A forked child shares the open files and would go on holding the locks after this
    process has died, so it closes its copies (`_forked`).
    """

    def __init__(self, folder: str | None, namespace: str, *, is_temporary: bool = False) -> None:
        self._folder = folder if fcntl is not None else None
        self._namespace = namespace
        self._is_temporary = is_temporary and fcntl is not None
        """Whether the folder is in a folder of this user's, among everybody's temporary files. That one is made, too,
        and must be nobody else's. Else the folder is beside a database, and is not made where that is away."""
        self._held: dict[str, int] = {}
        _locks.add(self)

    def hold(self, worker_id: str) -> bool:
        """Take the worker's lock and keep it. False: there are no locks here, or another process has this one."""
        if worker_id in self._held:
            return True
        if self._folder is None:
            if self._is_temporary:
                _log.warning("there is no folder for temporary files, %s", _WITHOUT)
            return False
        with contextlib.suppress(OSError):
            if self._is_temporary:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(os.path.dirname(self._folder), 0o700)
            os.mkdir(self._folder)
        for _ in range(_TRIES):
            descriptor = self._try(worker_id, create=True)
            if descriptor is not None:
                self._held[worker_id] = descriptor
                return True
            # Another process that looks for the dead may have it for a moment.
            time.sleep(0.001)
        if not self._is_ours():
            _log.warning("the folder %s is not this user's alone, %s", os.path.dirname(self._folder), _WITHOUT)
        elif self._is_temporary and not os.access(self._folder, os.W_OK):
            _log.warning("the folder %s can't be written, %s", self._folder, _WITHOUT)
        return False

    def take_if_dead(self, worker_id: str) -> int | None:
        """Take the lock of a worker whose process is gone, and return its descriptor. None: the process lives, or there
        is no telling."""
        if self._folder is None or worker_id in self._held:
            return None
        return self._try(worker_id, create=False)

    def is_dead(self, worker_id: str) -> bool:
        """Whether the worker's process is known to be gone. Its lock is not kept."""
        descriptor = self.take_if_dead(worker_id)
        if descriptor is None:
            return False
        os.close(descriptor)
        return True

    def drop(self, worker_id: str, descriptor: int) -> None:
        """Remove a worker's lock file and let go of the lock."""
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
        """Let go of a lock that is taken inside if what is done inside fails. Each new try is another worker: without
        this, one lock would be left behind by each."""
        was_held = worker_id in self._held
        try:
            yield
        except BaseException:
            if not was_held:
                self.release(worker_id)
            raise

    def release_all(self) -> None:
        """Let go of all locks, and leave the files: their workers have not left in good order."""
        while self._held:
            os.close(self._held.popitem()[1])

    def _is_ours(self) -> bool:
        """Whether nobody else can put a file there: one that nobody has locked would be taken for a dead worker's."""
        assert self._folder is not None
        if not self._is_temporary:
            return True
        try:
            found = os.lstat(os.path.dirname(self._folder))
        except OSError:
            # It is missing, or can't be reached: then no file in it can be opened.
            return True
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & stat.S_IWOTH

    def _try(self, worker_id: str, *, create: bool) -> int | None:
        if not self._is_ours():
            return None
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
            # Quoted, a letter of another alphabet takes up to twelve characters.
            name = sha256(name.encode()).hexdigest()
        return os.path.join(self._folder, f"{name}.lock")


class WaitingRoom:
    """Shows which processes wait for a lock that has to be polled, so that the one that has just had it lets them go
    first: it would otherwise take the lock again before anybody polls.

    Whoever waits holds a shared lock on one file. Whoever gets an exclusive lock on it knows that nobody waits. Nobody
    ever waits for this lock itself: a process that was stopped while it holds the lock makes the others give way for
    nothing, and does no other harm. The descriptor is opened on first use and not shared with a forked child: locks
    belong to the open file, so two processes that share one would not see each other.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder if fcntl is not None else None
        self._descriptor: int | None = None
        _rooms.add(self)

    def enter(self) -> bool:
        """Be seen to wait. False: somebody is looking at this very moment, or there are no such locks here."""
        return self._lock(fcntl.LOCK_SH)

    def leave(self) -> None:
        """Be seen to wait no longer."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def has_others(self) -> bool:
        """Whether anybody else waits. Not to be asked by one who waits."""
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
                # The database's own folder is gone: look again next time.
                return None
            except OSError:
                self._folder = None
        return self._descriptor


_locks: WeakSet[ProcessLocks] = WeakSet()
_rooms: WeakSet[WaitingRoom] = WeakSet()


def _forked() -> None:
    # Closing a copy leaves the lock with the parent, and nobody keeps it when the parent dies.
    for locks in list(_locks):
        locks.release_all()
    for room in list(_rooms):
        room.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
