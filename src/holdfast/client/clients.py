"""AsyncClient: how an application starts, watches and manages runs. `Client` is only a facade over it.

A client only reads and writes rows. It never talks to a worker: they meet in the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ParamSpec, Self, TypeVar, overload

from holdfast.codec import Codec
from holdfast.define import StartOptions, Workflow, refuse_in_body
from holdfast.errors import DefinitionError, RunNotFound
from holdfast.model import (
    NOT_GIVEN,
    Duration,
    NotGiven,
    OnConflict,
    RunFilter,
    RunRecord,
    WorkerRecord,
    WorkflowCount,
    moment_of,
)
from holdfast.observe import Observer
from holdfast.store import Store

from . import journals
from .archiving import Archiving
from .connections import Connection
from .explain import Explanation
from .explaining import explained
from .journals import Journal
from .listings import AsyncRuns, checked_filter, shown
from .managing import Managing
from .messaging import Messaging
from .runs import AsyncRun
from .starting import Starter
from .starts import Call, call_of, calls_of, check_options, merged, name_of, refuse_others

P = ParamSpec("P")
R = TypeVar("R")
_INSTEAD = (
    "call the workflow, or begin it by its .start(...), and it is a child of this run; one that is not to be a child, "
    "start in a step, with a key or an id so that it is started once"
)


class AsyncClient(Messaging, Managing, Archiving):
    """Starts, watches and manages the runs of one database.

        async with holdfast.AsyncClient("sqlite:///orders.db") as client:
            run = await client.start(checkout.options(key="order-42"), order)
            receipt = await run.result(timeout="30s")

    `url` is the address of a database or an open store; it and the other settings default to `HOLDFAST_*`, the
    nearest holdfast.toml or pyproject.toml, and `sqlite:///holdfast.db`. Making a client does no I/O and needs no
    event loop: the store is opened by the first call. `close` ends all waits and closes the store, unless it was
    given open.

    `namespace` keeps the tenants of one database apart; `schema` is the Postgres schema that the tables are in. `codec`
    turns values into stored bytes and back; a value may take `max_payload` bytes. With `migrate=False`, a database
    without this version's tables raises StoreError instead of being migrated. A run that is ended by this client is
    kept for `max_retention` at most, whatever its own retention is. `observers` are told what happens here, instead of
    those that the settings name.

    When the database can't be reached, calls raise StoreAway and may be made again; waiting goes on until it is back.
    """

    def __init__(
        self,
        url: str | Store | None = None,
        *,
        namespace: str | None = None,
        codec: Codec | None = None,
        schema: str | None = None,
        max_payload: int | None = None,
        migrate: bool | None = None,
        max_retention: Duration | None = None,
        observers: Sequence[Observer] | None = None,
    ) -> None:
        self._connection = Connection(
            url,
            namespace=namespace,
            codec=codec,
            schema=schema,
            max_payload=max_payload,
            migrate=migrate,
            max_retention=max_retention,
            observers=observers,
        )
        self._starter = Starter(self._connection)

    async def close(self) -> None:
        """End all waits and close the store, unless it was given open. Closing a closed client changes nothing."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        try:
            await self._connection.opened()
        except asyncio.CancelledError:
            # There will be no __aexit__, so nothing may be left open.
            await self.close()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    # The first overload is the typed one. The others are for options given directly, and ask for at least one each: an
    # overload without any would take wrong arguments too.
    @overload
    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> AsyncRun[R]: ...
    @overload
    async def start(self, workflow: Workflow[..., R], /, *args: Any, key: str | None, **kwargs: Any) -> AsyncRun[R]: ...
    @overload
    async def start(self, workflow: Workflow[..., R], /, *args: Any, id: str | None, **kwargs: Any) -> AsyncRun[R]: ...
    @overload
    async def start(
        self, workflow: Workflow[..., R], /, *args: Any, delay: Duration | datetime | None, **kwargs: Any
    ) -> AsyncRun[R]: ...
    @overload
    async def start(
        self, workflow: Workflow[..., R], /, *args: Any, deadline: Duration | datetime | None, **kwargs: Any
    ) -> AsyncRun[R]: ...
    @overload
    async def start(
        self, workflow: Workflow[..., R], /, *args: Any, priority: int | None, **kwargs: Any
    ) -> AsyncRun[R]: ...
    @overload
    async def start(
        self, workflow: Workflow[..., R], /, *args: Any, tags: Mapping[str, str] | None, **kwargs: Any
    ) -> AsyncRun[R]: ...
    @overload
    async def start(
        self, workflow: Workflow[..., R], /, *args: Any, queue: str | None, **kwargs: Any
    ) -> AsyncRun[R]: ...
    @overload
    async def start(
        self, workflow: Workflow[..., R], /, *args: Any, retention: Duration | None, **kwargs: Any
    ) -> AsyncRun[R]: ...
    @overload
    async def start(self, workflow: Workflow[..., R], /, *args: Any, connection: Any, **kwargs: Any) -> AsyncRun[R]: ...
    @overload
    async def start(self, workflow: str, /, *args: Any, **kwargs: Any) -> AsyncRun[Any]: ...
    async def start(  # type: ignore[misc]  # a parameter of a workflow that is named as an option is refused at run time
        self,
        workflow: Workflow[..., Any] | str,
        /,
        *args: Any,
        id: str | None = None,
        key: str | None = None,
        on_conflict: OnConflict | None = None,
        delay: Duration | datetime | None = None,
        deadline: Duration | datetime | None = None,
        priority: int | None = None,
        tags: Mapping[str, str] | None = None,
        queue: str | None = None,
        retention: Duration | NotGiven | None = NOT_GIVEN,
        connection: Any = None,
        **kwargs: Any,
    ) -> AsyncRun[Any]:
        """Start a run and return its handle. When this returns, the run is durable.

            run = await client.start(checkout.options(key="order-42", delay="5m"), order)
            run = await client.start(checkout, order, key="order-42")
            run = await client.start("checkout", {"card": "4711"})

        In the first form the type checker checks the arguments. In all forms they are checked here, too, and
        BadArguments is raised before anything is written. To start by name, some worker must have registered the
        workflow (else UnknownWorkflow). The arguments must then fit the parameters that the worker registered and the
        JSON schemas of their types, and what @workflow declares (queue, deadline, retention) holds as usual. What a
        schema can't express is left to the worker: an argument that the body can't read blocks the run.

        `key` makes a start idempotent: there is one run for a workflow and a key for as long as the run is kept. A
        second start with the key returns that run, live or ended, with `run.created` False; arguments are not compared.
        `on_conflict` chooses something else: "raise" raises KeyTaken; "replace" cancels a live run, and the new one
        begins when that has ended; "restart" returns a live run, and takes the key from an ended one; "retry" goes on,
        in a new run, where a failed or cancelled one stopped. `id` names the run itself; a second start with the same
        id returns that run.

        `delay` and `deadline` are durations from now, or aware datetimes. The run begins after its delay. At its
        deadline it is cancelled and fails with DeadlineExceeded, even if it has not begun. `priority` is 0 to 9, larger
        first. `queue` decides which workers take the run: those that serve the queue. `tags` are for finding the run
        again. `retention` is how long the run is kept after its end; None: for ever.

        The run takes the workflow's own version if a live worker has it, or if no worker ever registered any. Otherwise
        it takes the newest version that live workers have or, if no worker is alive, the newest one ever registered;
        the newest is the one registered last. After StoreAway the run may exist or not: start it again with the same
        `key` or `id` to be sure.

        `connection` is a connection of your own to the same database, in a transaction of your own: the run exists
        together with what you wrote, once you commit, and not if you roll back. It may be one of asyncpg, psycopg 3,
        sqlite3, SQLAlchemy 2 or Django. Statements are executed where you call, and the driver's errors are not
        translated.
        """
        direct = StartOptions(
            id=id, key=key, on_conflict=on_conflict, delay=delay, deadline=deadline, priority=priority, tags=tags,
            queue=queue, retention=retention,
        )  # fmt: skip  # one line a group reads better here
        return await self._start(workflow, (args, kwargs), direct, connection=connection)

    @overload
    async def start_many(
        self,
        workflow: Workflow[..., R],
        items: Iterable[Sequence[Any]],
        /,
        *,
        delay: Duration | datetime | None = None,
        deadline: Duration | datetime | None = None,
        priority: int | None = None,
        tags: Mapping[str, str] | None = None,
        queue: str | None = None,
        retention: Duration | NotGiven | None = NOT_GIVEN,
        connection: Any = None,
    ) -> list[AsyncRun[R]]: ...
    @overload
    async def start_many(
        self,
        workflow: str,
        items: Iterable[Sequence[Any]],
        /,
        *,
        delay: Duration | datetime | None = None,
        deadline: Duration | datetime | None = None,
        priority: int | None = None,
        tags: Mapping[str, str] | None = None,
        queue: str | None = None,
        retention: Duration | NotGiven | None = NOT_GIVEN,
        connection: Any = None,
    ) -> list[AsyncRun[Any]]: ...
    async def start_many(
        self,
        workflow: Workflow[..., Any] | str,
        items: Iterable[Sequence[Any]],
        /,
        *,
        delay: Duration | datetime | None = None,
        deadline: Duration | datetime | None = None,
        priority: int | None = None,
        tags: Mapping[str, str] | None = None,
        queue: str | None = None,
        retention: Duration | NotGiven | None = NOT_GIVEN,
        connection: Any = None,
        **others: object,
    ) -> list[AsyncRun[Any]]:
        """Start one run for each tuple of arguments, in one write: all of them, or none if there is an error.

            runs = await client.start_many(checkout, [(order,) for order in orders], tags={"batch": "7"})

        All arguments are checked before anything is written; an error says which item it is about. The options hold for
        all runs, so `id` and `key`, which are about one run, are refused.
        """
        refuse_in_body("client.start_many()", _INSTEAD)
        direct = StartOptions(
            delay=delay, deadline=deadline, priority=priority, tags=tags, queue=queue, retention=retention
        )
        name_of(workflow)
        options = merged(workflow, direct)
        refuse_others(options, others)
        return await self._starter.start_many(workflow, calls_of(items), options, connection=connection)

    async def start_call(
        self,
        workflow: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        version: str | None = None,
        options: StartOptions | None = None,
    ) -> AsyncRun[Any]:
        """Start a run by name, with arguments that came as data. As `start`, but no argument is taken for an option.

            run = await client.start_call("checkout", kwargs={"id": "o-1"}, options=StartOptions(key="order-42"))

        `options` are those of `start`, as a `holdfast.define.StartOptions`. `version` asks for a version that workers
        have registered, live or not, instead of the newest. Raises BadArguments, and UnknownWorkflow if no worker has
        ever registered the workflow, or that version of it.
        """
        refuse_in_body("client.start_call()", _INSTEAD)
        if isinstance(workflow, Workflow):
            raise DefinitionError(f"start_call takes the name of a workflow: {workflow.name!r}")
        if options is not None and not isinstance(options, StartOptions):
            raise DefinitionError(f"start_call: options={options!r}: expected StartOptions(...) of holdfast.define")
        call = call_of(args, kwargs)
        return await self._starter.start(name_of(workflow), call, options or StartOptions(), version=version)

    @overload
    async def get_run(self, run_id: str, /) -> AsyncRun[Any]: ...
    @overload
    async def get_run(self, workflow: Workflow[..., R], /, *, key: str) -> AsyncRun[R]: ...
    @overload
    async def get_run(self, workflow: Workflow[..., R], /, *, id: str) -> AsyncRun[R]: ...
    @overload
    async def get_run(self, workflow: str, /, *, key: str) -> AsyncRun[Any]: ...
    async def get_run(
        self, workflow: Workflow[..., Any] | str, /, *, key: str | None = None, id: str | None = None
    ) -> AsyncRun[Any]:
        """A run by its id, or by its workflow and key: `get_run(run_id)`, `get_run(checkout, key="order-42")`.

        `get_run(checkout, id=run_id)` is the first form with the result's type. Raises RunNotFound.
        """
        return await self._get_run(workflow, key, id)

    def runs(self, where: RunFilter | None = None) -> AsyncRuns:
        """The runs that the filter lets through, newest first: iterate over them, or read a page at a time.

            async for run in client.runs(RunFilter(workflow="checkout", status="failed")):
                print(run.id, run.key)
            page = await client.runs().page(limit=50)           # and then .page(cursor=page.next)

        Nothing is read before that. Raises DefinitionError for anything that is not a filter; reading a page raises
        BadCursor for anything that is not a cursor.
        """
        refuse_in_body("client.runs()", "do it in a step")
        return AsyncRuns(self._connection, checked_filter(where))

    async def journal(self, run_id: str) -> Journal:
        """Everything that a run has taken in and asked for, in order.

            for entry in await client.journal(run.id):
                print(entry.number, entry.kind, entry.key, entry.value)

        Raises RunNotFound, and NotDecodable for a journal that was damaged.
        """
        refuse_in_body("client.journal()", "do it in a step")
        store, record = await self._connection.found(run_id)
        return journals.whole(record, await store.read_journal(run_id), self.codec)

    async def explain(self, run_id: str) -> Explanation:
        """Why a run is not moving. `print(await client.explain(run.id))` says it in words. Raises RunNotFound."""
        refuse_in_body("client.explain()", "do it in a step")
        store, record = await self._connection.found(run_id)
        return await explained(store, record, self.codec)

    async def now(self) -> datetime:
        """The database's time. All times of runs go by it, whatever this host's clock says."""
        refuse_in_body("client.now()", "call holdfast.now()")
        return moment_of(await (await self._connection.opened()).read_clock())

    async def workers(self) -> list[WorkerRecord]:
        """Every worker that is alive, with the workflows that it serves. A worker on this host that has died is missing
        at once, others when their lease has ended. `renewed_at` says when a worker was last heard of."""
        refuse_in_body("client.workers()", "do it in a step")
        return await (await self._connection.opened()).list_workers()

    async def workflows(self) -> list[WorkflowCount]:
        """Every workflow ever registered or started, with its runs counted by status; `holdfast.map` only if it has
        any."""
        refuse_in_body("client.workflows()", "do it in a step")
        return shown(await (await self._connection.opened()).list_workflows())

    async def _start(
        self,
        workflow: Workflow[..., Any] | str,
        call: Call,
        direct: StartOptions,
        *,
        is_served: bool = False,
        connection: Any = None,
    ) -> AsyncRun[Any]:
        refuse_in_body("client.start()", _INSTEAD)
        name_of(workflow)
        check_options(workflow, direct, connection)
        options = merged(workflow, direct)
        return await self._starter.start(workflow, call, options, is_served=is_served, connection=connection)

    async def _get_run(self, workflow: Workflow[..., Any] | str, key: str | None, id: str | None) -> AsyncRun[Any]:
        refuse_in_body("client.get_run()", "do it in a step")
        if isinstance(workflow, str) and key is None and id is None:
            _, record = await self._connection.found(workflow)
            return self._handle(record, record.workflow)
        if (key is None) == (id is None):
            raise DefinitionError("get_run: expected an id, or a workflow with either key= or id=")
        name = name_of(workflow)
        if id is not None:
            _, record = await self._connection.found(id)
            if record.workflow != name:
                raise RunNotFound(
                    f"run {id!r} is one of {record.workflow!r}, not of {name!r}; ask for it by get_run({id!r})"
                )
            return self._handle(record, workflow)
        store = await self._connection.opened()
        found = await store.find_run(name, str(key))
        if found is None:
            raise RunNotFound(
                f"no run of {name!r} has the key {key!r} in the namespace {store.namespace!r}; it was never started, "
                "or deleted after its retention"
            )
        return self._handle(found, workflow)

    def _handle(self, record: RunRecord, workflow: Workflow[..., Any] | str) -> AsyncRun[Any]:
        return AsyncRun(self._connection, record.id, workflow=workflow, status=record.status, record=record)

    def __repr__(self) -> str:
        return f"<AsyncClient {self._connection.shown()}>"
