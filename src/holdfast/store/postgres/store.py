"""The Postgres store: each method of the contract is handed to a link on the store's own loop, and done by the noun
files.

Turns have connections of their own (commits.py), and so have renewals: neither waits for anything else. Everything else
shares a small pool, in which nobody waits long for a lock. The methods that send to runs are in messaging.py; those
about matching events, values, streams and managing in life.py.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import filterfalse
from typing import Any, TypeVar

from holdfast.errors import StoreAway, StoreClosed
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
from holdfast.store.contract import Answer
from holdfast.store.loans import Lender
from holdfast.store.locks import ProcessLocks
from holdfast.store.stats import Stats
from holdfast.store.subscribers import News

from . import claims, ends, runs, workers, workflows
from .commits import Commits
from .connections import COMMAND_TIMEOUT, parse_target
from .guests import Home, PostgresGuest
from .lanes import add_lanes, find_lanes, learn_place
from .life import LifeStore
from .links import PARTING, Link, Pool, run_on_either
from .loans import PostgresLender, find_epoch
from .loops import LoopThread
from .messaging import Deed
from .migrations import migrate
from .starters import Starter
from .statements import blocks_for
from .texts import refuse_unstorable, refuse_unstorable_lanes
from .transactions import Known, Transaction
from .watcher import Watcher

_POOL = 4
_MISSED_EVERY = 3.0
T = TypeVar("T")


class PostgresStore(LifeStore):
    """Runs in one schema of a Postgres database."""

    is_remote = True

    def __init__(
        self,
        url: str,
        shown: str,
        namespace: str,
        schema: str,
        *,
        migrate: bool = True,
        max_retention: int | None = None,
    ) -> None:
        self.url = shown
        self.namespace = namespace
        self.schema = schema
        self.migrate = migrate
        self.max_retention = max_retention
        self.stats = Stats()
        self._target = parse_target(url, shown)
        self._blocks = blocks_for(schema)
        self._known = Known(self.stats, namespace, max_retention)
        self._is_open = False
        self._openers = 0
        self._opening = threading.Lock()
        self._missed_looked_at = -_MISSED_EVERY
        self._thread = LoopThread("holdfast-postgres")
        self._locks = ProcessLocks(_lock_folder(self._target.dsn, schema), namespace, is_temporary=True)
        self._watcher = Watcher(self._target, schema, namespace, self._thread, lambda: self._pool, self._known.lower)

    def __repr__(self) -> str:
        return f"PostgresStore({self.url!r}, namespace={self.namespace!r})"

    async def open(self) -> None:
        if self._is_open:
            return
        link = partial(Link, self._target, self._blocks, self._known, self._watcher.tell)
        pool = Pool(partial(link, is_hasty=True), _POOL)
        # A client and a worker may open it at the same time, each on its own loop: the first to succeed does.
        with self._opening:
            self._thread.start()
            self._openers += 1
        is_first = is_left = False
        try:
            await self._thread.call(partial(pool.run, self._begin))
            with self._opening:
                is_first = not self._is_open
                if is_first:
                    self._use(link, pool)
        except asyncio.CancelledError:
            is_left = True
            raise
        finally:
            if is_left:
                # Not waited for, since the server may not answer for long. If nobody else needs the thread, it is cut
                # off.
                self._thread.post(lambda: self._thread.spawn(pool.close()))
            elif not is_first:
                await self._thread.call(pool.close)
            with self._opening:
                self._openers -= 1
                # Unless somebody else who is opening the store still needs it.
                if not self._openers and not self._is_open:
                    self._thread.stop()

    def _use(self, link: Callable[[], Link], pool: Pool) -> None:
        self._renewals = link()
        self._pool = pool
        tell, tell_from_elsewhere = self._watcher.tell, self._watcher.tell_from_elsewhere
        self._commits = Commits(self._target, self._blocks, self._known, self._thread, pool, tell, tell_from_elsewhere)
        self._starter = Starter(pool)
        self._is_open = True

    async def _begin(self, tx: Transaction) -> None:
        await migrate(tx, self.url, may_change=self.migrate)
        await learn_place(tx)

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            # It is done to its end even if the caller gives up: it lets go of connections and of the locks of workers.
            self._closing = asyncio.ensure_future(self._close())
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            is_answered = await self._commits.close()
            await self._thread.call(partial(self._disconnect, PARTING if is_answered else 0.0))
        finally:
            # Not in an executor, for at the end of a program none would take it; and the thread has nothing left to do.
            self._thread.stop()
            self._locks.release_all()

    async def _disconnect(self, patience: float) -> None:
        """Close all connections. Once the server is known not to answer, they are cut without waiting for it."""
        if not await self._thread.finish(patience):
            patience = 0.0
        await self._watcher.close(min(patience, 1.0))
        links = self._commits.close_apart(patience), self._renewals.close(patience), self._pool.close(patience)
        await asyncio.gather(*links)

    def subscribe(self, changed: Callable[[], None], to: News = News.ANY) -> Callable[[], None]:
        return self._watcher.subscribe(changed, to)

    def guest(self, connection: Any) -> Guest:
        home = Home(
            self.url,
            self.namespace,
            self._watcher.channel,
            self._blocks,
            self._known,
            make_lanes=lambda lanes: self._call(partial(self._make_lanes, lanes)),
            make_lanes_now=lambda lanes: self._thread.wait(partial(self._make_lanes, lanes), COMMAND_TIMEOUT),
        )
        return PostgresGuest(home, connection)

    async def _make_lanes(self, lanes: Sequence[Lane]) -> None:
        # Two transactions: lanes are remembered once they are found, so they must be committed by then.
        await self._pool.run(partial(add_lanes, lanes=lanes), is_one=True)
        await self._pool.run(partial(find_lanes, lanes=lanes), is_one=True)

    def lender(self, lease: int) -> Lender:
        tell = self._watcher.tell_from_elsewhere
        return PostgresLender(self._target, self._blocks, self._known, lease, look=self._find_epoch, tell=tell)

    async def _find_epoch(self, turn: Turn) -> int | None:
        return await self._read(partial(find_epoch, turn=turn))

    async def start_runs(self, runs: Sequence[NewRun], *, now: Instant | None = None) -> list[StartedRun]:
        refuse_unstorable(runs)
        self.stats.writes += 1
        return await self._call(partial(self._starter.start, list(runs), now))

    async def get_run(self, run_id: str) -> RunRecord | None:
        return await self._read(partial(_runs.get_run, run_id=run_id)) if is_text(run_id) else None

    async def find_run(self, workflow: str, key: str) -> RunRecord | None:
        if not (is_text(workflow) and is_text(key)):
            return None
        return await self._read(partial(_runs.find_run, workflow=workflow, key=key))

    async def find_last(self, run_id: str) -> RunRecord | None:
        return await self._read(partial(_runs.find_last, run_id=run_id)) if is_text(run_id) else None

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
        return await self._read(partial(_runs.read_ended, run_ids=list(filter(is_text, run_ids))))

    async def read_gone(self, run_ids: Sequence[str]) -> list[str]:
        texts = list(filter(is_text, run_ids))
        return [*filterfalse(is_text, run_ids), *await self._read(partial(_runs.read_gone, run_ids=texts))]

    async def read_journal(self, run_id: str) -> list[JournalRow]:
        return await self._read(partial(_runs.read_journal, run_id=run_id)) if is_text(run_id) else []

    async def cancel_run(
        self, run_id: str, *, reason: str | None = None, force: bool = False, now: Instant | None = None
    ) -> RunRecord | None:
        if not is_text(run_id):
            return None
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
        if not (run_id is None or is_text(run_id)):
            return []
        deed = partial(
            claims.claim_runs,
            worker_id=worker_id, lanes=lanes, limit=limit, run_id=run_id, cached=cached or {}, unbegun=unbegun,
            suspects=suspects, now=now,
        )  # fmt: skip
        return await self._write(deed)

    def commit_turns(self, turns: Sequence[Turn], *, now: Instant | None = None) -> Awaitable[list[Answer]]:
        self._refuse_closed()
        return self._commits.turns(turns, now)

    def write_rows(self, writes: Sequence[RowWrite]) -> Awaitable[list[Answer]]:
        for write in writes:
            if write.change.status.is_final:
                raise ValueError(f"run {write.run_id}: a row-only write can't end a run; commit a turn")
        self._refuse_closed()
        return self._commits.rows(writes)

    async def read_inbox(self, worker_id: str, *, known: Sequence[int] = ()) -> list[Message]:
        return await self._read(partial(claims.read_inbox, worker_id=worker_id, known=known))

    async def next_due(
        self, lanes: Sequence[Lane], *, suspects: bool = True, now: Instant | None = None
    ) -> Instant | None:
        return await self._read(partial(claims.next_due, lanes=lanes, suspects=suspects, now=now))

    async def release_strays(self, worker_id: str, held: Sequence[str], *, now: Instant | None = None) -> list[str]:
        # Counted before it is sent: if its answer is lost, it must not be mistaken for the next one.
        generation = self._known.generations.get(worker_id)
        if generation is not None:
            generation = self._known.generations[worker_id] = generation + 1
        deed = partial(workers.release_strays, worker_id=worker_id, held=list(held), generation=generation, now=now)
        return await self._write(deed)

    async def register_worker(
        self,
        worker_id: str,
        lanes: Sequence[Lane],
        lease: int,
        *,
        workflows: Sequence[Registration] = (),
        now: Instant | None = None,
    ) -> Instant:
        refuse_unstorable_lanes(worker_id, lanes)
        deed = partial(
            workers.register_worker,
            locks=self._locks, worker_id=worker_id, lanes=lanes, lease=lease, registrations=workflows, now=now,
        )  # fmt: skip
        self._refuse_closed()
        self._commits.expect()
        with self._locks.registering(worker_id):
            return await self._write(deed)

    def renew_lease(self, worker_id: str, lease: int, *, now: Instant | None = None) -> Instant | None:
        self._refuse_closed()
        deed = partial(workers.renew_lease, worker_id=worker_id, lease=lease, now=now)
        try:
            return self._thread.wait(
                partial(run_on_either, self._renewals, self._pool, deed), max(lease / 3_000_000, 1.0)
            )
        except TimeoutError as error:
            raise StoreAway(f"{self.url}: no answer in time. Work goes on when the database answers again") from error

    async def reap_workers(self, worker_id: str, *, now: Instant | None = None) -> list[str]:
        return await self._call(partial(self._reap, worker_id, now))

    async def _reap(self, worker_id: str, now: Instant | None) -> list[str]:
        fleet = await self._pool.run(partial(workers.read_fleet, now=now), is_one=True)
        dead = workers.find_dead(fleet, self._locks, worker_id)
        try:
            await self._wake_missed(now)
            if not dead.lapsed and not dead.strangers:
                return []
            reaped = await self._pool.run(partial(workers.reap_workers, dead=dead, now=now))
        except BaseException:
            for descriptor in dead.gone.values():
                os.close(descriptor)
            raise
        # crash here: a row without a file is reaped when its lease lapses.
        for name, descriptor in dead.gone.items():
            self._locks.drop(name, descriptor)
        return reaped

    async def _wake_missed(self, now: Instant | None) -> None:
        """Look for what two commits hid from each other. That is rare, and other workers look for it, too, so not every
        call does."""
        if now is None and time.monotonic() < self._missed_looked_at + _MISSED_EVERY:
            return
        if not await self._pool.run(partial(workers.wake_missed, now=now), is_one=True):
            self._missed_looked_at = time.monotonic()

    async def remove_worker(self, worker_id: str) -> None:
        try:
            await self._write(partial(workers.remove_worker, worker_id=worker_id))
        finally:
            # Even if the row could not be removed: the worker has stopped, and is reaped when its lease lapses.
            self._locks.release(worker_id)
        await self._commits.home.close_here()

    async def list_workers(self) -> list[WorkerRecord]:
        return await self._read(partial(workers.list_workers, locks=self._locks))

    async def list_versions(self, workflow: str | None = None, *, now: Instant | None = None) -> list[WorkflowVersion]:
        return await self._read(partial(workflows.list_versions, workflow=workflow, now=now))

    async def list_workflows(self) -> list[WorkflowCount]:
        return await self._read(workflows.list_workflows)

    def _refuse_closed(self) -> None:
        if not self._is_open:
            raise StoreClosed(f"the store {self.url} is not open: it was closed, or nobody has opened it yet")

    async def _call(self, deed: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._refuse_closed()
        return await self._thread.call(deed)

    async def _write(self, deed: Deed[T], *, is_one: bool = False) -> T:
        self.stats.writes += 1
        return await self._call(partial(self._pool.run, deed, is_one=is_one))

    async def _read(self, deed: Deed[T]) -> T:
        self.stats.reads += 1
        return await self._call(partial(self._pool.run, deed, is_one=True))


# `runs` is also what the contract calls a parameter.
_runs = runs


def _lock_folder(dsn: str, schema: str) -> str | None:
    """The folder in which the processes of this host and user that use this database keep their locks; None:
    nowhere."""
    name = hashlib.sha256(f"{dsn.rpartition('@')[2]}/{schema}".encode()).hexdigest()[:16]
    user = os.getuid() if hasattr(os, "getuid") else 0
    try:
        return os.path.join(tempfile.gettempdir(), f"holdfast-{user}", name)
    except FileNotFoundError:
        # The host has no place for temporary files, so dead workers are noticed only when their leases end.
        return None
