"""The SQLite store: each method of the contract is handed to the writer or a reader, and done by the noun files.

The methods that send to runs are in messaging.py; those about matching events, values, streams and managing in life.py.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from holdfast.errors import StoreClosed, StoreError
from holdfast.model import (
    ClaimedRun,
    Instant,
    JournalRow,
    Lane,
    Message,
    NewRun,
    Page,
    Registration,
    RowWrite,
    RunFilter,
    RunRecord,
    StartedRun,
    Turn,
    WorkerRecord,
    WorkflowCount,
    WorkflowVersion,
    is_text,
)
from holdfast.store.callers import Guest
from holdfast.store.loans import Lender
from holdfast.store.locks import ProcessLocks
from holdfast.store.stats import Stats
from holdfast.store.subscribers import News

from . import claims, ends, runs, starts, turns, workers, workflows
from .connections import MEMORY, beside, explained
from .guests import Home, SqliteGuest
from .jobs import BatchDeed, BatchJob, Job, ShortCut
from .life import LifeStore
from .links import Link, Role
from .loans import SqliteLender
from .readers import Readers
from .transactions import Clock, Transaction, host_clock
from .uses import Use, heed_forks
from .watcher import Watcher
from .writer import Writer

T = TypeVar("T")


class SqliteStore(LifeStore):
    """Runs in one SQLite file, or in memory, where each store is a database of its own.

    With `inline` there are no threads: each call is done before its coroutine first suspends. Simulations need that
    order. `clock` takes the place of the host's clock wherever `now` is not given.
    """

    is_remote = False

    def __init__(
        self,
        path: str,
        url: str,
        namespace: str,
        *,
        migrate: bool = True,
        max_retention: Instant | None = None,
        inline: bool = False,
        clock: Clock = host_clock,
    ) -> None:
        self.url = url
        self.namespace = namespace
        self.max_retention = max_retention
        self.stats = Stats()
        if path != MEMORY:
            # The process may change its working directory later.
            path = os.path.abspath(path)
        self._path = path
        self._clock = clock
        self._lent: sqlite3.Connection | None = None
        self._resting: asyncio.AbstractEventLoop | None = None
        """The event loop that has committed a turn by itself in its current iteration, if any."""
        self._is_open = False
        self._openers = 0
        self._opening = threading.Lock()
        self._has_readers = path != MEMORY and not inline
        self._is_shared = path == MEMORY
        self._locks = ProcessLocks(None if path == MEMORY else beside(path, ".holdfast"), namespace)
        self._link = partial(Link, path, namespace, self.stats, clock, migrate, max_retention)
        self._watcher = Watcher(beside(path, "-wal") if self._has_readers else None, self._look_for_others)
        self._writer = Writer(self._link(), self.stats, self._watcher.signal, inline=inline)
        self._readers = Readers(partial(self._link, Role.READS), self.stats)
        self._renewal = self._link(Role.WRITES)
        self._renewing = Use(self._renewal)

    def __repr__(self) -> str:
        return f"SqliteStore({self.url!r}, namespace={self.namespace!r})"

    async def open(self) -> None:
        if self._is_open:
            return
        heed_forks()
        with self._opening:
            self._openers += 1
            self._writer.resume()
            self._readers.resume()
        try:
            # The first job connects and migrates. It is a read: to open a store that is up to date takes no write lock,
            # which somebody may hold for long.
            await self._submit(_do_nothing, is_read=True)
            self._is_open = True
        finally:
            with self._opening:
                self._openers -= 1
                # Unless somebody else who is opening the store still needs it.
                if not self._openers and not self._is_open:
                    self._writer.stop()

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            # It is done to its end even if the caller gives up: it lets go of the locks of workers.
            self._closing = asyncio.ensure_future(self._close())
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._watcher.stop()
        try:
            for done in self._readers.stop():
                await asyncio.wrap_future(done)
        finally:
            with self._renewing:
                self._renewal.close()
            # The writer's connection is closed alone and last: then SQLite, in the writer's thread, empties its log
            # into the file, which is the whole database again. Of two that close at once each might leave that to the
            # other.
            try:
                await asyncio.wrap_future(self._writer.stop())
            finally:
                self._locks.release_all()

    def subscribe(self, changed: Callable[[], None], to: News = News.ANY) -> Callable[[], None]:
        return self._watcher.subscribe(changed, to)

    def guest(self, connection: Any) -> Guest:
        home = Home(self._path, self.namespace, self.stats, self._clock, self.max_retention, lambda: self._lent)
        return SqliteGuest(home, connection)

    def lender(self, lease: int) -> Lender:
        return SqliteLender(
            self._path,
            self.namespace,
            self.stats,
            self._clock,
            self.max_retention,
            writer=self._writer if self._is_shared else None,
            lent=self._lend,
            tell=self._watcher.signal,
        )

    def _lend(self, connection: sqlite3.Connection | None) -> None:
        self._lent = connection

    async def start_runs(self, runs: Sequence[NewRun], *, now: Instant | None = None) -> list[StartedRun]:
        for run in runs:
            if not 0 <= run.priority <= 9:
                raise ValueError(f"run {run.id}: priority is {run.priority}; expected 0 to 9")
        return await self._write_batch(starts.start_runs, runs, now)

    async def get_run(self, run_id: str) -> RunRecord | None:
        return await self._read(partial(_runs.get_run, run_id=run_id))

    async def find_run(self, workflow: str, key: str) -> RunRecord | None:
        if not (is_text(workflow) and is_text(key)):
            return None
        return await self._read(partial(_runs.find_run, workflow=workflow, key=key))

    async def find_last(self, run_id: str) -> RunRecord | None:
        return await self._read(partial(_runs.find_last, run_id=run_id))

    async def list_runs(
        self,
        where: RunFilter,
        *,
        cursor: str | None = None,
        limit: int = 100,
        accept: Callable[[RunRecord], bool] | None = None,
    ) -> Page[RunRecord]:
        if limit < 1:
            raise ValueError(f"limit is {limit}; expected 1 or more")
        return await self._read(partial(_runs.list_runs, where=where, cursor=cursor, limit=limit, accept=accept))

    async def read_ended(self, run_ids: Sequence[str]) -> list[RunRecord]:
        return await self._read(partial(_runs.read_ended, run_ids=run_ids))

    async def read_gone(self, run_ids: Sequence[str]) -> list[str]:
        return await self._read(partial(_runs.read_gone, run_ids=run_ids))

    async def read_journal(self, run_id: str) -> list[JournalRow]:
        return await self._read(partial(_runs.read_journal, run_id=run_id))

    async def cancel_run(
        self, run_id: str, *, reason: str | None = None, force: bool = False, now: Instant | None = None
    ) -> RunRecord | None:
        return await self._write(partial(ends.cancel_run, run_id=run_id, reason=reason, force=force, now=now))

    async def claim_runs(
        self,
        worker_id: str,
        lanes: Sequence[Lane],
        limit: int,
        *,
        run_id: str | None = None,
        cached: Mapping[str, int] | None = None,
        unbegun: bool = False,
        suspects: int | None = None,
        now: Instant | None = None,
    ) -> list[ClaimedRun]:
        deed = partial(
            claims.claim_runs,
            worker_id=worker_id, lanes=lanes, limit=limit, run_id=run_id, cached=cached or {}, unbegun=unbegun,
            suspects=suspects, now=now,
        )  # fmt: skip
        return await self._write(deed)

    def commit_turns(self, turns: Sequence[Turn], *, now: Instant | None = None) -> Awaitable[list[bool]]:
        return self._write_batch(_turns.commit_turns, turns, now, _turns.commit_plain)

    def write_rows(self, writes: Sequence[RowWrite]) -> Awaitable[list[bool]]:
        for write in writes:
            if write.change.status.is_final:
                raise ValueError(f"run {write.run_id}: a row-only write can't end a run; commit a turn")
        return self._write_batch(_turns.write_rows, writes, None)

    async def read_inbox(self, worker_id: str, *, known: Sequence[int] = ()) -> list[Message]:
        return await self._read(partial(claims.read_inbox, worker_id=worker_id, known=known))

    async def next_due(
        self, lanes: Sequence[Lane], *, suspects: bool = True, now: Instant | None = None
    ) -> Instant | None:
        return await self._read(partial(claims.next_due, lanes=lanes, suspects=suspects, now=now))

    async def release_strays(self, worker_id: str, held: Sequence[str], *, now: Instant | None = None) -> list[str]:
        return await self._write(partial(workers.release_strays, worker_id=worker_id, held=held, now=now))

    async def register_worker(
        self,
        worker_id: str,
        lanes: Sequence[Lane],
        lease: int,
        *,
        workflows: Sequence[Registration] = (),
        now: Instant | None = None,
    ) -> Instant:
        deed = partial(
            workers.register_worker,
            locks=self._locks, worker_id=worker_id, lanes=lanes, lease=lease, registrations=workflows, now=now,
        )  # fmt: skip
        with self._locks.registering(worker_id):
            return await self._write(deed)

    def renew_lease(self, worker_id: str, lease: int, *, now: Instant | None = None) -> Instant | None:
        self._refuse_closed()
        deed = partial(workers.renew_lease, worker_id=worker_id, lease=lease, now=now)
        if self._is_shared:
            # In memory there is one connection, so the renewal waits in line with all other jobs.
            future: concurrent.futures.Future[Instant | None] = concurrent.futures.Future()
            self._writer.submit(Job(deed, None, future))
            return future.result()
        with self._renewing:
            try:
                tx = self._renewal.use()
                renewed = self._renewal.turnstile.begin(lambda: deed(tx), self._path)
                self._renewal.refuse_if_vanished()
                return renewed
            except Exception as error:
                self._renewal.drop()
                told = explained(error, self._path)
                if told is error:
                    raise
                raise told from error

    async def reap_workers(self, worker_id: str, *, now: Instant | None = None) -> list[str]:
        if not await self._read(partial(workers.seem_dead, locks=self._locks, worker_id=worker_id, now=now)):
            return []
        return await self._write(partial(workers.reap_workers, locks=self._locks, worker_id=worker_id, now=now))

    async def remove_worker(self, worker_id: str) -> None:
        try:
            await self._write(partial(workers.remove_worker, worker_id=worker_id))
        finally:
            # Even if the row could not be removed: the worker has stopped, and is reaped when its lease lapses.
            self._locks.release(worker_id)

    async def list_workers(self) -> list[WorkerRecord]:
        return await self._read(partial(workers.list_workers, locks=self._locks))

    async def list_versions(self, workflow: str | None = None, *, now: Instant | None = None) -> list[WorkflowVersion]:
        return await self._read(partial(workflows.list_versions, workflow=workflow, now=now))

    async def list_workflows(self) -> list[WorkflowCount]:
        return await self._read(workflows.list_workflows)

    def _refuse_closed(self) -> None:
        if not self._is_open:
            raise StoreClosed(f"the store {self.url} is not open: it was closed, or nobody has opened it yet")

    async def _submit(self, deed: Callable[[Transaction], T], *, is_read: bool = False) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._writer.submit(Job(deed, loop, future, is_read=is_read))
        return await future

    async def _write(self, deed: Callable[[Transaction], T]) -> T:
        self._refuse_closed()
        return await self._submit(deed)

    def _write_batch(
        self, deed: BatchDeed, items: Sequence[Any], now: Instant | None, shortcut: ShortCut | None = None
    ) -> asyncio.Future[list[Any]]:
        self._refuse_closed()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()
        found = None
        if shortcut is not None and items and self._resting is not loop:
            found = self._writer.commit_here(shortcut, items)
        if found is not None:
            # Other turns of the same iteration of the loop, of other workers here, are left to the writer, together.
            self._resting = loop
            loop.call_soon(self._rested)
            future.set_result(found)
        elif items:
            # A copy, for the list is the caller's, and is read after this returns.
            self._writer.submit(BatchJob(deed, list(items), now, loop, future, shortcut))
        else:
            future.set_result([])
        return future

    def _rested(self) -> None:
        self._resting = None

    async def _read(self, deed: Callable[[Transaction], T]) -> T:
        self._refuse_closed()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = Job(deed, loop, future, is_read=True)
        if self._has_readers:
            self._readers.submit(job)
        else:
            self._writer.submit(job)
        return await future

    def _look_for_others(self) -> None:
        """Have the writer's connection asked whether anybody else has committed. The watcher's thread calls this."""
        with contextlib.suppress(StoreError):
            self._writer.submit(Job(self._tell_if_overtaken, None, concurrent.futures.Future(), is_read=True))

    def _tell_if_overtaken(self, tx: Transaction) -> None:
        if tx.is_overtaken():
            self._watcher.signal()


# `runs` and `turns` are also what the contract calls its parameters.
_runs, _turns = runs, turns


def _do_nothing(tx: Transaction) -> None:
    pass
