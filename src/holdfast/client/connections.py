"""What a client and its handles share: settings, codec, store and watchers.

Making a `Connection` reads nothing and needs no event loop. The store is opened by the first call that needs it, once,
however many come at the same time. A forked process opens a store of its own and never touches the inherited one.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

from msgspec import structs

from holdfast.codec import Codec
from holdfast.define import Workflow, refuse_in_body
from holdfast.errors import ClientClosed, DefinitionError, HoldfastError, StoreError
from holdfast.model import SECOND, Duration, Instant, NewRun, RunRecord, check_id
from holdfast.observe import Observer, Observers, checked_observers, observers_of
from holdfast.settings import Settings, checked, resolve
from holdfast.store import Guest, Store, check_address, redact_url, store_for

from .ids import not_found
from .watch import Watcher

PARTING = 2.0
"""Seconds that closing waits if the store is just being opened."""
_inherited: list[Store] = []
"""Stores that the parent process had open, kept for ever: collecting one would close the parent's connections here."""


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        # It was deleted, which matters only if a relative path is used.
        return None


class Connection:
    """A store that is opened when it is needed, and the codec for the values in it."""

    def __init__(
        self,
        url: str | Store | None,
        *,
        namespace: str | None,
        codec: Codec | None,
        schema: str | None,
        max_payload: int | None,
        migrate: bool | None,
        max_retention: Duration | None = None,
        observers: Sequence[Observer] | None = None,
    ) -> None:
        if codec is not None and not isinstance(codec, Codec):
            raise DefinitionError(f"codec={codec!r}: expected a holdfast.Codec(...)")
        given: dict[str, Any] = {
            "namespace": namespace,
            "schema": schema,
            "max_payload": max_payload,
            "migrate": migrate,
            "max_retention": max_retention,
        }
        self._given_store: Store | None = None
        if url is None or isinstance(url, str):
            given["url"] = url
        else:
            self._given_store = _checked_store(url, given)
        # Only checked here, and kept as it was given: it is read again when the settings are resolved.
        checked(given, lambda key: f"{key}=")
        self._given = given
        if isinstance(url, str):
            check_address(url, schema)
        self._given_codec = codec
        self.given_observers = None if observers is None else checked_observers(observers, giver="Client")
        self._store: Store | None = None
        self._folder: str | None = None
        self._opening: asyncio.Task[None] | None = None
        self._is_open = False
        self._is_closed = False
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._watchers: dict[asyncio.AbstractEventLoop, Watcher] = {}
        self.started: dict[tuple[str, str], Workflow[..., Any]] = {}
        """Workflows of which this client has started runs, by name and version: they tell the names of arguments."""
        self.until_ended: Callable[[str, int | None], Awaitable[RunRecord]] | None = None
        """Another way to wait for a run's end, set by a test environment, whose clock moves only while somebody
        waits."""
        self.until_news: Callable[[asyncio.Event], Awaitable[None]] | None = None
        """The same for following a run: it returns when the event is set, or after a while."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a client, and what it gives, can't be pickled; make another client in the process that needs it"
        )

    @cached_property
    def settings(self) -> Settings:
        """The settings. They are resolved on first use, so that a client may be made before the environment is set."""
        return resolve(**self._given)

    @cached_property
    def codec(self) -> Codec:
        return (self._given_codec or Codec()).limited(self._given["max_payload"], self.settings.max_payload)

    @cached_property
    def observers(self) -> Observers | None:
        """The observers to tell; None if there are none."""
        found = self.given_observers
        return Observers.of(observers_of(self.settings, is_worker=False) if found is None else found)

    def traced(self, new: NewRun) -> NewRun:
        """The run, in the trace of its caller."""
        trace = self.caller_trace()
        return new if trace is None else structs.replace(new, trace=trace)

    def traced_after(self, new: NewRun, source: RunRecord) -> NewRun:
        """The run, in the trace of the run that it retries or was forked from, and below it."""
        trace = None if self.observers is None else self.observers.trace_of(source)
        return structs.replace(new, trace=trace or source.trace)

    def caller_trace(self) -> str | None:
        """The trace of the caller, to be sent along with a message."""
        return None if self.observers is None else self.observers.caller_trace()

    @property
    def store(self) -> Store:
        """The store, opened or not."""
        if self._given_store is not None:
            return self._given_store
        if self._pid != os.getpid():
            # A worker, which opens the store itself, must not wait for threads that exist only in the parent process.
            self._leave_the_parent()
        with self._lock:
            if self._store is None:
                # Remembered, so that a forked child finds the same file even after it has changed its directory.
                self._folder = self._folder or _folder()
                self._store = store_for(self.settings, folder=self._folder)
            return self._store

    def shown(self) -> str:
        """The address of the database, for a repr: it never raises, and does not fix the settings."""
        if self._given_store is not None:
            return self._given_store.url
        try:
            settings = self.__dict__.get("settings") or resolve(**self._given)
        except HoldfastError as refused:
            return f"without a database: {refused}"
        return redact_url(settings.url)

    def monotonic(self) -> int:
        """Microseconds of a monotonic clock, for timeouts; of the test's clock if there is one."""
        clock: Callable[[], Instant] | None = getattr(self.store, "clock", None)
        return time.monotonic_ns() // 1_000 if clock is None else clock()

    async def opened(self) -> Store:
        """The store, open. Raises StoreAway if it can't be reached; the next call tries again."""
        self._refuse_closed()
        if not self._is_open:
            await self._open()
        return self.store

    def guest(self, connection: Any) -> Guest:
        """The store inside a caller's own transaction. Opens nothing."""
        self._refuse_closed()
        return self.store.guest(connection)

    async def found(self, run_id: str) -> tuple[Store, RunRecord]:
        """The store, open, and a run in it. Raises RunNotFound."""
        check_id(run_id)
        store = await self.opened()
        record = await store.get_run(run_id)
        if record is None:
            raise not_found(run_id, store.namespace)
        return store, record

    async def opened_for(self, connection: Any) -> Store | Guest:
        """The store, open, or inside the transaction of a caller's own connection."""
        if connection is None:
            return await self.opened()
        guest = self.guest(connection)
        if guest.needs_open:
            await self.opened()
        return guest

    async def watcher(self) -> Watcher:
        """The watcher of the running loop."""
        store = await self.opened()
        loop = asyncio.get_running_loop()
        watcher = self._watchers.get(loop)
        if watcher is None:
            # A program may use a new loop for every call: drop the watchers of loops that were closed.
            for past in [one for one in list(self._watchers) if one.is_closed()]:
                self._watchers.pop(past, None)
            watcher = self._watchers[loop] = Watcher(store)
        return watcher

    async def ended(self, run_id: str, limit: int | None) -> RunRecord:
        """The run's record once it has ended. Raises TimeoutError after `limit` microseconds."""
        if self.until_ended is not None:
            return await self.until_ended(run_id, limit)
        async with asyncio.timeout(None if limit is None else limit / SECOND):
            watcher = await self.watcher()
            return await watcher.wait(run_id)

    async def close(self) -> None:
        """End all waits, and close the store if this connection opened it."""
        if self._is_closed:
            return
        self._is_closed = True
        for watcher in list(self._watchers.values()):
            watcher.close(ClientClosed("the client was closed while something waited for a run; the run goes on"))
        opening = self._opening
        if opening is not None and not opening.done() and opening.get_loop() is asyncio.get_running_loop():
            # If this is cancelled, or takes too long, `_open_store` closes what it has opened.
            await asyncio.wait([opening], timeout=PARTING)
        if self._store is not None and self._pid == os.getpid():
            await self._store.close()

    def _refuse_closed(self) -> None:
        refuse_in_body("a client", "use it in a step")
        if self._is_closed:
            raise ClientClosed("this client was closed; make another one, or close it later")
        if self._pid != os.getpid():
            self._leave_the_parent()

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        # An application may cancel all tasks of its loop and go on: a cancelled opening must not be waited for.
        if self._opening is None or self._opening.get_loop() is not loop or self._opening.cancelled():
            self._opening = loop.create_task(self._open_store(), name="holdfast: open the store")
        opening = self._opening
        try:
            # Shielded: one caller may be cancelled while others still need the store.
            await asyncio.shield(opening)
        except Exception:
            if self._opening is opening:
                self._opening = None
            raise
        self._refuse_closed()
        self._is_open = True

    async def _open_store(self) -> None:
        store = self.store
        await store.open()
        if self._is_closed and self._given_store is None:
            # The client was closed meanwhile, maybe on another loop, when nothing was open yet.
            await store.close()

    def _leave_the_parent(self) -> None:
        is_used = self._is_open or self._opening is not None
        if is_used and (self._given_store is not None or ":memory:" in self.settings.url):
            raise StoreError(
                "this client was opened before the process forked, and its store can't be opened again here; "
                "make the client after the fork, from a URL"
            )
        if self._store is not None:
            _inherited.append(self._store)
        self._store = self._opening = None
        self._is_open = False
        self._lock = threading.Lock()
        self._watchers = {}
        self._pid = os.getpid()


class Connected:
    """The part of a client that says what it is connected to."""

    _connection: Connection

    @property
    def store(self) -> Store:
        """The store, opened or not."""
        return self._connection.store

    @property
    def codec(self) -> Codec:
        """The codec that turns values into stored bytes and back."""
        return self._connection.codec

    @property
    def observers(self) -> Sequence[Observer] | None:
        """The observers that the client was given; None: it uses those that the settings name."""
        return self._connection.given_observers

    @property
    def namespace(self) -> str:
        """The namespace whose runs the client sees: it keeps the tenants of one database apart."""
        return self._connection.store.namespace

    @property
    def url(self) -> str:
        """The address of the database, without a password."""
        return self._connection.store.url


def _checked_store(store: object, given: Mapping[str, object]) -> Store:
    if not hasattr(store, "start_runs"):
        # Its type alone: what is shown of an address of another type may have a password in it.
        raise DefinitionError(
            f"url= is of the type {type(store).__name__}: expected the address of a database as text, such as str(url),"
            " or an open store"
        )
    for key in ("namespace", "schema", "migrate", "max_retention"):
        if given[key] is not None and given[key] != getattr(store, key, None):
            raise DefinitionError(
                f"{key}= belongs to the store that was given; open that with it: open_store(url, {key}=...)"
            )
    return store  # type: ignore[return-value]  # a protocol can't be checked whole at run time
