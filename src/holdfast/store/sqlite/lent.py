"""The connection that is lent to a transactional step: the step's thread uses it or the store's, never both at once.

In many calls Python's sqlite3 holds the interpreter lock while it waits for the connection. SQLite, while it has the
connection, asks Python whether a statement is allowed, or calls one of the user's functions, and waits for the
interpreter lock. So two threads that use one connection can wait for each other for ever, and stop the whole process.
That is why the step's thread holds the guard during each call, and why the store takes the guard before it takes the
transaction away.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from weakref import WeakSet

_PAUSE = 0.001


class LentCursor(sqlite3.Cursor):
    """A cursor that holds the connection's guard in each call that executes something."""

    @property
    def _guard(self) -> threading.RLock:
        return cast(LentConnection, self.connection).guard

    def execute(self, *given: Any) -> Any:
        with self._guard:
            return super().execute(*given)

    def executemany(self, *given: Any) -> Any:
        with self._guard:
            return super().executemany(*given)

    def executescript(self, *given: Any) -> Any:
        with self._guard:
            return super().executescript(*given)

    def fetchone(self) -> Any:
        with self._guard:
            return super().fetchone()

    def fetchmany(self, *given: Any, **named: Any) -> Any:
        with self._guard:
            return super().fetchmany(*given, **named)

    def fetchall(self) -> Any:
        with self._guard:
            return super().fetchall()

    def __next__(self) -> Any:
        with self._guard:
            return super().__next__()


class LentConnection(sqlite3.Connection):
    """A connection that can be taken away from whoever uses it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        # Reentrant: the user's SQL functions are called inside statements, and may execute others.
        self.guard = threading.RLock()
        self._cursors: WeakSet[sqlite3.Cursor] = WeakSet()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have the connection alone, as it was before it was lent. A call that is under way is interrupted."""
        is_interrupted = False
        while not self.guard.acquire(timeout=_PAUSE):
            is_interrupted = True
            self.interrupt()
        try:
            self._forget()
            if is_interrupted:
                self._settle()
            yield
        finally:
            self.guard.release()

    def _forget(self) -> None:
        """Put back what a step may have set for itself: with rows or texts of another type, or a statement that its
        handler ends, the store could not read or write what it needs to commit the step."""
        self.set_authorizer(None)
        self.set_progress_handler(None, 0)
        self.row_factory = None
        self.text_factory = str

    def _settle(self) -> None:
        """End all statements: as long as one is half-way through, the interrupt strikes whatever is executed next."""
        for cursor in list(self._cursors):
            cursor.close()
        while True:
            try:
                self.execute("SELECT 1").close()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                # The step's thread is just dropping a cursor that we have not seen.
                time.sleep(_PAUSE)
            else:
                return

    def cursor(self, factory: Any = LentCursor) -> Any:
        with self.guard:
            cursor = super().cursor(factory)
            self._cursors.add(cursor)
        return cursor

    def execute(self, *given: Any) -> Any:
        return self.cursor().execute(*given)

    def executemany(self, *given: Any) -> Any:
        return self.cursor().executemany(*given)

    def executescript(self, *given: Any) -> Any:
        return self.cursor().executescript(*given)

    def commit(self) -> None:
        with self.guard:
            super().commit()

    def rollback(self) -> None:
        with self.guard:
            super().rollback()

    def __exit__(self, *raised: Any) -> Any:
        with self.guard:
            return super().__exit__(*raised)

    def close(self) -> None:
        with self.guard:
            super().close()
