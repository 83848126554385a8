"""`Transaction`, which the noun files work with: one open transaction, statements by name, the time, and news to tell.

It neither begins nor commits: the writer does that, for a whole group of jobs.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from holdfast.model import Instant
from holdfast.store.stats import Stats
from holdfast.store.subscribers import News

from .connections import CHECKPOINT, NO_CHECKPOINT
from .statements import SQL

Row: TypeAlias = tuple[Any, ...]
Clock: TypeAlias = Callable[[], Instant]
_json = msgspec.json.Encoder()
_packed: msgspec.json.Decoder[list[Row]] = msgspec.json.Decoder(list[tuple[Any, ...]])


def host_clock() -> Instant:
    """The store's own clock if no other is given: the host's."""
    return time.time_ns() // 1000


def as_json(value: object) -> str:
    """A list for json_each, or a mapping to store."""
    return _json.encode(value).decode()


@dataclass(slots=True)
class Transaction:
    """A connection in the hands of one thread. `news` says what the jobs have done that others may wait for."""

    connection: sqlite3.Connection
    stats: Stats
    clock: Clock
    namespace_id: int = 0
    max_retention: int | None = None
    """The longest time for which a run is kept after its end."""
    numbers: dict[str, int] = field(default_factory=dict)
    """The numbers of runs that this process has claimed, by id, so that turns need no lookup."""
    again: set[str] = field(default_factory=set)
    """Ids that two runs have had while this process knew the first. Their numbers are never remembered: a turn that is
    late may be of either, which is looked up each time."""
    workers: set[str] = field(default_factory=set)
    """The workers that have claimed here while they were registered."""
    news: News = News.NONE
    version: int = 0
    """SQLite's own count of commits by other connections, as it was last seen."""
    may_checkpoint: bool = True

    def checkpoint(self, may: bool) -> None:
        """Set whether a commit may also carry the log over into the file, which takes long."""
        if may is not self.may_checkpoint:
            self.connection.execute(CHECKPOINT if may else NO_CHECKPOINT)
            self.may_checkpoint = may

    def remember(self, run_id: str, number: int) -> None:
        """A run was claimed."""
        if run_id in self.again or self.numbers.setdefault(run_id, number) != number:
            self.forget_removed(run_id, is_known=True)

    def forget_removed(self, run_id: str, is_known: bool = False) -> None:
        """A run was removed. If its claim is still known, whoever holds it may come with a turn."""
        if self.numbers.pop(run_id, None) is not None or is_known:
            self.again.add(run_id)

    def now(self, given: Instant | None) -> Instant:
        """The time that counts: the given one, else that of the store's clock."""
        return self.clock() if given is None else given

    def all(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """The rows of a block."""
        return self._execute((name,), params).fetchall()

    def one(self, name: str, params: Mapping[str, Any]) -> Row | None:
        """The first row of a block."""
        rows = self.all(name, params)
        return rows[0] if rows else None

    def packed(self, names: Sequence[str], params: Mapping[str, Any]) -> list[Row]:
        """The rows of a statement that packs them all into one, in any order. `names` are the statement's fragments.

        Raises sqlite3.DataError if they are larger than a string can be; the transaction stays open.
        """
        [(text,)] = self._execute(tuple(names), params).fetchall()
        return [] if text is None else _packed.decode(text)

    def run(self, name: str, params: Mapping[str, Any]) -> int:
        """Execute a block and return how many rows it changed."""
        return self._execute((name,), params).rowcount

    def _execute(self, names: tuple[str, ...], params: Mapping[str, Any]) -> sqlite3.Cursor:
        self.stats.statements += 1
        statement = SQL.statement(*names)
        return self.connection.execute(statement.text, statement.values(params))

    def rows(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a block that takes many rows."""
        for text, values in SQL.batches(name, rows):
            self.stats.statements += 1
            self.connection.execute(text, values)

    def is_overtaken(self) -> bool:
        """Whether another connection, of this process or any other, has committed since this was last asked."""
        seen = self.version
        (self.version,) = self.connection.execute("PRAGMA data_version").fetchone()
        return self.version != seen
