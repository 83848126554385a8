"""Client: AsyncClient for blocking code. Each method is one line over its async twin, through a portal.

A test compares both signature by signature.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar, Unpack, cast, overload

from holdfast.codec import Codec
from holdfast.define import StartOptions, Workflow
from holdfast.errors import DefinitionError
from holdfast.model import NOT_GIVEN, Duration, NotGiven, OnConflict, RunFilter, WorkerRecord, WorkflowCount
from holdfast.observe import Observer
from holdfast.store import Store

from .archives import Imported
from .archiving import Pruned
from .clients import AsyncClient
from .explain import Explanation
from .forking import Edits
from .handles import Run, Runs
from .journals import Journal
from .portal import Portal, inline
from .runs import Cancellation

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Client:
    """Starts, watches and manages the runs of one database, for blocking code.

        client = holdfast.Client("sqlite:///orders.db")
        run = client.start(checkout.options(key="order-42"), order)
        receipt = run.result(timeout="30s")

    As AsyncClient in everything else: making one does no I/O, and the first call opens the store. It may be used by
    many threads. It is closed by `close`, at the end of a `with` block, and at the latest at the end of the program.
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
        self._client = AsyncClient(
            url,
            namespace=namespace,
            codec=codec,
            schema=schema,
            max_payload=max_payload,
            migrate=migrate,
            max_retention=max_retention,
            observers=observers,
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
        """The codec that turns values into stored bytes and back."""
        return self._client.codec

    @property
    def observers(self) -> Sequence[Observer] | None:
        """The observers that the client was given; None: it uses those that the settings name."""
        return self._client.observers

    @property
    def namespace(self) -> str:
        """The namespace whose runs the client sees: it keeps the tenants of one database apart."""
        return self._client.namespace

    @property
    def url(self) -> str:
        """The address of the database, without a password."""
        return self._client.url

    def close(self) -> None:
        """End all waits and close the store, unless it was given open. Closing a closed client changes nothing."""
        self._portal.close(self._client.close)

    def __enter__(self) -> Self:
        self._portal.call(self._client.__aenter__())
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @overload
    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]: ...
    @overload
    def start(self, workflow: Workflow[..., R], /, *args: Any, key: str | None, **kwargs: Any) -> Run[R]: ...
    @overload
    def start(self, workflow: Workflow[..., R], /, *args: Any, id: str | None, **kwargs: Any) -> Run[R]: ...
    @overload
    def start(
        self, workflow: Workflow[..., R], /, *args: Any, delay: Duration | datetime | None, **kwargs: Any
    ) -> Run[R]: ...
    @overload
    def start(
        self, workflow: Workflow[..., R], /, *args: Any, deadline: Duration | datetime | None, **kwargs: Any
    ) -> Run[R]: ...
    @overload
    def start(self, workflow: Workflow[..., R], /, *args: Any, priority: int | None, **kwargs: Any) -> Run[R]: ...
    @overload
    def start(
        self, workflow: Workflow[..., R], /, *args: Any, tags: Mapping[str, str] | None, **kwargs: Any
    ) -> Run[R]: ...
    @overload
    def start(self, workflow: Workflow[..., R], /, *args: Any, queue: str | None, **kwargs: Any) -> Run[R]: ...
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

    @overload
    def retry(self, run_id: str, *, id: str | None = None) -> Run[Any]: ...
    @overload
    def retry(self, run_id: RunFilter, *, id: None = None) -> int: ...
    def retry(self, run_id: str | RunFilter, *, id: str | None = None) -> Run[Any] | int:
        """As AsyncClient.retry."""
        if not isinstance(run_id, RunFilter):
            return Run(self, self._portal.call(self._client.retry(run_id, id=id)))
        # The async client refuses an id= beside a filter, and says why.
        return self._portal.call(self._client.retry(run_id, id=cast("None", id)))

    def start_call(
        self,
        workflow: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        version: str | None = None,
        options: StartOptions | None = None,
    ) -> Run[Any]:
        """As AsyncClient.start_call."""
        work = self._client.start_call(workflow, args, kwargs, version=version, options=options)
        return Run(self, self._portal.call(work))

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

    def count(self, where: RunFilter) -> int:
        """As AsyncClient.count."""
        return self._portal.call(self._client.count(where))

    def pause(self, which: str | RunFilter) -> int:
        """As AsyncClient.pause."""
        return self._portal.call(self._client.pause(which))

    def resume(self, which: str | RunFilter) -> int:
        """As AsyncClient.resume."""
        return self._portal.call(self._client.resume(which))

    @overload
    def fork(self, run_id: str, **edits: Unpack[Edits]) -> Run[Any]: ...
    @overload
    def fork(self, run_id: RunFilter, **edits: Unpack[Edits]) -> int: ...
    def fork(
        self,
        run_id: str | RunFilter,
        *,
        at: str | None = None,
        input: Sequence[Any] | NotGiven = NOT_GIVEN,
        result: Any = NOT_GIVEN,
        workflow: Workflow[..., Any] | None = None,
    ) -> Run[Any] | int:
        """As AsyncClient.fork."""
        if isinstance(run_id, RunFilter):
            return self._portal.call(self._client.fork(run_id, at=at, input=input, result=result, workflow=workflow))
        forked = self._client.fork(run_id, at=at, input=input, result=result, workflow=workflow)
        return Run(self, self._portal.call(forked))

    def delete(self, which: str | RunFilter) -> int:
        """As AsyncClient.delete."""
        return self._portal.call(self._client.delete(which))

    def prune(
        self,
        *,
        older_than: Duration | datetime = "30d",
        where: RunFilter | None = None,
        archive: str | Path | None = None,
    ) -> Pruned:
        """As AsyncClient.prune."""
        return self._portal.call(self._client.prune(older_than=older_than, where=where, archive=archive))

    def export(self, run_id: str) -> str:
        """As AsyncClient.export."""
        return self._portal.call(self._client.export(run_id))

    def import_run(self, line: str | bytes) -> Imported:
        """As AsyncClient.import_run."""
        return self._portal.call(self._client.import_run(line))

    def signal(
        self, run_id: str, name: str, payload: Any = None, *, message_id: str | None = None, connection: Any = None
    ) -> None:
        """As AsyncClient.signal."""
        work = self._client.signal(run_id, name, payload, message_id=message_id, connection=connection)
        self._inside(connection, work)

    def publish(
        self, event: str, payload: Any = None, *, message_id: str | None = None, connection: Any = None
    ) -> None:
        """As AsyncClient.publish."""
        work = self._client.publish(event, payload, message_id=message_id, connection=connection)
        self._inside(connection, work)

    def resume_hook(
        self, token: str, payload: Any = None, *, message_id: str | None = None, connection: Any = None
    ) -> None:
        """As AsyncClient.resume_hook."""
        work = self._client.resume_hook(token, payload, message_id=message_id, connection=connection)
        self._inside(connection, work)

    @overload
    def cancel(self, run_id: str, *, reason: str | None = None, force: bool = False) -> Cancellation: ...
    @overload
    def cancel(self, run_id: RunFilter, *, reason: str | None = None, force: bool = False) -> int: ...
    def cancel(self, run_id: str | RunFilter, *, reason: str | None = None, force: bool = False) -> Cancellation | int:
        """As AsyncClient.cancel."""
        if isinstance(run_id, RunFilter):
            return self._portal.call(self._client.cancel(run_id, reason=reason, force=force))
        return self._portal.call(self._client.cancel(run_id, reason=reason, force=force))

    def now(self) -> datetime:
        """As AsyncClient.now."""
        return self._portal.call(self._client.now())

    def workers(self) -> list[WorkerRecord]:
        """As AsyncClient.workers."""
        return self._portal.call(self._client.workers())

    def workflows(self) -> list[WorkflowCount]:
        """As AsyncClient.workflows."""
        return self._portal.call(self._client.workflows())

    def _inside(self, connection: Any, work: Coroutine[Any, Any, T]) -> T:
        """Do it through the portal; with a caller's blocking connection, on this thread, for such connections may only
        be used on their own."""
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
        return repr(self._client).replace("Async", "", 1)


def _close(client: weakref.ref[Client]) -> None:
    """Close the client at the end of the program, if it is still there."""
    if (left := client()) is not None:
        left.close()


def _abandon(portal: Portal, client: AsyncClient, at_exit: Callable[[], None]) -> None:
    """Close what a collected client has left. It may be called on any thread at any moment, so it must not wait."""
    atexit.unregister(at_exit)
    portal.close(client.close, wait=False)
