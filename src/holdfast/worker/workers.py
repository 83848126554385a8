"""Worker: the process that claims runs and takes their turns."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from operator import methodcaller
from types import TracebackType
from typing import Any, Protocol, Self, cast

from holdfast.codec import Codec
from holdfast.define import HouseLogger, Resource, StepInfo, Workflow
from holdfast.errors import DefinitionError, MisplacedCall
from holdfast.model import SECOND, Duration, check_id, microseconds
from holdfast.observe import Observer, Observers
from holdfast.settings import Settings, resolve
from holdfast.store import Store, store_for

from .clock import Clock, SystemClock
from .driving import Driven, drive
from .gate import Gate
from .given import (
    checked_count,
    checked_middleware,
    checked_resources,
    checked_stall,
    known_workflows,
    lanes_of,
    observers_given,
    open_resources,
)
from .interrupts import Interrupts, listening
from .patience import patiently
from .plan import Plan
from .session import Session
from .upkeep import WEEK
from .watched import new_session

_log = HouseLogger("holdfast.worker")
_DRIVE_GRACE = 3 * SECOND
_AHEAD = 50_000
_WORTH_IT = range(10, 201)
"""The concurrency with which a worker claims ahead. Whoever asks for less may want order; with more, some runs always
have something to compute while a claim is under way."""


class StoreHolder(Protocol):
    """What a worker takes over from a client."""

    @property
    def store(self) -> Store: ...

    @property
    def codec(self) -> Codec: ...


class Worker:
    """Claims runs of the workflows it knows and takes their turns, until it is told to stop.

        worker = Worker("sqlite:///orders.db", workflows=[checkout])
        await worker.run()                 # until SIGTERM or Ctrl-C
        async with worker: ...             # beside other code

    `url` may also be an open store, or a client, whose store, namespace and codec are then used. Without it the
    settings name the store, and give most of the numbers. The worker serves its workflows on `queues`, or else each on
    its own queue and on "default". Other runs wait for a worker that knows them. `concurrency` (100) bounds the runs
    that advance or have a step in flight, and `threads` (32) the `def` steps that execute at once. Waiting runs cost
    memory only. Of those that wait long, at most `keep_parked` bodies stay in memory.

    `resources` are opened when the worker begins and closed when it ends, last first. Each function in `middleware`
    gets the step of an attempt and returns a context manager, in which the attempt executes. `observers` are told what
    happens; if none are given, here or to the client, the settings `metrics` and `tracing` choose them
    (`holdfast.observe`). Runs that this worker ends are kept for `max_retention` at most, whatever they ask for, and
    events for `event_retention`, a week by default.

    To stop in good order, a worker claims nothing more, begins no step, lets steps in flight end within `grace` (20
    seconds), and hands its runs back. No step that has ended executes again. If a worker dies, others take its runs
    over: on the same host at once, otherwise when its `lease` (30 seconds) ends. They replay the journals, and only
    steps that were in flight execute again.

    While the database is away a worker waits. Once its lease has lapsed it begins and commits nothing, and if another
    worker has taken over by then it drops its runs and registers anew. `run` waits for a server that is not there yet;
    `async with` raises. A body or an `async def` step that blocks the loop is reported after `blocked_after`. After
    `stall` the worker lets its lease end, so that others go on.
    """

    def __init__(
        self,
        url: str | StoreHolder | Store | None = None,
        *,
        workflows: Iterable[Workflow[Any, Any]],
        concurrency: int | None = None,
        queues: Sequence[str] | None = None,
        lease: Duration | None = None,
        resources: Sequence[Resource[Any]] = (),
        middleware: Sequence[Callable[[StepInfo], Any]] = (),
        observers: Sequence[Observer] | None = None,
        threads: int | None = None,
        grace: Duration | None = None,
        stall: Duration = "5m",
        blocked_after: Duration = "1s",
        keep_parked: int = 100_000,
        max_retention: Duration | None = None,
        event_retention: Duration | None = None,
        namespace: str | None = None,
        codec: Codec | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._owns_store = url is None or isinstance(url, str)
        settings = resolve(
            url=url if isinstance(url, str) else None,
            namespace=namespace,
            queues=queues,
            concurrency=concurrency,
            threads=threads,
            lease=lease,
            grace=grace,
            max_retention=max_retention,
            event_retention=event_retention,
        )
        if max_retention is not None and not self._owns_store:
            raise DefinitionError(
                "Worker(max_retention=) is for a worker that opens its own store; give it to the client: "
                "Client(max_retention=...)"
            )
        if codec is not None and not isinstance(codec, Codec):
            raise DefinitionError(f"Worker(codec={codec!r}): expected a holdfast.Codec(...)")
        store, codec = _store_of(url, settings, codec)
        if namespace is not None and namespace != store.namespace:
            raise DefinitionError(
                f"Worker(namespace={namespace!r}): the client or store that was given has the namespace "
                f"{store.namespace!r}; give one that has the other, or a url"
            )
        known = known_workflows(workflows, giver="Worker")
        self._resources = checked_resources(resources, giver="Worker")
        concurrency = settings.concurrency or 100
        self._plan = Plan(
            store=store,
            codec=codec,
            clock=clock or SystemClock(),
            workflows=known,
            lanes=lanes_of(known.values(), settings.queues),
            concurrency=concurrency,
            threads=settings.threads or 32,
            lease=30 * SECOND if settings.lease is None else settings.lease,
            grace=20 * SECOND if settings.grace is None else settings.grace,
            stall=checked_stall(stall),
            blocked_after=microseconds(blocked_after, what="Worker(blocked_after=)"),
            keep_parked=checked_count(keep_parked, what="Worker(keep_parked=)"),
            middleware=checked_middleware(middleware, giver="Worker"),
            ahead=_AHEAD if store.is_remote and concurrency in _WORTH_IT else 0,
            observers=observers_given(url, settings, observers),
            event_retention=WEEK if settings.event_retention is None else settings.event_retention,
        )
        self.is_patient = False
        """Whether `async with` waits for a server that is not there yet, as `run` does."""
        self._stopping = asyncio.Event()
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = asyncio.Event()
        self._gate = Gate()
        """Guards the store: drives may each have a loop of their own, and none may open it while another closes it."""
        self._users = 0
        self._is_started = False

    @property
    def id(self) -> str | None:
        """This worker's id while it runs; a new one after a lost lease."""
        return None if self._session is None else self._session.worker_id

    @property
    def observers(self) -> Observers | None:
        """The observers that are told what it does."""
        return self._plan.observers

    async def run(self) -> None:
        """Work until SIGTERM, SIGINT or `stop()`. A second signal stops without grace.

        Signals reach every worker that runs on this loop, if it is the main thread's; elsewhere call `stop()`. A
        handler of the application's own is put back at the end.
        """
        self._refuse_twice()
        with listening(Interrupts(self._told_to_stop, self._told_to_leave, _log)):
            await self._work(is_patient=True)

    async def drive(self, run_id: str | None = None, budget: Duration = "50s") -> Driven:
        """Take turns until the run waits, ends or the budget is spent; with None, of whatever is due.

            record = await worker.drive(run_id, budget="25s")
            return {"done": record.done}

        For serverless functions and cron jobs: there is no worker before or after it. The record's `reason` says why it
        stopped: "ended", "waiting" or "budget"; `due_at` says when to call again. A step in flight when the budget is
        spent gets a few seconds to end, else it executes again with the next drive. Safe when called twice at once.
        Raises RunNotFound, UnknownWorkflow for a run that this worker does not serve, DefinitionError for no run's id.
        """
        if run_id is not None:
            check_id(run_id)
        seconds = microseconds(budget, what="drive(budget=)") / SECOND
        async with self._open_store(), contextlib.AsyncExitStack() as stack:
            opened = await open_resources(stack, self._resources)
            self._starts()
            plan = replace(self._plan, grace=min(self._plan.grace, _DRIVE_GRACE))
            session = new_session(plan, opened, lambda: None)
            await session.register()
            return await drive(session, plan, run_id, seconds)

    def stop(self) -> None:
        """Ask it to stop in good order; `run` returns when it has stopped. From here on no step begins. From any
        thread."""
        self._tell(methodcaller("begin_no_more"))

    def leave(self) -> None:
        """Stop at once, without grace and without writing anything: steps in flight execute again elsewhere."""
        self._tell(methodcaller("leave"))

    def _tell(self, session: Callable[[Session], None]) -> None:
        loop = self._loop
        if loop is None or loop is asyncio._get_running_loop():
            self._stopping.set()
            if self._session is not None:
                session(self._session)
        else:
            with contextlib.suppress(RuntimeError):  # it has stopped, and its loop is closed
                loop.call_soon_threadsafe(lambda: self._tell(session) if self._loop is loop else None)

    async def wait(self) -> None:
        """Inside `async with`: wait until it has stopped, whoever told it to. An error that ended it is raised."""
        if self._task is not None:
            # Shielded: a caller that is cancelled does not cancel the worker.
            await asyncio.shield(self._task)

    async def __aenter__(self) -> Self:
        self._refuse_twice()
        self._task = asyncio.get_running_loop().create_task(self._work(is_patient=self.is_patient))
        ready = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait([self._task, ready], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # A caller that is cancelled here never gets to __aexit__: nothing may be left running.
            await self.__aexit__(None, None, None)
            raise
        finally:
            ready.cancel()
        if self._task.done():
            await self._task
        self._task.add_done_callback(_say)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is None:
            return
        if not self._task.done():
            # Only if it has not ended: otherwise the request would stop it as soon as it is entered again.
            self.stop()
        await self._task

    def _refuse_twice(self) -> None:
        # The task may have been made and not begun, so `_loop` alone does not tell.
        if self._loop is not None or (self._task is not None and not self._task.done()):
            raise MisplacedCall("this worker is at work already, and one stop would be for both; make another Worker")

    def _told_to_stop(self) -> None:
        if self._stopping.is_set():
            self._told_to_leave()
            return
        _log.info("stopping: no more claims, steps in flight may end")
        self.stop()

    def _told_to_leave(self) -> None:
        _log.warning("a second signal: leaving without grace")
        self.leave()

    def _starts(self) -> None:
        """Only once: exceptions from modules that are loaded from here on come back as StepFailed.

        Another process that replays the same run may not have loaded those modules.
        """
        if not self._is_started:
            self._is_started = True
            self._plan = replace(self._plan, codec=self._plan.codec.for_worker())

    async def _work(self, *, is_patient: bool) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            async with self._open_store(is_patient=is_patient) as is_open, contextlib.AsyncExitStack() as stack:
                if not is_open:
                    return
                opened = await open_resources(stack, self._resources)
                self._starts()
                while not self._stopping.is_set():
                    await self._serve(opened)
        finally:
            self._session = self._loop = None
            # New events, since these belong to this loop and the worker may be entered again on another.
            self._ready, self._stopping = asyncio.Event(), asyncio.Event()

    @contextlib.asynccontextmanager
    async def _open_store(self, *, is_patient: bool = False) -> AsyncIterator[bool]:
        """Keep the store open as long as anybody here needs it: a drive that ends must not close it under another.

        With `is_patient` a server that is away is waited for; this yields False if the worker is told to stop before it
        comes.
        """
        store = self._plan.store
        observers = self._plan.observers
        async with self._gate:
            if observers is not None and not self._users:
                # First, so that a port that is taken is found out before anything else is opened.
                observers.open()
            try:
                # Waiting for a file that can't be opened would be in vain.
                if is_patient and store.is_remote:
                    is_open = await patiently(store.open, self._stopping, "the worker begins when it is back")
                else:
                    await store.open()
                    is_open = True
            except BaseException:
                if observers is not None and not self._users:
                    observers.close()
                raise
            self._users += 1
        try:
            yield is_open
        finally:
            async with self._gate:
                self._users -= 1
                if observers is not None and not self._users:
                    observers.close()
                if self._owns_store and not self._users:
                    await store.close()

    async def _serve(self, resources: dict[object, Any]) -> None:
        session = await self._registered(resources)
        if session is None:
            return
        self._session = session
        session.start()
        self._ready.set()
        stopping = asyncio.ensure_future(self._stopping.wait())
        ended = asyncio.ensure_future(session.ended.wait())
        try:
            await asyncio.wait([stopping, ended, *session.tasks], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if self._stopping.is_set():
                # The worker was told to stop in good order, and its caller was cancelled at the same time.
                await session.stop(grace=0)
            raise
        finally:
            ended.cancel()
            stopping.cancel()
            await session.stop()
        await session.clear()
        for task in session.tasks:
            if task.done() and not task.cancelled():
                # An error that keeps a worker from finding work is raised to its owner.
                task.result()

    async def _registered(self, resources: dict[object, Any]) -> Session | None:
        """A session that is registered; None if the worker was told to stop before the store could be reached."""
        session: Session | None = None

        async def register() -> None:
            nonlocal session
            session = new_session(self._plan, resources, self.stop)
            await session.register()

        return session if await patiently(register, self._stopping, "the worker registers when it is back") else None


def _say(task: asyncio.Task[None]) -> None:
    """Log the error that ended a worker: the code beside it may wait for a run, and not learn of it for long."""
    if not task.cancelled() and (error := task.exception()) is not None:
        said = "\n".join([str(error), *getattr(error, "__notes__", ())])
        _log.error("the worker has stopped and works on no run any more: %s: %s", type(error).__name__, said)


def _store_of(url: object, settings: Settings, codec: Codec | None) -> tuple[Store, Codec]:
    own = (codec or Codec()).limited(None, settings.max_payload)
    if url is None or isinstance(url, str):
        return store_for(settings), own
    if hasattr(url, "commit_turns"):
        return cast(Store, url), own
    if hasattr(url, "store") and hasattr(url, "codec"):
        holder = cast(StoreHolder, url)
        return holder.store, holder.codec if codec is None else own
    # Its type alone: what is shown of an address of another type may have a password in it.
    raise DefinitionError(
        f"Worker(url=) is of the type {type(url).__name__}: expected the address of a database as text, such as "
        "str(url), a client or an open store"
    )
