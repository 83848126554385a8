"""Environment: workflows in memory, with stubs for steps and a clock that a test moves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import msgspec

from holdfast.client import AsyncClient, AsyncRun, Explanation
from holdfast.codec import Codec
from holdfast.define import Resource, StepInfo, Workflow
from holdfast.errors import DefinitionError, HoldfastError, RunEnded, RunNotFound, blocking_error
from holdfast.model import Duration, RowWrite, RunRecord, microseconds
from holdfast.store import SqliteStore, family_of, last_of
from holdfast.worker import Plan, checked_middleware, checked_resources, known_workflows, lanes_of, open_resources

from .blocking import BlockingEnvironment, RunnerPortal
from .clock import ManualClock
from .driver import Driver, Stuck
from .guards import guarded
from .stubs import Call, StepOrName, Stubs

_URL = "sqlite:///:memory:"
_FORGET_OLDER_EVENTS = """
CREATE TEMP TRIGGER IF NOT EXISTS forget_older_events AFTER INSERT ON starts WHEN NEW.chain_id IS NULL
BEGIN
    INSERT INTO taken_events (namespace_id, chain_id, event)
    SELECT runs.namespace_id, runs.id, events.id
    FROM runs
    JOIN events ON events.namespace_id = runs.namespace_id AND events.published_at = runs.created_at
    WHERE runs.number = NEW.number;
END"""
"""A run gets no event that was published before it was created. A real clock tells the two apart. A test's clock stands
still between them, so here the run counts as having taken those events."""
_TOLD = 5
"""Runs that the error of a wait without end explains: the run that is waited for, and its children."""


class MemoryStore(SqliteStore):
    """A database in memory that uses no threads and a test's clock."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(":memory:", _URL, "default", inline=True, clock=clock.now)
        self.clock = clock.now

    async def open(self) -> None:
        await super().open()
        await self._submit(lambda tx: tx.connection.execute(_FORGET_OLDER_EVENTS))

    async def write_rows(self, writes: Sequence[RowWrite]) -> list[bool]:
        # No timer for a blocked run: it is tried again in case its code has changed, which can't happen here.
        return await super().write_rows([_without_retry(write) for write in writes])


class EnvironmentClient(AsyncClient):
    """A client whose handles wait by moving the environment's time."""

    def __init__(
        self,
        store: MemoryStore,
        codec: Codec,
        until_ended: Callable[[str, int | None], Any],
        until_news: Callable[[asyncio.Event], Any],
    ) -> None:
        # Not from settings: those of the directory where the tests run must not affect them.
        super().__init__(store, codec=codec, max_payload=codec.max_payload)
        self._connection.until_ended = until_ended
        self._connection.until_news = until_news


class Environment:
    """Runs workflows in memory, for tests: steps are stubbed, and time moves only when the test waits.

        async with Environment(workflows=[checkout], stubs={charge: "receipt-1", mail: SmtpDown}) as env:
            run = await env.client.start(checkout, order)
            await env.until_waiting(run)             # everything that can happen now has happened
            await env.skip("1d")                     # a day passes, and everything that is due on the way happens
            assert await run.result() == ...         # time jumps from timer to timer until the run has ended
            assert [call.args for call in env.calls(charge)] == [("4711", 100)]

    `with Environment(...) as env:` is the same for tests that are plain functions: a `Client`, and no `await`.

    A stub replaces a step whatever its options, and each item of a map. It is the step's result, an exception to raise
    (an instance or a class), or a function that is called with the step's arguments; `takes(duration, stub)` lets it
    take time. An inline step (`holdfast.call`) is stubbed by its name, and so is a machine's state, with `Next(...)`,
    `Done(...)` or a function of its context. Steps without a stub are executed. Arguments and results pass through the
    codec as in production, and errors are retried as the step's policy says, without jitter.

    Time stands still except inside `skip`, `run.result()` and `run.wait()`, whose timeouts go by the same clock. While
    a test waits in one of these and nothing is under way, time jumps to the next timer. Without a timer the wait would
    never end, and an error says what the run waits for. If the run is blocked, or a child that it waits for, the error
    that blocks it is raised.

    The body is replayed after every turn, which finds what a body kept in memory would hide: one that asks for
    something else when it runs again is blocked with JournalDiverged. I/O in a body is refused with IOInBody.

    `resources` are opened as in a worker, or a mapping gives each a replacement. `start` is the clock's first time, an
    aware datetime, by default now.
    """

    def __init__(
        self,
        workflows: Workflow[Any, Any] | Iterable[Workflow[Any, Any]],
        *,
        stubs: Mapping[Any, Any] | None = None,
        resources: Sequence[Resource[Any]] | Mapping[Resource[Any], Any] = (),
        middleware: Sequence[Callable[[StepInfo], Any]] = (),
        start: datetime | None = None,
        codec: Codec | None = None,
    ) -> None:
        self.clock = ManualClock(start)
        self._store = self._make_store()
        self._codec = codec or Codec()
        self._plan = self._make_plan(
            known_workflows(workflows, giver="Environment"), checked_middleware(middleware, giver="Environment")
        )
        checked = checked_resources(resources, giver="Environment")
        self._resources = resources if isinstance(resources, Mapping) else checked
        self._stubs = Stubs(stubs or {}, self.clock, lambda duration: self._entered.sleep(duration))
        self._client = EnvironmentClient(self._store, self._codec, self._until_ended, self._until_news)
        self._driver: Driver | None = None
        self._stack = contextlib.AsyncExitStack()
        self._portal: RunnerPortal | None = None

    @property
    def client(self) -> AsyncClient:
        """Starts, watches and manages this environment's runs."""
        self._entered  # noqa: B018  # raises outside the environment
        return self._client

    @property
    def now(self) -> datetime:
        """The time by the environment's clock."""
        return self.clock.moment

    def calls(self, step: StepOrName) -> list[Call]:
        """Every execution of a step so far, in order: stubbed or not, and failed attempts, too."""
        return self._stubs.calls(step)

    async def skip(self, duration: Duration) -> None:
        """Let time pass. Everything that is due on the way happens, each at its own time."""
        await self._entered.skip(microseconds(duration, what="skip"))

    async def until_waiting(self, run: AsyncRun[Any]) -> Explanation:
        """Let everything happen that can happen without time passing, and return what the run waits for.

        Of a run that continued as new, this is about the chain's last run. Raises RunEnded if the run has ended, and
        the error that blocks it if it is blocked.
        """
        await self._entered.rest()
        record = await last_of(self._store, (await run.refresh()).id)
        assert record is not None
        _raise_if_blocked(record, self._codec)
        if record.status.is_final:
            raise RunEnded(f"{run!r} does not wait: it has ended; ask for its result")
        return await self._client.explain(record.id)

    async def __aenter__(self) -> Self:
        if self._driver is not None:
            raise DefinitionError("this environment was entered before; make another one")
        async with contextlib.AsyncExitStack() as stack:
            await self._store.open()
            stack.push_async_callback(self._store.close)
            opened = await open_resources(stack, self._resources)
            stack.push_async_callback(self._client.close)
            stack.enter_context(guarded())
            self._driver = self._make_driver(opened)
            await self._driver.enter()
            stack.push_async_callback(self._driver.leave)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def __enter__(self) -> BlockingEnvironment:
        self._portal = RunnerPortal()
        try:
            self._portal.call(self.__aenter__())
        except BaseException:
            self._portal.end()
            raise
        return BlockingEnvironment(self, self._portal)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._portal is not None
        try:
            self._portal.call(self.__aexit__(kind, error, trace))
        finally:
            self._portal.end()

    def _make_store(self) -> MemoryStore:
        return MemoryStore(self.clock)

    def _make_driver(self, resources: Mapping[object, Any]) -> Driver:
        plan = replace(self._plan, replay_each_turn=True, codec=self._codec.for_worker())
        return Driver(plan, self.clock, resources, self._stubs.perform)

    def _make_plan(
        self, known: dict[tuple[str, str], Workflow[Any, Any]], middleware: tuple[Callable[[StepInfo], Any], ...]
    ) -> Plan:
        return Plan(
            store=self._store,
            codec=self._codec,
            clock=self.clock,
            workflows=known,
            lanes=lanes_of(known.values()),
            concurrency=1_000,
            threads=32,
            lease=microseconds("30s"),
            grace=0,
            stall=microseconds("5m"),
            blocked_after=microseconds("1s"),
            keep_parked=10_000,
            middleware=middleware,
        )

    @property
    def _entered(self) -> Driver:
        if self._driver is None:
            raise DefinitionError("this environment is not open; use it inside `async with Environment(...) as env:`")
        return self._driver

    async def _until_ended(self, run_id: str, limit: int | None) -> RunRecord:
        """Move time until the run has ended, for `run.result()` and `run.wait()`."""

        async def ended() -> RunRecord | None:
            record = await self._store.get_run(run_id)
            if record is None:
                raise RunNotFound(f"there is no run {run_id!r} in this environment")
            _raise_if_blocked(record, self._codec)
            return record if record.status.is_final else None

        try:
            return await self._entered.until(ended, limit)
        except Stuck as stuck:
            raise HoldfastError(f"this wait would never end: {stuck}, and {await self._why(run_id)}") from None

    async def _why(self, run_id: str) -> str:
        """What the run waits for, and its children, too. Raises the error that blocks one of them."""
        told: list[str] = []
        async for record in family_of(self._store, run_id):
            _raise_if_blocked(record, self._codec)
            if len(told) < _TOLD:
                told.append(str(await self._client.explain(record.id)))
        return "\n".join(told)

    async def _until_news(self, news: asyncio.Event) -> None:
        """Wait for news while a stream or a status is followed. This never moves time."""
        driver = self._entered
        await driver.rest()
        if news.is_set():
            return
        # Only another task can move time now, and a plain test has none, except for its steps.
        if self._portal is not None and not driver.is_waited_for:
            raise HoldfastError(
                "there would never be more to follow: nothing is under way, and time stands still meanwhile; let it "
                "pass before (env.skip), or follow the run when it has ended"
            )
        with driver.resting(), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await news.wait()


def _without_retry(write: RowWrite) -> RowWrite:
    if write.change.blocked is None:
        return write
    return msgspec.structs.replace(write, change=msgspec.structs.replace(write.change, due_at=None))


def _raise_if_blocked(record: RunRecord, codec: Codec) -> None:
    if record.blocked is None:
        return
    error = blocking_error(codec.opened_text(record.blocked))
    error.add_note(f"run {record.id} of {record.workflow!r} is blocked and intact")
    raise error
