"""Transactional steps in a world: their functions' writes are kept until the commit, which is one instant.

The store's own loan would hold the only connection while others ask. So a function writes into a list, and the commit,
when it arrives, replays that list inside a real loan, together with the turn: the row that decides is the store's own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from holdfast.errors import StoreAway
from holdfast.model import SECOND, Instant, Turn
from holdfast.store import SqliteStore, Undone

TABLE = "CREATE TABLE booked (run TEXT NOT NULL, key TEXT NOT NULL, execution INTEGER NOT NULL)"
BOOK = "INSERT INTO booked VALUES (?, ?, ?)"
OWNED = """
    SELECT 'runs', count(*) FROM runs UNION ALL
    SELECT 'starts', count(*) FROM starts UNION ALL
    SELECT 'journal', count(*) FROM journal UNION ALL
    SELECT 'inbox', count(*) FROM inbox UNION ALL
    SELECT 'waits', count(*) FROM waits UNION ALL
    SELECT 'used_hooks', count(*) FROM used_hooks UNION ALL
    SELECT 'taken_events', count(*) FROM taken_events UNION ALL
    SELECT 'followers', count(*) FROM followers UNION ALL
    SELECT 'chain_values', count(*) FROM chain_values UNION ALL
    SELECT 'stream_items', count(*) FROM stream_items UNION ALL
    SELECT 'keys', count(*) FROM keys
"""


class Asks(Protocol):
    """Sends a request through the network."""

    def __call__(self, method: str, call: Callable[[], Awaitable[Any]], asked: Any = None) -> Awaitable[Any]: ...


class Writes:
    """The connection of a transactional step: it collects statements."""

    def __init__(self) -> None:
        self.all: list[tuple[str, tuple[Any, ...]]] = []

    def execute(self, text: str, params: tuple[Any, ...] = ()) -> None:
        self.all.append((text, params))


class FaultyLoan:
    """A loan whose requests go through the network."""

    def __init__(self, store: SqliteStore, ask: Asks) -> None:
        self.connection = Writes()
        self._store = store
        self._ask = ask

    async def begin(self) -> None:
        await self._ask("begin_loan", _nothing)

    async def check(self, *, is_failed: bool) -> str | None:
        return None

    async def commit(self, turn: Turn, *, now: Instant | None) -> bool | Undone:
        try:
            [verdict] = await self._ask("commit_loan", lambda: self._commit(turn, now), [turn])
        except StoreAway as error:
            # The commit may have happened, or may still happen.
            return Undone(str(error), is_certain=False)
        return bool(verdict)

    async def _commit(self, turn: Turn, now: Instant | None) -> list[bool]:
        loan = _lent_at_once(self._store)
        await loan.begin()
        try:
            for text, params in self.connection.all:
                loan.connection.execute(text, params)
            return [await loan.commit(turn, now=now) is True]
        finally:
            await loan.end()

    async def end(self) -> None:
        """Does nothing, since no connection is held."""

    def abort(self) -> None:
        """Does nothing, since nothing was written."""


class FaultyLender:
    """Lends such loans."""

    is_async = False
    kind = "a sqlite3.Connection"
    timeout: int | None = 5 * SECOND

    def __init__(self, store: SqliteStore, ask: Asks, *, is_exclusive: bool) -> None:
        self.is_exclusive = is_exclusive
        """True as on SQLite, False as on Postgres."""
        self._store = store
        self._ask = ask

    def lend(self) -> FaultyLoan:
        return FaultyLoan(self._store, self._ask)

    def close(self) -> None:
        """Does nothing, since nothing is kept."""


class Books:
    """The table that transactional steps write to, in the store's own database."""

    def __init__(self, store: SqliteStore) -> None:
        self._writer = store._writer

    def open(self) -> None:
        self._execute(TABLE)

    def booked(self) -> set[tuple[str, str, int]]:
        """All rows in it. The same row twice is an error."""
        rows = self._execute("SELECT run, key, execution FROM booked")
        assert len(rows) == len(set(rows)), "an execution was booked twice"
        return set(rows)

    def counts(self) -> dict[str, int]:
        """How many rows there are in each table whose rows all belong to runs."""
        return dict(self._execute(OWNED))

    def _execute(self, text: str) -> list[tuple[Any, ...]]:
        lent: list[Any] = []
        self._writer.lend(lent.append)
        try:
            found: list[tuple[Any, ...]] = lent[0].connection.execute(text).fetchall()
            return found
        finally:
            self._writer.take_back()


def _lent_at_once(store: SqliteStore) -> Any:
    """The store's own loan, changed to get its connection at once."""
    lender: Any = store.lender(SECOND)
    loan = lender.lend()

    async def take() -> Any:
        lent: list[Any] = []
        store._writer.lend(lent.append)
        lender.lent(lent[0].connection)
        return lent[0]

    loan._take = take
    return loan


async def _nothing() -> None:
    pass
