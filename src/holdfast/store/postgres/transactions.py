"""What the noun files get to work with: statements by name, the time, and what they have to tell.

A transaction neither begins nor commits here; whoever hands it out does. `execute` is a coroutine function even where
a caller's own driver blocks: then it never gives way, and can be driven without an event loop.
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


def as_json(value: object) -> str:
    """A value to store as text."""
    return _json.encode(value).decode()


@dataclass(slots=True)
class Known:
    """What a store has learned and need not ask again."""

    stats: Stats
    namespace: str
    max_retention: int | None = None
    """For how long a run is kept after its end at most."""
    namespace_id: int = 0
    origin: Instant = 0
    """When this database was first migrated: it tells one from another."""
    lanes: dict[Lane, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    """Ids of the runs that this process claimed, with their numbers: turns need no lookup."""
    unsure: set[str] = field(default_factory=set)
    """Those of them of which a server that we have connected to since may have lost what was answered for."""
    generations: dict[str, int] = field(default_factory=dict)
    """Of this store's workers."""
    worker_lanes: dict[str, set[int] | None] = field(default_factory=dict)
    """Those of which this store's workers may hold runs; None: any."""
    floors: dict[tuple[int, ...], Floor] = field(default_factory=dict)
    inbox_floors: dict[str, Floor] = field(default_factory=dict)
    """Of this store's workers."""
    walked: tuple[int, int] = (0, 0)
    """The run and its follower up to which followers were asked whether they have missed an end."""
    is_clock_given: bool = False
    """Claims come with a time of their own, so that the database's clock says nothing about the messages here."""

    @property
    def was_open(self) -> bool:
        """Whether this store has worked with its database before."""
        return self.namespace_id != 0

    def floor(self, lanes: Sequence[int]) -> Floor:
        """Where claims along these lanes begin to look."""
        return self.floors.setdefault(tuple(lanes), Floor())

    def holds(self, worker_id: str, lanes: Sequence[int] | None) -> None:
        """A worker of this store may hold runs of these lanes from now on, whatever it has registered."""
        before = self.worker_lanes.get(worker_id, set())
        self.worker_lanes[worker_id] = None if lanes is None or before is None else before.union(lanes)

    def lower(self, at: Instant) -> None:
        """Something as old as that has come: whoever looks next must find it."""
        for floor in (*self.floors.values(), *self.inbox_floors.values()):
            floor.lower(at)


@dataclass(slots=True)
class Transaction:
    """One connection in the hands of one deed. `news` says who may wait for this, and `since` how old it is, if it is
    not of just now."""

    execute: Execute
    blocks: PostgresBlocks
    known: Known
    news: News = News.NONE
    since: Instant | None = None
    made_lanes: dict[Lane, int] | None = None
    """Lanes that it may have made: until it is committed, nobody else's runs may be on them."""
    shared_lanes: dict[Lane, int] = field(init=False)
    """Those that all transactions share: the same from its beginning to its end, whoever learns them anew meanwhile."""

    def __post_init__(self) -> None:
        self.shared_lanes = self.known.lanes

    @property
    def namespace_id(self) -> int:
        return self.known.namespace_id

    @property
    def lanes(self) -> Mapping[Lane, int]:
        """The numbers of lanes, as far as they are known here."""
        return {**self.shared_lanes, **self.made_lanes} if self.made_lanes else self.shared_lanes

    def committed(self) -> None:
        """What it has made is there for everybody."""
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
        """The time that counts: the caller's, else the database's."""
        if given is not None:
            return given
        row = await self.one("read_clock", {})
        assert row is not None
        return int(row[0])
