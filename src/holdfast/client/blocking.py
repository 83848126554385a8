"""Client and Run: the same for blocking code. Every method is one line over AsyncClient and AsyncRun, through a portal.

A test compares both signature by signature.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from holdfast.codec import Codec
from holdfast.define import StartOptions, Workflow
from holdfast.errors import DefinitionError
from holdfast.model import (
    NOT_GIVEN,
    Duration,
    NotGiven,
    OnConflict,
    Page,
    RunFilter,
    RunRecord,
    RunStatus,
    WorkerRecord,
    WorkflowCount,
)
from holdfast.store import Store

from .clients import AsyncClient
from .explain import Explanation
from .journals import Journal
from .listings import PAGE, AsyncRuns
from .portal import Portal, inline
from .runs import AsyncRun, Cancellation

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class Run(Generic[R_co]):
    """One run. `status` and `record` are what was last seen; `refresh` looks again."""

    __slots__ = ("_client", "_run")

    def __init__(self, client: Client, run: AsyncRun[R_co]) -> None:
        # The client stays alive as long as one of its handles does.
        self._client = client
        self._run = run

    @property
    def id(self) -> str:
        return self._run.id

    @property
    def created(self) -> bool | None:
        """Whether the start that gave this handle created the run; None if the handle did not come from a start."""
        return self._run.created

    @property
    def workflow(self) -> str:
        """The workflow's name."""
        return self._run.workflow

    @property
    def key(self) -> str | None:
        """The key that the run was started with."""
        return self._run.key

    @property
    def status(self) -> RunStatus:
        """As last seen."""
        return self._run.status

    @property
    def record(self) -> RunRecord | None:
        """Everything the store knew about the run when it was last read; None if only its start is known."""
        return self._run.record

    def refresh(self) -> Self:
        """As AsyncRun.refresh."""
        self._client._portal.call(self._run.refresh())
        return self

    def wait(self, timeout: Duration | None = None) -> RunStatus:
        """As AsyncRun.wait. Ctrl-C interrupts it and leaves the run alone."""
        return self._client._portal.call(self._run.wait(timeout))

    def result(self, timeout: Duration | None = None) -> R_co:
        """As AsyncRun.result. Ctrl-C interrupts it and leaves the run alone."""
        return self._client._portal.call(self._run.result(timeout))

    def cancel(self, *, reason: str | None = None, force: bool = False) -> Cancellation:
        """As AsyncRun.cancel."""
        return self._client._portal.call(self._run.cancel(reason=reason, force=force))

    def __repr__(self) -> str:
        return repr(self._run)


class Runs:
    """The runs that a filter lets through: `for run in client.runs(...)`, or one page at a time."""

    def __init__(self, client: Client, runs: AsyncRuns) -> None:
        self._client = client
        self._runs = runs

    def page(self, *, cursor: str | None = None, limit: int = PAGE) -> Page[Run[Any]]:
        """One page; `page.next` is the cursor of the one that follows."""
        page = self._client._portal.call(self._runs.page(cursor=cursor, limit=limit))
        return Page(tuple(Run(self._client, run) for run in page.items), page.next)

    def __iter__(self) -> Iterator[Run[Any]]:
        cursor: str | None = None
        while True:
            page = self.page(cursor=cursor)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return


class Client:
    """Starts, watches and manages the runs of one database, for blocking code.

        client = holdfast.Client("sqlite:///orders.db")
        run = client.start(checkout.options(key="order-42"), order)
        receipt = run.result(timeout="30s")

    As AsyncClient in everything else: making one does no I/O, the first call opens the store. It may be used from many
    threads. It is closed by `close`, by `with`, and at the latest at the end of the program.
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
    ) -> None:
        self._client = AsyncClient(
            url, namespace=namespace, codec=codec, schema=schema, max_payload=max_payload, migrate=migrate
        )
        self._portal = Portal()
        at_exit = partial(_close, weakref.ref(self))
        atexit.register(at_exit)
        weakref.finalize(self, _abandon, self._portal, self._client, at_exit).atexit = False

    @property
    def store(self) -> Store:
        """The store, opened or not."""
        return self._client.store

    @property
    def codec(self) -> Codec:
        return self._client.codec

    @property
    def namespace(self) -> str:
        return self._client.namespace

    @property
    def url(self) -> str:
        """The address of the database, without a password."""
        return self._client.url

    def close(self) -> None:
        """End all waits and close the store, unless it was given open. Repeating it changes nothing."""
        self._portal.close(self._client.close)

    def __enter__(self) -> Self:
        self._portal.call(self._client.__aenter__())
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @overload
    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]: ...
    @overload
    def start(self, workflow: Workflow[..., R], /, *args: Any, key: str, **kwargs: Any) -> Run[R]: ...
    @overload
    def start(self, workflow: Workflow[..., R], /, *args: Any, id: str, **kwargs: Any) -> Run[R]: ...
    @overload
    def start(self, workflow: Workflow[..., R], /, *args: Any, delay: Duration | datetime, **kwargs: Any) -> Run[R]: ...
    @overload
    def start(
        self, workflow: Workflow[..., R], /, *args: Any, deadline: Duration | datetime, **kwargs: Any
    ) -> Run[R]: ...
    @overload
    def start(self, workflow: Workflow[..., R], /, *args: Any, priority: int, **kwargs: Any) -> Run[R]: ...
    @overload
    def start(self, workflow: Workflow[..., R], /, *args: Any, tags: Mapping[str, str], **kwargs: Any) -> Run[R]: ...
    @overload
    def start(self, workflow: Workflow[..., R], /, *args: Any, queue: str, **kwargs: Any) -> Run[R]: ...
    @overload
    def start(self, workflow: Workflow[..., R], /, *args: Any, retention: Duration | None, **kwargs: Any) -> Run[R]: ...
    @overload
    def start(self, workflow: Workflow[..., R], /, *args: Any, connection: Any, **kwargs: Any) -> Run[R]: ...
    @overload
    def start(self, workflow: str, /, *args: Any, **kwargs: Any) -> Run[Any]: ...
    def start(  # type: ignore[misc]  # as in AsyncClient
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
    ) -> Run[Any]:
        """As AsyncClient.start."""
        direct = StartOptions(
            id=id, key=key, on_conflict=on_conflict, delay=delay, deadline=deadline, priority=priority, tags=tags,
            queue=queue, retention=retention,
        )  # fmt: skip  # one line a group reads better here
        work = self._client._start(workflow, (args, kwargs), direct, connection=connection)
        return Run(self, self._inside(connection, work))

    @overload
    def start_many(
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
    ) -> list[Run[R]]: ...
    @overload
    def start_many(
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
    ) -> list[Run[Any]]: ...
    def start_many(
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
    ) -> list[Run[Any]]:
        """As AsyncClient.start_many."""
        work = self._client.start_many(
            workflow,
            items,
            delay=delay,
            deadline=deadline,
            priority=priority,
            tags=tags,
            queue=queue,
            retention=retention,
            connection=connection,
            **others,
        )
        return [Run(self, run) for run in self._inside(connection, work)]

    def retry(self, run_id: str) -> Run[Any]:
        """As AsyncClient.retry."""
        return Run(self, self._portal.call(self._client.retry(run_id)))

    @overload
    def get_run(self, run_id: str, /) -> Run[Any]: ...
    @overload
    def get_run(self, workflow: Workflow[..., R], /, *, key: str) -> Run[R]: ...
    @overload
    def get_run(self, workflow: Workflow[..., R], /, *, id: str) -> Run[R]: ...
    @overload
    def get_run(self, workflow: str, /, *, key: str) -> Run[Any]: ...
    def get_run(
        self, workflow: Workflow[..., Any] | str, /, *, key: str | None = None, id: str | None = None
    ) -> Run[Any]:
        """As AsyncClient.get_run."""
        return Run(self, self._portal.call(self._client._get_run(workflow, key, id)))

    def runs(self, where: RunFilter | None = None) -> Runs:
        """As AsyncClient.runs."""
        return Runs(self, self._client.runs(where))

    def journal(self, run_id: str) -> Journal:
        """As AsyncClient.journal."""
        return self._portal.call(self._client.journal(run_id))

    def explain(self, run_id: str) -> Explanation:
        """As AsyncClient.explain."""
        return self._portal.call(self._client.explain(run_id))

    def cancel(self, run_id: str, *, reason: str | None = None, force: bool = False) -> Cancellation:
        """As AsyncClient.cancel."""
        return self._portal.call(self._client.cancel(run_id, reason=reason, force=force))

    def workers(self) -> list[WorkerRecord]:
        """As AsyncClient.workers."""
        return self._portal.call(self._client.workers())

    def workflows(self) -> list[WorkflowCount]:
        """As AsyncClient.workflows."""
        return self._portal.call(self._client.workflows())

    def _inside(self, connection: Any, work: Coroutine[Any, Any, T]) -> T:
        """Do it through the portal; or, in a transaction of the caller's, right here: connections mind their thread."""
        if connection is None:
            return self._portal.call(work)
        try:
            guest = self._client._connection.guest(connection)
            if guest.is_async:
                raise DefinitionError(f"connection={connection!r} has to be awaited; use AsyncClient with it")
            if guest.needs_open:
                self._portal.call(self._client._connection.opened())
        except BaseException:
            work.close()
            raise
        return inline(work)

    def __repr__(self) -> str:
        return f"<Client {self.url}>"


def _close(client: weakref.ref[Client]) -> None:
    """The program ends."""
    if (left := client()) is not None:
        left.close()


def _abandon(portal: Portal, client: AsyncClient, at_exit: Callable[[], None]) -> None:
    """A client was collected: on whichever thread, at whichever moment, so nothing is waited for."""
    atexit.unregister(at_exit)
    portal.close(client.close, wait=False)
