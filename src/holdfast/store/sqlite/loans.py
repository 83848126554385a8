"""Connections for transactional steps (see holdfast.store.loans). A loan holds the write lock from its beginning.

For a file, each loan has a connection of its own. In memory there is only the writer's connection: it is lent out
between two groups of jobs, and all other jobs wait until it is back. A step in memory that goes on after its timeout
can't be kept from using it.

While the user's function has the connection, SQLite is told to refuse COMMIT and ROLLBACK, however they are sent. After
an abort, for which the connection is taken away from the step's thread (lent.py), it refuses everything. The connection
is closed only when the step's thread is known to be done with it: to close it under a running statement would crash the
process.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, cast

from holdfast.errors import StoreError
from holdfast.model import SECOND, Instant, Turn
from holdfast.store.loans import Undone
from holdfast.store.stats import Stats
from holdfast.store.subscribers import News

from .connections import connect, explained, patiently, refuse_vanished, require_folder
from .lent import LentConnection
from .logs import refuse_lost
from .statements import SQL
from .transactions import Clock, Transaction, as_json
from .turns import commit_turns
from .values import send
from .writer import Writer

T = TypeVar("T")


class SqliteLender:
    """Lends sqlite3 connections to the steps of one worker."""

    is_async = False
    is_exclusive = True
    kind = "a sqlite3.Connection"
    timeout: int | None = 5 * SECOND

    def __init__(
        self,
        path: str,
        namespace: str,
        stats: Stats,
        clock: Clock,
        max_retention: int | None,
        *,
        writer: Writer | None,
        lent: Callable[[sqlite3.Connection | None], None],
        tell: Callable[[News], None],
    ) -> None:
        self.path = path
        self.namespace = namespace
        self.stats = stats
        self.clock = clock
        self.max_retention = max_retention
        self.writer = writer
        """The writer of a database in memory; None for a file."""
        self.lent = lent
        self.tell = tell
        # Threads of our own, which end when the lender and its loans are gone. Loans wait for the write lock in the one
        # thread of `line`: if waiting loans could take all threads, the loan that has the lock could not commit.
        self.line = ThreadPoolExecutor(1, "holdfast-sqlite-line")
        self.desk = ThreadPoolExecutor(4, "holdfast-sqlite-loan")

    def lend(self) -> SqliteLoan:
        return SqliteLoan(self) if self.writer is None else MemoryLoan(self, self.writer)

    def close(self) -> None:
        pass

    def opened(self) -> Transaction:
        """A new connection to the file."""
        require_folder(self.path)
        refuse_lost(self.path)
        connection = connect(self.path, is_lent=True)
        try:
            found = patiently(
                lambda: connection.execute(SQL["find_namespace"], {"name": self.namespace}).fetchone(), self.path
            )
            if found is None:
                raise refuse_vanished(self.path)
        except BaseException:
            connection.close()
            raise
        return Transaction(connection, self.stats, self.clock, int(found[0]), self.max_retention)


class SqliteLoan:
    """One transaction of one step."""

    def __init__(self, lender: SqliteLender) -> None:
        self._lender = lender
        self._tx: Transaction | None = None
        self._refused: str | None = None
        self._is_aborted = False
        self._is_ended = False
        self._lock = threading.Lock()

    @property
    def connection(self) -> Any:
        return None if self._tx is None else self._tx.connection

    async def begin(self) -> None:
        try:
            self._tx = await self._take()
            await self._apart(self._begin, self._lender.line)
        except BaseException as error:
            # A caller that gives up leaves no lock behind: the thread that is at work is told, and waited for.
            self._is_aborted = True
            await self._give_back()
            self._is_aborted = False
            told = self._told(error)
            if told is error:
                raise
            raise told from error

    async def check(self, *, is_failed: bool) -> str | None:
        if self._refused is None and (is_failed or self.connection.in_transaction):
            return None
        return (
            f"tried to {(self._refused or 'ROLLBACK').upper()} (as `with connection:`, commit() and executescript()"
            " do); leave the transaction to Holdfast, which commits it together with the step's result. A SAVEPOINT may"
            " be used"
        )

    async def commit(self, turn: Turn, *, now: Instant | None) -> bool | Undone:
        try:
            return await self._apart(partial(self._commit, turn, now))
        except Exception as error:
            # Whatever became of it in SQLite, the next owner of the run finds it decided.
            return Undone(f"{type(error).__name__}: {error}", is_certain=False)

    async def end(self) -> None:
        if self._tx is not None and not self._is_ended:
            self._is_ended = True
            await self._give_back()

    def abort(self) -> None:
        if self._tx is None or self._is_aborted:
            return
        self._is_aborted = True
        connection = self._tx.connection
        # In a thread, for it waits for the statement that it interrupts.
        cut_off = partial(self._rollback, connection, is_last=False)
        threading.Thread(target=cut_off, name="holdfast-sqlite-abort", daemon=True).start()

    def _begin(self) -> None:
        with self._lock:
            if self._tx is None:
                raise StoreError("given up while it stood in line")
            connection = self._tx.connection
            patiently(partial(self._try_to_begin, connection), self._lender.path)
            connection.set_authorizer(self._authorize)

    def _try_to_begin(self, connection: sqlite3.Connection) -> None:
        if self._is_aborted:
            raise StoreError("given up")
        connection.execute("BEGIN IMMEDIATE")

    def _commit(self, turn: Turn, now: Instant | None) -> bool:
        tx = self._tx
        assert tx is not None
        with self._lock, _taken(tx.connection):
            tx.news = News.NONE
            numbers = tx.all("find_numbers", {"namespace_id": tx.namespace_id, "ids": as_json([turn.run_id])})
            found = tx.one("find_turn", {"run": numbers[0][1], "seq": turn.seq}) if numbers else None
            if found is None or found[0] is not None:
                # There is a row, or the run is gone. This transaction did not write that row, so the turn is refused.
                return False
            for sent in turn.sent:
                send(tx, sent, now)
            if commit_turns(tx, [turn], now) != [True]:
                return False
            # crash here: nothing has happened, neither the user's writes nor the turn.
            patiently(lambda: tx.connection.execute("COMMIT"), self._lender.path)
        # crash here: both have happened, and whoever takes the run over finds the result.
        self._lender.stats.commits += 1
        # The step may have started or sent something over its connection, which is committed now and told by nobody
        # else.
        self._lender.tell(tx.news | News.WORK)
        return True

    def _rollback(self, connection: sqlite3.Connection, *, is_last: bool = True) -> None:
        """Roll back. Unless the step is known to be done (`is_last`), refuse whatever its thread still tries."""
        with self._lock, contextlib.suppress(sqlite3.Error), _taken(connection):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if not (is_last or self._is_ended):
                connection.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)

    def _authorize(self, action: int, what: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_TRANSACTION:
            self._refused = what
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    async def _take(self) -> Transaction:
        opening = asyncio.get_running_loop().run_in_executor(self._lender.desk, self._lender.opened)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)
            raise

    async def _give_back(self) -> None:
        tx, self._tx = self._tx, None
        if tx is not None:
            await self._apart(partial(self._close, tx.connection))

    def _close(self, connection: sqlite3.Connection) -> None:
        self._rollback(connection)
        with self._lock:
            connection.close()

    async def _apart(self, deed: Callable[[], T], threads: Executor | None = None) -> T:
        """Do what may wait for the lock or the disk in a thread, and to its end even if the caller gives up."""
        threads = threads or self._lender.desk
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(threads, deed))

    def _told(self, error: BaseException) -> BaseException:
        told = explained(error, self._lender.path)
        if isinstance(told, sqlite3.Error):
            return StoreError(f"{self._lender.path}: {told}")
        return told


class MemoryLoan(SqliteLoan):
    """A loan of the only connection there is."""

    def __init__(self, lender: SqliteLender, writer: Writer) -> None:
        super().__init__(lender)
        self._writer = writer

    async def _take(self) -> Transaction:
        loop = asyncio.get_running_loop()
        taken: asyncio.Future[Transaction] = loop.create_future()

        def lent(tx: Transaction) -> None:
            try:
                loop.call_soon_threadsafe(_hand_over, taken, tx, self._writer)
            except RuntimeError:
                # The loop was closed meanwhile: nobody is there to have it.
                self._writer.take_back()

        self._writer.lend(lent)
        try:
            tx = await taken
        except asyncio.CancelledError:
            if not taken.cancelled():
                # It was handed over a moment ago. If it is not taken back, everybody else waits for it for ever.
                self._writer.take_back()
            raise
        self._lender.lent(tx.connection)
        return tx

    async def _give_back(self) -> None:
        self._return()

    def _return(self) -> None:
        tx, self._tx = self._tx, None
        if tx is not None:
            self._rollback(tx.connection)
            tx.numbers.clear()
            self._lender.lent(None)
            self._writer.take_back()

    async def _apart(self, deed: Callable[[], T], threads: Executor | None = None) -> T:
        return deed()

    def abort(self) -> None:
        # Everybody waits for this connection, so it is taken back at once, though the step's thread may still have it.
        if self._tx is not None:
            self._is_ended = True
            self._return()


def _taken(connection: sqlite3.Connection) -> contextlib.AbstractContextManager[None]:
    return cast(LentConnection, connection).taken()


def _close_unused(opening: asyncio.Future[Transaction]) -> None:
    """Close a connection that is ready after its caller has given up."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().connection.close()


def _hand_over(taken: asyncio.Future[Transaction], tx: Transaction, writer: Writer) -> None:
    if taken.cancelled():
        writer.take_back()
    else:
        taken.set_result(tx)
