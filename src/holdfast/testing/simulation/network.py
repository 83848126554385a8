"""The store as one process sees it: requests and answers are delayed, lost or sent twice.

A request travels apart from its sender: it may arrive although its sender has died, and its answer may find nobody.
Everything that the store does happens in one order, at one instant each.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from holdfast.errors import StoreAway
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
    Unread,
    WorkerRecord,
    WorkflowCount,
    WorkflowVersion,
)
from holdfast.store import Answer, Guest, Lender, News, SqliteStore

from .faults import Fate, Faults
from .life import FaultyLife
from .loans import FaultyLender
from .loop import VirtualLoop

T = TypeVar("T")


class Sender(Protocol):
    """The sender of requests: a worker's process, or the clients of the world."""

    name: str
    is_mortal: bool
    is_cut_off: bool

    @property
    def is_alive(self) -> bool: ...

    def die(self, why: str) -> None: ...


class Watch(Protocol):
    """Is told what the store does."""

    def note(self, said: str) -> None: ...

    def told(self, sender: Sender, method: str, asked: Any, answer: Any) -> None:
        """The store has done it, and nobody has heard of it yet."""

    def heard(self, sender: Sender, method: str, asked: Any, answer: asyncio.Future[Any]) -> None:
        """The sender has got the answer, or an error in its place."""

    def arrives(self, method: str, asked: Any) -> None:
        """The store is about to do it."""

    def is_outlived(self, method: str, asked: Any) -> bool:
        """Whether the request would begin runs that have come and gone since it was sent."""

    def seeded(self, run: NewRun) -> NewRun:
        """The run with a seed that follows from the world's."""

    def has_read(self, run_id: str, rows: Sequence[JournalRow]) -> None:
        """The sender has read a journal."""


class FaultyStore(FaultyLife):
    """The store as one process sees it: the contract, with faults in between. The rest of it is in life.py."""

    def __init__(
        self,
        inner: SqliteStore,
        loop: VirtualLoop,
        faults: Faults,
        watch: Watch,
        sender: Sender,
        clock: Callable[[], Instant],
        *,
        is_exclusive: bool = True,
    ) -> None:
        self.url = inner.url
        self.namespace = inner.namespace
        self.is_remote = True
        self.clock = clock
        """The store's time, for a client's timeouts, too."""
        self._inner = inner
        self._is_exclusive = is_exclusive
        self._loop = loop
        self._faults = faults
        self._watch = watch
        self._sender = sender

    async def _ask(self, method: str, call: Callable[[], Awaitable[T]], asked: Any = None) -> T:
        return await self._send(method, call, asked)

    def _send(self, method: str, call: Callable[[], Awaitable[T]], asked: Any = None) -> asyncio.Future[T]:
        """Send a request. A dead sender sends nothing, and waits for ever."""
        loop = self._loop
        answer: asyncio.Future[T] = loop.create_future()
        if not self._sender.is_alive:
            return answer
        fate = self._faults.draw(method, is_mortal=self._sender.is_mortal)
        if fate.what == "dies before":
            self._sender.die(f"before {method}")
            return answer
        self._faults.settled_at = max(
            self._faults.settled_at, loop.microseconds + round((fate.there + fate.back) * 1_000_000)
        )
        answer.add_done_callback(lambda _: self._watch.heard(self._sender, method, asked, answer))
        # The request travels in a neutral context: the death of its sender does not stop it.
        loop.call_later(fate.there, self._arrive, fate, method, call, asked, answer, context=loop.neutral.copy())
        return answer

    def _arrive(
        self,
        fate: Fate,
        method: str,
        call: Callable[[], Awaitable[T]],
        asked: Any,
        answer: asyncio.Future[T],
    ) -> None:
        loop = self._loop
        is_away = fate.what == "away" or self._sender.is_cut_off
        if is_away or (self._faults.is_away and self._faults.is_on):
            self._watch.note(f"{self._sender.name} {method}: the store is away")
            loop.call_later(fate.back, _fail, answer, method, context=loop.neutral.copy())
            return
        if fate.what == "late":
            self._watch.note(f"{self._sender.name} {method}: given up, and still on its way")
            _fail(answer, method)
            nobody: asyncio.Future[T] = loop.create_future()
            nobody.add_done_callback(lambda _: nobody.exception())
            again = Fate("overdue", 0.0, 0.0)
            loop.call_later(fate.back, self._arrive, again, method, call, asked, nobody, context=loop.neutral.copy())
            return
        if self._watch.is_outlived(method, asked):
            # Here runs are kept for seconds. In reality they are kept for days, and no request travels for so long.
            self._watch.note(f"{self._sender.name} {method}: never arrives")
            loop.call_later(fate.back, _fail, answer, method, context=loop.neutral.copy())
            return
        self._watch.arrives(method, asked)
        try:
            found = done(loop, call)
        except Exception as error:
            loop.call_later(fate.back, _refuse, answer, error, context=loop.neutral.copy())
            return
        self._watch.told(self._sender, method, asked, found)
        if fate.what == "twice":
            self._watch.note(f"{self._sender.name} {method}: sent twice")
            found = done(loop, call)
            self._watch.told(self._sender, method, asked, found)
        if fate.what == "dies after":
            self._sender.die(f"after {method}")
        elif fate.what == "lost":
            self._watch.note(f"{self._sender.name} {method}: its answer is lost")
            loop.call_later(fate.back, _fail, answer, method, context=loop.neutral.copy())
        else:
            loop.call_later(fate.back, _give, answer, found, context=loop.neutral.copy())

    @property
    def is_sound(self) -> bool:
        """Whether nothing goes wrong any more, and everything that did has arrived."""
        is_settled = self._loop.microseconds >= self._faults.settled_at
        return is_settled and not self._faults.is_on and not self._sender.is_cut_off

    async def open(self) -> None:
        """Does nothing, since the world has opened the store."""

    async def close(self) -> None:
        """Does nothing, since the world closes the store."""

    def guest(self, connection: Any) -> Guest:
        return self._inner.guest(connection)

    def lender(self, lease: int) -> Lender:
        return FaultyLender(self._inner, self._send, is_exclusive=self._is_exclusive)

    def subscribe(self, changed: Callable[[], None], to: News = News.ANY) -> Callable[[], None]:
        # The store calls this within another process's commit, but the callback belongs to the subscriber's context.
        context = contextvars.copy_context()

        def wake() -> None:
            self._loop.call_later(self._faults.wake_up(), changed, context=context)

        return self._inner.subscribe(wake, to)

    async def read_clock(self) -> Instant:
        # Without faults: it changes nothing, so any fault here could as well hit the next request.
        return self.clock()

    async def start_runs(self, runs: Sequence[NewRun], *, now: Instant | None = None) -> list[StartedRun]:
        seeded = [self._watch.seeded(run) for run in runs]
        started = await self._ask("start_runs", lambda: self._inner.start_runs(seeded, now=now), seeded)
        # The sender knows the run by the id that it gave.
        own = {one.id: run.id for one, run in zip(seeded, runs, strict=True)}
        return [msgspec.structs.replace(one, id=own.get(one.id, one.id)) for one in started]

    async def get_run(self, run_id: str) -> RunRecord | None:
        return await self._ask("get_run", lambda: self._inner.get_run(run_id))

    async def find_run(self, workflow: str, key: str) -> RunRecord | None:
        return await self._ask("find_run", lambda: self._inner.find_run(workflow, key))

    async def find_last(self, run_id: str) -> RunRecord | None:
        return await self._ask("find_last", lambda: self._inner.find_last(run_id))

    async def list_runs(
        self,
        where: RunFilter,
        *,
        cursor: str | None = None,
        limit: int = 100,
        accept: Callable[[RunRecord], bool] | None = None,
    ) -> Page[RunRecord]:
        return await self._ask(
            "list_runs", lambda: self._inner.list_runs(where, cursor=cursor, limit=limit, accept=accept)
        )

    async def read_ended(self, run_ids: Sequence[str]) -> list[RunRecord]:
        return await self._ask("read_ended", lambda: self._inner.read_ended(run_ids))

    async def read_gone(self, run_ids: Sequence[str]) -> list[str]:
        return await self._ask("read_gone", lambda: self._inner.read_gone(run_ids))

    async def read_journal(self, run_id: str) -> list[JournalRow]:
        rows = await self._ask("read_journal", lambda: self._inner.read_journal(run_id))
        self._watch.has_read(run_id, rows)
        return rows

    async def cancel_run(
        self, run_id: str, *, reason: str | None = None, force: bool = False, now: Instant | None = None
    ) -> RunRecord | None:
        return await self._ask(
            "cancel_run", lambda: self._inner.cancel_run(run_id, reason=reason, force=force, now=now), (run_id, force)
        )

    async def find_cancel(self, run_id: str) -> Message | None:
        return await self._ask("find_cancel", lambda: self._inner.find_cancel(run_id))

    async def count_unread(self, run_id: str) -> list[Unread]:
        return await self._ask("count_unread", lambda: self._inner.count_unread(run_id))

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
        # Copied, for it may change while the request is on its way.
        held = dict(cached or {})
        return await self._ask(
            "claim_runs",
            lambda: self._inner.claim_runs(
                worker_id, lanes, limit, run_id=run_id, cached=held, unbegun=unbegun, suspects=suspects, now=now
            ),
            worker_id,
        )

    def commit_turns(self, turns: Sequence[Turn], *, now: Instant | None = None) -> Awaitable[Sequence[Answer]]:
        return self._send("commit_turns", lambda: self._inner.commit_turns(turns, now=now), turns)

    def write_rows(self, writes: Sequence[RowWrite]) -> Awaitable[Sequence[Answer]]:
        return self._send("write_rows", lambda: self._inner.write_rows(writes), writes)

    async def read_inbox(self, worker_id: str, *, known: Sequence[int] = ()) -> list[Message]:
        return await self._ask("read_inbox", lambda: self._inner.read_inbox(worker_id, known=known))

    async def next_due(
        self, lanes: Sequence[Lane], *, suspects: bool = True, now: Instant | None = None
    ) -> Instant | None:
        return await self._ask("next_due", lambda: self._inner.next_due(lanes, suspects=suspects, now=now))

    async def register_worker(
        self,
        worker_id: str,
        lanes: Sequence[Lane],
        lease: int,
        *,
        workflows: Sequence[Registration] = (),
        now: Instant | None = None,
    ) -> Instant:
        return await self._ask(
            "register_worker",
            lambda: self._inner.register_worker(worker_id, lanes, lease, workflows=workflows, now=now),
            worker_id,
        )

    def renew_lease(self, worker_id: str, lease: int, *, now: Instant | None = None) -> Instant | None:
        raise NotImplementedError("a simulated worker renews by `renew`, since it has no thread that could block")

    async def renew(self, worker_id: str, lease: int) -> Instant | None:
        """`renew_lease` as a request like the others."""

        async def ask() -> Instant | None:
            return self._inner.renew_lease(worker_id, lease)

        return await self._ask("renew_lease", ask, worker_id)

    async def reap_workers(self, worker_id: str, *, now: Instant | None = None) -> list[str]:
        return await self._ask("reap_workers", lambda: self._inner.reap_workers(worker_id, now=now), worker_id)

    async def release_strays(self, worker_id: str, held: Sequence[str], *, now: Instant | None = None) -> list[str]:
        return await self._ask(
            "release_strays", lambda: self._inner.release_strays(worker_id, held, now=now), worker_id
        )

    async def remove_worker(self, worker_id: str) -> None:
        return await self._ask("remove_worker", lambda: self._inner.remove_worker(worker_id), worker_id)

    async def list_workers(self) -> list[WorkerRecord]:
        return await self._ask("list_workers", lambda: self._inner.list_workers())

    async def list_versions(self, workflow: str | None = None, *, now: Instant | None = None) -> list[WorkflowVersion]:
        return await self._ask("list_versions", lambda: self._inner.list_versions(workflow, now=now))

    async def list_workflows(self) -> list[WorkflowCount]:
        return await self._ask("list_workflows", lambda: self._inner.list_workflows())


def done(loop: VirtualLoop, call: Callable[[], Awaitable[T]]) -> T:
    """The answer of an inline store, which never gives way. Called in the world's own context, so that its news belong
    to nobody."""

    async def ask() -> T:
        return await call()

    work = ask()
    try:
        loop.neutral.copy().run(work.send, None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]  # a coroutine's value is Any to its caller
    work.close()
    raise RuntimeError("the inline store gave way; a simulation needs one that answers at once")


def _give(answer: asyncio.Future[T], found: T) -> None:
    if not answer.done():
        answer.set_result(found)


def _refuse(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _fail(answer: asyncio.Future[Any], method: str) -> None:
    if not answer.done():
        answer.set_exception(StoreAway(f"{method}: simulated"))
