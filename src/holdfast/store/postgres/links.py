"""Links: connections that come back. One is made when it is needed, and thrown away when the server fails.

A pool is a few links, each used for one deed at a time; home links live on the event loops that ask for them. A deed
that failed because of a deadlock, or a lock that was not free in time, is done again from its beginning. A deed whose
answer was lost is not: its caller can find out how it ended. A deed that waits for a lock holds no link of the pool
meanwhile: otherwise a few that wait for one transaction that was left open would keep all others waiting.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeAlias, TypeVar

import asyncpg
from asyncpg.protocol import NO_TIMEOUT

from holdfast.errors import StoreAway, StoreError
from holdfast.model import Instant
from holdfast.store.subscribers import News

from .connections import (
    COMMAND_TIMEOUT,
    HASTE,
    HASTY_TIMEOUT,
    LOCK_TIMEOUT,
    Target,
    begin,
    connect,
    explained,
    is_again,
    is_held_up,
    is_over,
)
from .lanes import learn_again, learn_if_elsewhere
from .statements import PostgresBlocks
from .transactions import Known, Row, Transaction

_TRIES = 8
_PATIENCE = 24.0
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
PARTING = 2.0
"""Seconds that closing waits for the server to answer what is under way."""
PLANS_KEPT = 10.0
LARGEST = 1_000_000_000
"""Bytes. The server hangs up on anybody who sends a gigabyte at once. That is not an outage that could be waited
out."""
_dice = random.SystemRandom()
"""Not the module's own random numbers: the program may have seeded those alike in every process."""
T = TypeVar("T")
Tell: TypeAlias = Callable[[News, Instant | None], None]
"""Called after a commit that others may wait for, with how old the news is if it is not of just now."""


class Link:
    """One connection, used for one deed at a time. `is_hasty`: its deeds hardly wait for locks."""

    def __init__(
        self, target: Target, blocks: PostgresBlocks, known: Known, tell: Tell, *, is_hasty: bool = False
    ) -> None:
        self._target = target
        self._lock_timeout = HASTY_TIMEOUT if is_hasty else LOCK_TIMEOUT
        self._blocks = blocks
        self._known = known
        self._tell = tell
        self._lock = asyncio.Lock()
        self._connection: asyncpg.Connection[Any] | None = None
        self._planned_at = 0.0
        self._drops = 0
        self._prepared: dict[str, Any] = {}
        """Statements of this connection for `fetch`, by text. The driver has such a cache, too, but a slower one."""
        self._asked_at: float | None = None
        """When `fetch` began to wait for the server, if it does."""
        self._watch: asyncio.TimerHandle | None = None
        self._context = Context()  # An empty one: the timer must not keep alive what is in the caller's.

    @property
    def is_busy(self) -> bool:
        return self._lock.locked()

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def open(self) -> None:
        """Make the connection before it is needed. If that fails, the first deed will say why."""
        async with self._lock:
            with suppress(Exception):
                await self._connected()

    async def run(
        self,
        deed: Callable[[Transaction], Awaitable[T]],
        *,
        is_one: bool = False,
        tries: int = _TRIES,
        is_hasty: bool = False,
    ) -> T:
        """Do a deed in a transaction. `is_one`: it is a single statement, which is a transaction by itself.

        `is_hasty`: hardly wait for locks. If the server refuses something, its error is the `__cause__` of what is
        raised.
        """
        async with self._lock:
            for left in range(tries - 1, -1, -1):
                try:
                    return await self._try(deed, is_one and not is_hasty, is_hasty)
                except Exception as error:
                    if not is_again(error):
                        told = explained(error, self._target, was_open=self._known.was_open)
                        if told is error:
                            raise
                        raise told from error
                    if not left:
                        raise StoreAway(
                            f"{self._target.shown}: {error}. Another transaction holds what this one needs: look for"
                            " one that was left open"
                        ) from error
                await asyncio.sleep(_dice.uniform(0.001, 0.02) * (tries - left))
            raise AssertionError("a deed that is tried ends")

    async def fetch(self, text: str, values: Sequence[Any]) -> Sequence[Row] | None:
        """The rows of a statement that is a transaction by itself, by the shortest way there is.

        None: that way is not open, or the statement failed, or its answer was lost: it must be one to be sent again.
        """
        connection, now = self._connection, time.monotonic()
        is_old = now > self._planned_at + PLANS_KEPT
        if connection is None or is_old or self._lock.locked() or connection.is_closed() or self._target.is_pooled:
            return None
        # It is free. `async with` would add two coroutines to every turn that comes alone.
        await self._lock.acquire()
        try:
            self._asked_at = now
            if self._watch is None:
                self._watch = asyncio.get_running_loop().call_later(COMMAND_TIMEOUT, self._look, context=self._context)
            statement = self._prepared.get(text)
            if statement is None:
                statement = self._prepared[text] = await connection.prepare(text)
            rows: Sequence[Row] = await statement.fetch(*values, timeout=NO_TIMEOUT)  # type: ignore[arg-type]
        except GeneratorExit:
            # The loop was closed under this coroutine: the connection can't be closed through it any more.
            self.hang_up()
            raise
        except BaseException as error:
            self._prepared.pop(text, None)
            if is_over(error):
                self.drop()
            if not isinstance(error, Exception):
                raise
            return None
        finally:
            self._asked_at = None
            self._lock.release()
        self._known.stats.statements += 1
        self._known.stats.commits += 1
        return rows

    def _look(self) -> None:
        """Hang up on a server that has not answered for too long. One timer does for all calls of `fetch`."""
        self._watch = None
        if self._asked_at is None:
            return
        left = self._asked_at + COMMAND_TIMEOUT - time.monotonic()
        if left <= 0:
            self.drop()
        else:
            self._watch = asyncio.get_running_loop().call_later(left, self._look, context=self._context)

    async def _try(self, deed: Callable[[Transaction], Awaitable[T]], is_one: bool, is_hasty: bool) -> T:
        connection = await self._connected()
        has_begun = False
        try:
            await self._forget_old_plans(connection)
            tx = Transaction(_executing(connection), self._blocks, self._known)
            if not is_one or self._target.is_pooled:
                await connection.execute(begin(self._target, self._lock_timeout))
                has_begun = True
                if is_hasty:
                    await connection.execute(HASTE)
            answer = await deed(tx)
            if has_begun:
                await connection.execute("COMMIT")
        except BaseException as error:
            if is_over(error):
                self.drop()
            elif has_begun:
                await self._rollback(connection)
            raise
        self._known.stats.commits += 1
        tx.committed()
        if tx.news:
            self._tell(tx.news, tx.since)
        return answer

    async def _connected(self) -> asyncpg.Connection[Any]:
        if self._connection is None or self._connection.is_closed():
            drops = self._drops
            connection = await connect(self._target, self._lock_timeout)
            try:
                await learn_again(Transaction(_executing(connection), self._blocks, self._known))
                if drops != self._drops:
                    raise StoreAway(f"{self._target.shown}: the store was closed while it connected")
            except BaseException:
                connection.terminate()
                raise
            self._connection, self._prepared = connection, {}
            self._planned_at = time.monotonic()
        return self._connection

    async def _forget_old_plans(self, connection: asyncpg.Connection[Any]) -> None:
        """Now and then let go of plans, which may have been made for tables with few rows, and look whether the schema
        was made anew."""
        if not self._target.is_pooled and time.monotonic() > self._planned_at + PLANS_KEPT:
            await connection.execute("DISCARD PLANS")
            await learn_if_elsewhere(Transaction(_executing(connection), self._blocks, self._known))
            self._planned_at = time.monotonic()

    async def _rollback(self, connection: asyncpg.Connection[Any]) -> None:
        try:
            await connection.execute("ROLLBACK")
        except Exception:
            self.drop()

    def drop(self) -> None:
        """Throw the connection away, even one that is just being made. The next deed makes a new one."""
        self._drops += 1
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    def hang_up(self) -> None:
        """Let the server know that nobody is there any more, although the connection's loop does not run."""
        connection, self._connection = self._connection, None
        transport = getattr(connection, "_transport", None)
        found = None if transport is None else transport.get_extra_info("socket")
        if found is not None:
            # uvloop's sockets can't do it; but uvloop closes its connections when it is closed.
            with suppress(OSError, TypeError):
                found.shutdown(socket.SHUT_RDWR)

    async def close(self, patience: float = PARTING) -> bool:
        """Finish the deed under way, then disconnect. False: the server has not answered in time, and the deed was
        broken off; its caller is told that the store is away."""
        try:
            async with asyncio.timeout(patience), self._lock:
                connection, self._connection = self._connection, None
                if connection is not None and not connection.is_closed():
                    with suppress(ConnectionError, asyncpg.PostgresError, asyncpg.InterfaceError):
                        # Whatever goes wrong here, the connection is closed.
                        await connection.close()
        except TimeoutError:
            self.drop()
            return False
        return True


def _executing(connection: asyncpg.Connection[Any]) -> Callable[[str, Sequence[Any]], Awaitable[Sequence[Row]]]:
    async def execute(text: str, values: Sequence[Any]) -> Sequence[Row]:
        try:
            rows: Sequence[Row] = await connection.fetch(text, *values)
        except Exception as error:
            if connection.is_closed() and (size := sum(map(_size, values))) > LARGEST:
                raise StoreError(
                    f"{size:,} bytes in one write are more than Postgres takes; give out less in one turn of a body, or"
                    " start fewer runs at once"
                ) from error
            raise
        return rows

    return execute


def _size(value: object) -> int:
    """The size of a statement's parameter, as far as it may be large."""
    if isinstance(value, list):
        return sum(map(_size, value))
    return len(value) if isinstance(value, (bytes, str)) else 0


class Pool:
    """A few links. A deed gets one that is free, or waits in line.

    Deeds hardly wait for locks here. Those that are tried again share half of the links: however many need the same
    lock, other deeds go on.
    """

    def __init__(self, link: Callable[[], Link], size: int) -> None:
        self._link = link
        self._links: list[Link] = []
        self._free = asyncio.Semaphore(size)
        self._free_again = asyncio.Semaphore(max(size // 2, 1))
        self._is_closed = False

    async def run(
        self, deed: Callable[[Transaction], Awaitable[T]], *, is_one: bool = False, patience: float = _PATIENCE
    ) -> T:
        """Do a deed on a free link. If others hold what it needs, try again for `patience` seconds.

        Between two tries it holds neither a link nor a lock: what it has begun is rolled back.
        """
        try:
            return await self._try(deed, is_one)
        except StoreAway as error:
            if not (patience and is_held_up(error)):
                raise
        loop = asyncio.get_running_loop()
        ends, pause = loop.time() + patience, _FIRST_PAUSE
        while True:
            # After a random pause: several deeds may be in each other's way.
            await asyncio.sleep(_dice.uniform(0.25, 1.0) * pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            async with self._free_again:
                if self._is_closed:
                    # Nobody would close a link that is made now.
                    raise StoreError("the store was closed while this waited for a lock")
                try:
                    return await self._try(deed, is_one)
                except StoreAway as error:
                    if loop.time() > ends or not is_held_up(error):
                        raise

    def spare(self) -> Link | None:
        """A link that is connected and not in use."""
        return next((one for one in self._links if one.is_open and not one.is_busy), None)

    async def _try(self, deed: Callable[[Transaction], Awaitable[T]], is_one: bool) -> T:
        async with self._free:
            link = next((one for one in self._links if not one.is_busy), None)
            if link is None:
                link = self._link()
                self._links.append(link)
            return await link.run(deed, is_one=is_one, tries=1)

    async def close(self, patience: float = PARTING) -> None:
        """Finish what is under way, then disconnect."""
        self._is_closed = True
        links, self._links = self._links, []
        await asyncio.gather(*(link.close(patience) for link in links))


async def run_on_either(link: Link, pool: Pool, deed: Callable[[Transaction], Awaitable[T]]) -> T:
    """Do a single statement over this link, or over one of the pool if this one can't connect."""
    try:
        return await link.run(deed, is_one=True)
    except StoreAway:
        spare = None if link.is_open else pool.spare()
        if spare is None:
            raise
    # The server may accept no new connections, say because it has too many, and still answer those that it has.
    return await spare.run(deed, is_one=True, tries=1)


class HomeLinks:
    """One link for each event loop that asks for it, so that its deeds need not go through another thread and back.

    Only for deeds of one statement: a loop that users' code may block must not hold a transaction open.
    """

    def __init__(self, link: Callable[[], Link]) -> None:
        self._link = link
        self._links: dict[asyncio.AbstractEventLoop, Link] = {}

    def here(self) -> Link:
        """The link of the running loop."""
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None:
            # A program may use a new loop for every call: hang up the links of loops that were closed.
            for past in [one for one in list(self._links) if one.is_closed()]:
                if (left := self._links.pop(past, None)) is not None:
                    left.hang_up()
            link = self._links[loop] = self._link()
        return link

    async def close_here(self) -> bool:
        """Close the link of the running loop: its user leaves, maybe with the loop. If anybody else uses it, the next
        deed connects anew. False: the server has not answered in time.
        """
        link = self._links.get(asyncio.get_running_loop())
        return True if link is None else await link.close()

    async def close(self) -> bool:
        """Finish what is under way on every loop that still runs, and disconnect. Answers as `close_here`."""
        is_answered = await self.close_here()
        links, self._links = self._links, {}
        for loop, link in links.items():
            if loop.is_running():
                closing = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(link.close(), loop))
                # A loop that is blocked, maybe because it waits for this very close, does it when it runs again.
                await asyncio.wait([closing], timeout=PARTING)
            else:
                link.hang_up()
        return is_answered
