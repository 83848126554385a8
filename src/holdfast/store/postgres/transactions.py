"""`Transaction`, which the noun files work with (statements by name, the time, and news to tell), and `Known`.

A `Transaction` neither begins nor commits: whoever makes it does. `execute` is a coroutine function even where a
caller's own driver blocks: then it never suspends, and can be driven without an event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from holdfast.model import Instant, Lane
from holdfast.store.stats import Stats
from holdfast.store.subscribers import News

from .floors import Floor
from .statements import PostgresBlocks

Row: TypeAlias = Sequence[Any]
Execute: TypeAlias = Callable[[str, Sequence[Any]], Awaitable[Sequence[Row]]]
_json = msgspec.json.Encoder()
BEGINNING = (0, 0)


def as_json(value: object) -> str:
    """A value to store as text."""
    return _json.encode(value).decode()


@dataclass(slots=True)
class Known:
    """What a store has learned from its database and need not ask again."""

    stats: Stats
    namespace: str
    max_retention: int | None = None
    """The longest time for which a run is kept after its end."""
    namespace_id: int = 0
    origin: Instant = 0
    """When this database was first migrated, by which it is told from others."""
    lanes: dict[Lane, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    """The numbers of runs that this process has claimed, by id, so that turns need no lookup."""
    again: set[str] = field(default_factory=set)
    """Ids that two runs have had while this process knew the first. Their numbers are never remembered: a turn that is
    late may be of either, which is looked up each time."""
    unsure: set[str] = field(default_factory=set)
    """Ids of such runs of which a server that we connected to since may have lost turns that were answered for."""
    generations: dict[str, int] = field(default_factory=dict)
    """The generations of this store's workers."""
    worker_lanes: dict[str, set[int] | None] = field(default_factory=dict)
    """The lanes of which this store's workers may hold runs; None: any lane."""
    floors: dict[tuple[int, ...], Floor] = field(default_factory=dict)
    inbox_floors: dict[str, Floor] = field(default_factory=dict)
    """Where this store's workers begin to look for messages."""
    walked: tuple[int, int] = (0, 0)
    """The last (run, follower) that was looked at for missed ends."""
    swept: tuple[Instant, int] = BEGINNING
    """The expired run, by (its expiry, its number), behind which the next sweep looks."""
    is_clock_given: bool = False
    """Whether claims come with a time of their own, so that floors by the database's clock would hide messages."""

    @property
    def was_open(self) -> bool:
        """Whether this store has worked with its database before."""
        return self.namespace_id != 0

    def remember(self, run_id: str, number: int) -> None:
        """A run was claimed."""
        if run_id in self.again or self.numbers.setdefault(run_id, number) != number:
            self.forget_removed(run_id, is_known=True)

    def forget_removed(self, run_id: str, is_known: bool = False) -> None:
        """A run was removed. If its claim is still known, whoever holds it may come with a turn."""
        if self.numbers.pop(run_id, None) is not None or is_known:
            self.again.add(run_id)

    def floor(self, lanes: Sequence[int]) -> Floor:
        """Where claims along these lanes begin to look."""
        return self.floors.setdefault(tuple(lanes), Floor())

    def holds(self, worker_id: str, lanes: Sequence[int] | None) -> None:
        """From now on, a worker of this store may hold runs of these lanes, even if it has not registered them."""
        before = self.worker_lanes.get(worker_id, set())
        self.worker_lanes[worker_id] = None if lanes is None or before is None else before.union(lanes)

    def lower(self, at: Instant) -> None:
        """An entry as old as this has come: whoever looks next must find it."""
        for floor in (*self.floors.values(), *self.inbox_floors.values()):
            floor.lower(at)


@dataclass(slots=True)
class Transaction:
    """A connection in the hands of one deed. `news` says what the deed has done that others may wait for, and `since`
    how old that is, if it is not of just now."""

    execute: Execute
    blocks: PostgresBlocks
    known: Known
    news: News = News.NONE
    since: Instant | None = None
    made_lanes: dict[Lane, int] | None = None
    """Lanes that this transaction may have inserted. Until it is committed, no other may use them."""
    shared_lanes: dict[Lane, int] = field(init=False)
    """The lanes that all transactions share, as they were when this one began: they may be learned anew meanwhile."""

    def __post_init__(self) -> None:
        self.shared_lanes = self.known.lanes

    @property
    def namespace_id(self) -> int:
        return self.known.namespace_id

    @property
    def lanes(self) -> Mapping[Lane, int]:
        """The numbers of lanes that this transaction knows."""
        return {**self.shared_lanes, **self.made_lanes} if self.made_lanes else self.shared_lanes

    def committed(self) -> None:
        """To be called after the commit: let everybody know the lanes that this transaction has inserted."""
        if self.made_lanes:
            self.known.lanes.update(self.made_lanes)

    async def all(self, name: str, params: Mapping[str, Any]) -> Sequence[Row]:
        """The rows of a block."""
        return await self.joined((name,), params)

    async def joined(self, names: Sequence[str], params: Mapping[str, Any]) -> Sequence[Row]:
        """The rows of a statement made of several fragments."""
        self.known.stats.statements += 1
        statement = self.blocks.statement(*names)
        return await self.execute(statement.text, statement.values(params))

    async def one(self, name: str, params: Mapping[str, Any]) -> Row | None:
        """The first row of a block."""
        rows = await self.all(name, params)
        return rows[0] if rows else None

    async def now(self, given: Instant | None) -> Instant:
        """The time that counts: the given one, else that of the database's clock."""
        if given is not None:
            return given
        row = await self.one("read_clock", {})
        assert row is not None
        return int(row[0])
