"""Wake-ups: subscribers hear of their own store's commits at once, and of other processes' commits by LISTEN.

NOTIFY is sent after a commit, by a statement of its own, with a pause of ten milliseconds between two: as part of a
commit it would make all commits of the database wait in line. It is a hint. While nothing can be heard, because a
pooler is in between or the listening connection is down, subscribers are told to look for themselves; with a pooler,
often after a commit of this store, and then more and more seldom.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import asyncpg

from holdfast.errors import StoreError
from holdfast.model import Instant, new_id
from holdfast.store.subscribers import News, Subscribers

from .connections import Target, connect
from .links import Pool
from .loops import LoopThread
from .notifications import notification, understood
from .transactions import Transaction

_NOTIFY_PAUSE = 0.01
_SOONEST = 0.02
_LATEST = 1.0
_GROWTH = 1.5
_UNHEARD = 0.5
"""Seconds between two looks while nothing can be heard."""
_LONGEST_PAUSE = 5.0
"""The longest pause, in seconds, between two tries to listen: a server that refuses us must not be kept busy."""


class Watcher:
    """The subscribers of one store. Except for `subscribe`, `signal` and `tell_from_elsewhere`, everything happens on
    the store's own loop."""

    def __init__(
        self,
        target: Target,
        schema: str,
        namespace: str,
        thread: LoopThread,
        pool: Callable[[], Pool],
        lower: Callable[[Instant], None],
    ) -> None:
        self._target = target
        self._thread = thread
        self._pool = pool
        self._lower = lower
        self.channel = f"holdfast_{zlib.crc32(f'{schema}/{namespace}'.encode()):08x}"
        self._sender = new_id()[-12:]
        self._subscribers = Subscribers(self._first, self._last)
        self.subscribe = self._subscribers.subscribe
        self.signal = self._subscribers.signal
        self._watching: asyncio.Task[None] | None = None
        self._notifying: asyncio.Task[None] | None = None
        self._news = News.NONE
        self._since: Instant | None = None
        self._pause = _SOONEST
        self._has_heard = False

    def tell(self, news: News, since: Instant | None = None) -> None:
        """This store has committed something that others may wait for; `since` is how old it is, if not of just now."""
        self._pause = _SOONEST
        if since is not None:
            self._lower(since)
        self.signal(news)
        self._remember(news, since)
        if self._notifying is None:
            self._notifying = self._thread.spawn(self._notify())

    def tell_from_elsewhere(self, news: News, since: Instant | None = None) -> None:
        """The same as `tell`, from any thread."""
        self._thread.post(partial(self.tell, news, since))

    async def close(self, patience: float = 1.0) -> None:
        """End all wake-ups. Other processes are still told of what was committed last."""
        self._subscribers.clear()
        if self._notifying is not None:
            with contextlib.suppress(TimeoutError):
                # It is cancelled if it takes longer: the store may be away.
                await asyncio.wait_for(self._notifying, patience)
        self._stop()

    async def _notify(self) -> None:
        pause = _NOTIFY_PAUSE
        try:
            while self._news:
                news, self._news = self._news, News.NONE
                since, self._since = self._since, None
                try:
                    await self._pool().run(partial(self._told, news=news, since=since), is_one=True)
                except StoreError:
                    # The store may be away. Those who wait look for themselves now and then, and this is told when it
                    # is back.
                    self._remember(news, since)
                    pause = min(2 * pause, _LATEST)
                else:
                    pause = _NOTIFY_PAUSE
                await asyncio.sleep(pause)
        finally:
            # Also after a close that has waited in vain, for the store may be opened again.
            self._notifying = None

    def _remember(self, news: News, since: Instant | None) -> None:
        self._news |= news
        if since is not None:
            self._since = since if self._since is None else min(self._since, since)

    async def _told(self, tx: Transaction, news: News, since: Instant | None) -> None:
        await tx.one("notify", notification(self.channel, self._sender, news, since))

    def _first(self) -> None:
        self._thread.post(self._start)

    def _last(self) -> None:
        self._thread.post(self._stop)

    def _start(self) -> None:
        if self._watching is None:
            self._watching = self._thread.spawn(self._poll() if self._target.is_pooled else self._listen())

    def _stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def _poll(self) -> None:
        """Tell everybody to look, sooner or later."""
        while True:
            await asyncio.sleep(self._pause)
            self._pause = min(self._pause * _GROWTH, _LATEST)
            self.signal()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        pause = _UNHEARD
        while True:
            self._has_heard = False
            # An InternalClientError is what asyncpg raises if the server ends the connection between two statements.
            with contextlib.suppress(
                StoreError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError
            ):
                connection = await connect(self._target)
                try:
                    await self._hear(connection)
                finally:
                    connection.terminate()
            # The pause grows, too, while a server accepts connections and refuses LISTEN, as a standby does.
            pause = _UNHEARD if self._has_heard else min(2 * pause, _LONGEST_PAUSE)
            again_at = loop.time() + pause
            while loop.time() < again_at:
                await asyncio.sleep(_UNHEARD)
                self.signal()

    async def _hear(self, connection: asyncpg.Connection[Any]) -> None:
        gone = asyncio.Event()

        def heard(_connection: object, _pid: int, _channel: str, said: object) -> None:
            sender, news, since = understood(str(said))
            if sender != self._sender:
                if since is not None:
                    self._lower(since)
                self.signal(news)

        connection.add_termination_listener(lambda _: gone.set())
        await connection.add_listener(self.channel, heard)
        self._has_heard = True
        # Something may have happened while nobody listened.
        self.signal()
        await gone.wait()
