"""Starting and retrying runs. starts.py and retries.py decide, without I/O; here it is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from holdfast.define import StartOptions, Workflow
from holdfast.errors import CodecError, KeyTaken
from holdfast.model import Lane, NewRun, RunRecord, StartedRun, new_id
from holdfast.observe import RunsStarted
from holdfast.store import Guest, Store

from .connections import Connection
from .listings import shown
from .retries import RETRYABLE, check_retryable, joined_by, retry_of
from .runs import AsyncRun
from .starts import (
    Call,
    Place,
    check_call,
    name_of,
    new_run,
    next_lane,
    own_place,
    place_of,
    sealed_input,
    taken,
    unknown,
    unknown_version,
)

_Named = Workflow[..., Any] | str
P = ParamSpec("P")
R = TypeVar("R")
_STILL_SERVED = 1.0
"""Seconds for which a worker that was seen is taken to be alive, so that not every start has to ask."""


class Starter:
    """Creates runs through one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._served: dict[tuple[str, str], float] = {}
        """Versions that a live worker had, with the time when that was seen."""

    async def start(
        self,
        workflow: _Named,
        call: Call,
        options: StartOptions,
        *,
        is_served: bool = False,
        version: str | None = None,
        connection: Any = None,
    ) -> AsyncRun[Any]:
        """Create one run, or return the one that exists, as `on_conflict` says.

        `is_served`: the caller is going to execute the run itself. `version`: the version to start, of a workflow that
        is given by name.
        """
        store, name, place, [input] = await self._prepared(workflow, [call], is_served, connection, version=version)
        new = self._connection.traced(new_run(name, place, input, options))
        while True:
            [started] = await store.start_runs([new])
            # If the store had to send the start again, it may find the run that it has created itself.
            if started.created or (started.id == new.id and options.id is None):
                return self._handle(workflow, new, started)
            record = await store.get_run(started.id)
            settled = None if record is None else await self._settle(store, workflow, new, record, is_served)
            if settled is not None:
                return settled

    async def start_many(
        self, workflow: _Named, calls: list[Call], options: StartOptions, *, connection: Any = None
    ) -> list[AsyncRun[Any]]:
        """Create a run for each call, in one write."""
        store, name, place, sealed = await self._prepared(workflow, calls, False, connection, many=True)
        runs = [self._connection.traced(new_run(name, place, input, options)) for input in sealed]
        started = await store.start_runs(runs) if runs else []
        return [self._handle(workflow, new, answer) for new, answer in zip(runs, started, strict=True)]

    async def retry(self, record: RunRecord, *, id: str | None = None) -> AsyncRun[Any]:
        """Create the run that goes on where this one stopped. If it exists already with this `id`, return it."""
        check_retryable(record)
        store = await self._connection.opened()
        while True:
            again = await self._retry(store, record, record.workflow, id=id)
            if again is not None:
                return again
            # Somebody was faster: the run that has the key now is the retry, or is in its way.
            holder = None if record.key is None else await store.find_run(record.workflow, record.key)
            if holder is not None and holder.forked_from == record.id:
                return self._found(record.workflow, holder)
            if holder is not None and holder.id != record.id:
                raise KeyTaken(
                    f"run {record.id} can't be retried with its key {record.key!r}, which run {holder.id} has now; "
                    "retry that one, or start another run",
                    holder.id,
                )
            # If the run was deleted meanwhile, this raises RunNotFound.
            await self._connection.found(record.id)

    async def _settle(
        self, store: Store | Guest, workflow: _Named, new: NewRun, record: RunRecord, is_served: bool
    ) -> AsyncRun[Any] | None:
        """The answer to a start that has met an existing run; None: that run has changed since, so start again."""
        if new.on_conflict == "raise" or record.workflow != new.workflow:
            raise taken(new, record)
        if new.on_conflict == "retry" and new.key is not None:
            # A run that was found by its id may have given its key to a later run.
            record = await store.find_run(new.workflow, new.key) or record
            if record.status in RETRYABLE:
                return await self._retry(store, record, workflow, new.version if is_served else None)
        return self._found(workflow, record)

    async def _retry(
        self,
        store: Store | Guest,
        record: RunRecord,
        workflow: _Named,
        version: str | None = None,
        *,
        id: str | None = None,
    ) -> AsyncRun[Any] | None:
        rows = await store.read_journal(record.id)
        if not rows and await store.get_run(record.id) is None:
            # It was deleted since it was found. Without its history the new run would do everything once more.
            return None
        if version is None:
            lane = next_lane(await store.list_versions(record.workflow), record.version, record)
        else:
            lane = Lane(record.workflow, version, record.queue)
        # By the store's clock: if a host whose clock is ahead stamped it, time would stand still in the new run.
        joined, at = await joined_by(store, record, rows), await store.read_clock()
        new = retry_of(record, rows, id=id or new_id(), lane=lane, at=at, joined=joined)
        new = self._connection.traced_after(new, record)
        [started] = await store.start_runs([new])
        if id is not None and started.id == id and not started.created:
            # An earlier call has made it and the answer was lost, or another run has this id.
            found = await store.get_run(id)
            if found is not None and found.forked_from != record.id:
                raise taken(new, found)
            return None if found is None else self._found(workflow, found)
        return self._handle(workflow, new, started) if started.id == new.id else None

    async def _prepared(
        self,
        workflow: _Named,
        calls: list[Call],
        is_served: bool,
        connection: Any,
        *,
        version: str | None = None,
        many: bool = False,
    ) -> tuple[Store | Guest, str, Place, list[bytes]]:
        """The store, the workflow's name, the place to start it, and the sealed arguments of each call. Everything that
        can be wrong with the arguments is found here, before anything is written."""
        codec = self._connection.codec
        name = name_of(workflow)
        if isinstance(workflow, Workflow):
            sealed = [_noted(sealed_input, number, many)(codec, workflow, call) for number, call in enumerate(calls)]
            store = await self._connection.opened_for(connection)
            place = own_place(workflow) if is_served else await self._place(store, workflow)
            for number, call in enumerate(calls):
                _noted(check_call, number, many)(workflow, place, call)
            self._connection.started[name, workflow.version] = workflow
            return store, name, place, sealed
        store = await self._connection.opened_for(connection)
        versions = await store.list_versions(name)
        found = place_of([one for one in versions if version in (None, one.version)], None)
        if found is None and versions:
            raise unknown_version(name, str(version), versions)
        if found is None:
            raise unknown(name, [one.name for one in shown(await store.list_workflows()) if one.versions])
        sealed = [_noted(sealed_input, number, many)(codec, name, call, found) for number, call in enumerate(calls)]
        return store, name, found, sealed

    async def _place(self, store: Store | Guest, workflow: Workflow[..., Any]) -> Place:
        own = (workflow.name, workflow.version)
        seen_at = self._served.get(own)
        if seen_at is not None and time.monotonic() - seen_at < _STILL_SERVED:
            return own_place(workflow)
        versions = await store.list_versions(workflow.name)
        if any(one.version == workflow.version and one.is_live for one in versions):
            self._served[own] = time.monotonic()
        return place_of(versions, workflow) or own_place(workflow)

    def _handle(self, workflow: _Named, new: NewRun, started: StartedRun) -> AsyncRun[Any]:
        if self._connection.observers is not None:
            self._connection.observers.tell(RunsStarted(new.workflow, new.version, 1))
        return AsyncRun(
            self._connection, started.id, workflow=workflow, status=started.status, key=new.key, created=True
        )

    def _found(self, workflow: _Named, record: RunRecord) -> AsyncRun[Any]:
        return AsyncRun(
            self._connection,
            record.id,
            workflow=workflow,
            status=record.status,
            record=record,
            created=False,
        )


def _noted(check: Callable[P, R], number: int, many: bool) -> Callable[P, R]:
    """The check; of many calls, its error says which one it is about."""

    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return check(*args, **kwargs)
        except CodecError as error:
            if many:
                error.add_note(f"this is item {number} of start_many; nothing was started")
            raise

    return checked
