"""Links: connections that come back. One is made when it is needed, and thrown away when the database fails."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from enum import Enum
from functools import partial

from holdfast.errors import StoreAway
from holdfast.store.stats import Stats

from .connections import (
    MEMORY,
    Turnstile,
    beside,
    connect,
    explained,
    identity,
    patiently,
    refuse_vanished,
    require_folder,
)
from .logs import Log, refuse_lost
from .migrations import migrate, rehearse
from .statements import SQL
from .transactions import Clock, Transaction

_LOOK_EVERY = 0.05


class Role(Enum):
    """What a link may do. One link of a store leads: it creates and migrates the file before the others use it."""

    LEADS = "leads"
    WRITES = "writes"
    READS = "reads"


class Link:
    """One connection to one file, used by one thread at a time."""

    def __init__(
        self,
        path: str,
        namespace: str,
        stats: Stats,
        clock: Clock,
        migrate: bool,
        max_retention: int | None = None,
        role: Role = Role.LEADS,
    ) -> None:
        self.path = path
        self._namespace = namespace
        self._stats = stats
        self._clock = clock
        self._may_migrate = migrate
        self._max_retention = max_retention
        self._role = role
        self._may_create = role is Role.LEADS and migrate
        self.turnstile = Turnstile(None if path == MEMORY else beside(path, ".holdfast"))
        self._open: Transaction | None = None
        self._identity: tuple[int, int] | None = None
        self._log: Log | None = None
        self._looked_at = 0.0

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def use(self) -> Transaction:
        """The open connection, or a new one. A file that was there before and is gone is not created again."""
        if self._open is None:
            self._open = self._connect()
            self._may_create = False
        return self._open

    def _connect(self) -> Transaction:
        if self.path != MEMORY:
            require_folder(self.path)
            refuse_lost(self.path)
            if self._role is Role.LEADS and not self._may_migrate and identity(self.path) is None:
                raise StoreAway(
                    f"{self.path}: there is no such file, and migrate=False creates none; run `holdfast migrate`, or"
                    " correct the name"
                )
        connection = connect(
            self.path,
            create=self._may_create,
            read_only=self._role is Role.READS,
            look=partial(rehearse, path=self.path, may_change=self._may_migrate) if self._role is Role.LEADS else None,
        )
        try:
            if self._role is Role.LEADS:
                migrate(connection, self.path, may_change=self._may_migrate)
            namespace_id = patiently(lambda: self._namespace_id(connection), self.path)
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise explained(error, self.path) from error
            raise
        self._identity = identity(self.path)
        self._log = None if self.path == MEMORY else Log(self.path)
        tx = Transaction(connection, self._stats, self._clock, namespace_id, self._max_retention)
        # Commits of others up to now are no news.
        tx.is_overtaken()
        return tx

    def _namespace_id(self, connection: sqlite3.Connection) -> int:
        name = {"name": self._namespace}
        if self._role is Role.LEADS:
            found = connection.execute(SQL["find_namespace"], name).fetchone()
            if found is None:
                connection.execute(SQL["insert_namespace"], name)
        (is_there,) = connection.execute(SQL["has_migrations"]).fetchone()
        found = connection.execute(SQL["find_namespace"], name).fetchone() if is_there else None
        if found is None:
            # The file was replaced, and the link that leads has not been there yet.
            raise refuse_vanished(self.path)
        return int(found[0])

    def refuse_if_vanished(self) -> None:
        """Raise StoreAway if the file or its log was deleted or replaced: SQLite would go on writing into a file that
        nobody can open any more.

        It looks only now and then, since each look waits for the interpreter lock.
        """
        if self.path == MEMORY or time.monotonic() - self._looked_at < _LOOK_EVERY:
            return
        self._looked_at = time.monotonic()
        if identity(self.path) != self._identity:
            raise self.vanished()
        if self._log is not None and self._open is not None:
            try:
                self._log.refuse_if_removed(self._open.connection)
            except StoreAway:
                # Look again the next time, however soon: nobody may get an answer until then.
                self._looked_at = 0.0
                raise

    def vanished(self) -> StoreAway:
        """The error to raise for that."""
        self._looked_at = 0.0
        return refuse_vanished(self.path)

    def drop(self) -> None:
        """Throw the connection away; the next use makes a new one. In memory, only roll back: it is the database."""
        if self._open is None:
            return
        self._open.numbers.clear()
        if self.path == MEMORY:
            with contextlib.suppress(sqlite3.Error):
                if self._open.connection.in_transaction:
                    self._open.connection.execute("ROLLBACK")
        else:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        self.turnstile.close()
        found, self._open = self._open, None
        if found is not None:
            with contextlib.suppress(sqlite3.Error):
                found.connection.close()
