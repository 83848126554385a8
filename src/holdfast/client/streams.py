"""Following a run: its values, its streams, and its changes of status.

Following is a kind of waiting: it goes on while the store is away, and ends when the client is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar

from holdfast.errors import DefinitionError, StoreAway
from holdfast.model import RunRecord, RunStatus, StreamName, StreamRecord, ValueName, is_text, moment_of
from holdfast.store import News, Store, next_of

from .connections import Connection
from .watch import LONGEST_PAUSE, POLL

T = TypeVar("T")
_N = TypeVar("_N", ValueName, StreamName)
_PAGE = 100
_NAMES = 1_000


@dataclass(frozen=True, slots=True)
class StreamItem(Generic[T]):
    """One item of a stream. With `after=item.offset`, following goes on after it."""

    offset: int
    value: T
    step: str | None
    """The step that sent the item; None: the body sent it."""
    attempt: int
    at: datetime
    reset: bool
    """Another attempt of the step begins here: drop the items of this step with the same `origin_id` before it."""
    origin_id: str | None
    """The run with which the life of the sending run began, as in `run.record.origin_id`. In each run that continues as
    new, a step of the same name is another step. None: the sending run was deleted."""


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """A value that a run has set: `run.value(name)` reads it."""

    name: str
    size: int
    """In bytes, as it is stored."""
    set_at: datetime


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream of a run: `run.stream(name)` follows it."""

    name: str
    last: int
    """The offset of its last item, which is also the number of its items."""


async def list_values(connection: Connection, run_id: str, after: str, limit: int | None) -> list[ValueInfo]:
    """The values that a run has set, by name."""
    store = await connection.opened()
    found = await _paged(partial(store.list_values, run_id), after, limit)
    return [ValueInfo(one.name, one.size, moment_of(one.set_at)) for one in found]


async def list_streams(connection: Connection, run_id: str, after: str, limit: int | None) -> list[StreamInfo]:
    """The streams that a run has sent items to, by name."""
    store = await connection.opened()
    return [StreamInfo(one.name, one.last) for one in await _paged(partial(store.list_streams, run_id), after, limit)]


async def _paged(read: Callable[..., Awaitable[Sequence[_N]]], after: str, limit: int | None) -> list[_N]:
    """All entries after a name, or at most `limit`, read a page at a time."""
    if not isinstance(after, str) or not is_text(after):
        raise DefinitionError(f"after={after!r}: expected the last name of an earlier page")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise DefinitionError(f"limit={limit!r}: expected a whole number above 0, or None for all")
    found: list[_N] = []
    while True:
        size = _NAMES if limit is None else min(limit - len(found), _NAMES)
        page = await read(after=after, limit=size)
        found += page
        if len(page) < size or len(found) == limit:
            return found
        after = page[-1].name


async def read_value(connection: Connection, run_id: str, name: str, default: Any, type: Any) -> Any:
    """The value that the run has set last, or the default."""
    store = await connection.opened()
    found = await store.read_value(run_id, name)
    return default if found is None else connection.codec.value(type).decode(found)


async def follow(
    connection: Connection, run_id: str, name: str, after: int, type: Any
) -> AsyncIterator[StreamItem[Any]]:
    """Items after an offset, and those still to come, until the run, or the last run of its chain, has ended."""
    shape = connection.codec.value(type)
    bell = _Bell(await connection.opened(), News.VALUES | News.ENDS, connection.until_news)
    try:
        while True:
            bell.clear()
            record, items = await _insisting(partial(_look, connection, run_id, name, after))
            for item in items:
                after = item.offset
                yield _item(item, shape.decode(item.payload))
            if not items:
                if record is not None and record.successor_id is not None:
                    # The stream belongs to the chain: follow it to the run that goes on.
                    record = await _insisting(partial(next_of, connection.store, record))
                    if record is None:
                        return
                    run_id = record.id
                    continue
                if record is None or record.status.is_final:
                    return
                await bell.wait()
    finally:
        bell.close()


async def changes(connection: Connection, run_id: str) -> AsyncIterator[RunRecord]:
    """The run's record each time its status has changed, until it, or the last run of its chain, has ended."""
    bell = _Bell(await connection.opened(), News.ANY, connection.until_news)
    status: RunStatus | None = None
    try:
        while True:
            bell.clear()
            record = await _insisting(partial(_look_at_run, connection, run_id))
            if record is None:
                return
            if record.status != status:
                status = record.status
                yield record
            if record.successor_id is not None:
                record = await _insisting(partial(next_of, connection.store, record))
                if record is None:
                    return
                run_id, status = record.id, None
                continue
            if record.status.is_final:
                return
            await bell.wait()
    finally:
        bell.close()


async def _look(
    connection: Connection, run_id: str, name: str, after: int
) -> tuple[RunRecord | None, Sequence[StreamRecord]]:
    # The run first: if it has ended, all that it has sent can be read after that.
    record = await _look_at_run(connection, run_id)
    return record, await connection.store.read_items(run_id, name, after=after, limit=_PAGE)


async def _look_at_run(connection: Connection, run_id: str) -> RunRecord | None:
    # `opened` each time: it raises if the client was closed meanwhile.
    return await (await connection.opened()).get_run(run_id)


async def _insisting(look: Callable[[], Awaitable[T]]) -> T:
    """The result of a look, which is repeated while the store is away."""
    pause = POLL
    while True:
        try:
            return await look()
        except StoreAway:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class _Bell:
    """Rings when the store has news of this kind, and now and then in case news was lost."""

    def __init__(self, store: Store, to: News, until_news: Callable[[asyncio.Event], Awaitable[None]] | None) -> None:
        self._event = asyncio.Event()
        self._until_news = until_news
        self._unsubscribe = store.subscribe(self._event.set, to)

    def clear(self) -> None:
        self._event.clear()

    async def wait(self) -> None:
        if self._until_news is not None:
            await self._until_news(self._event)
            return
        try:
            async with asyncio.timeout(POLL):
                await self._event.wait()
        except TimeoutError:
            pass

    def close(self) -> None:
        self._unsubscribe()


def _item(record: StreamRecord, value: Any) -> StreamItem[Any]:
    at = moment_of(record.at)
    return StreamItem(record.offset, value, record.step, record.attempt, at, record.reset, record.origin_id)
