"""Starting and retrying runs: what is decided in starts.py and retries.py is done here."""

from __future__ import annotations

from typing import Any

from holdfast.define import StartOptions, Workflow
from holdfast.errors import KeyTaken
from holdfast.model import NewRun, RunRecord, StartedRun
from holdfast.store import Store

from .connections import Connection
from .retries import RETRYABLE, check_retryable, retry_of
from .runs import AsyncRun
from .starts import KEPT, Call, inputs, name_of, new_run, queue_of, taken, unknown

_Named = Workflow[..., Any] | str


class Starter:
    """Creates runs through one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._registered: set[tuple[str, str]] = set()
        """Versions that a worker has registered: once true, it stays so."""

    async def start(self, workflow: _Named, call: Call, options: StartOptions) -> AsyncRun[Any]:
        """Create one run, or settle on the one there is."""
        [input] = inputs(self._connection.codec, workflow, [call])
        store = await self._connection.opened()
        version, queue = await self._place(store, workflow)
        new = new_run(workflow, version, input, options, queue=queue)
        while True:
            [started] = await store.start_runs([new])
            # A start that the store had to send again finds the run that it created itself.
            if started.created or (started.id == new.id and options.id is None):
                return self._handle(workflow, new, started)
            record = await store.get_run(started.id)
            settled = None if record is None else await self._settle(store, workflow, new, record)
            if settled is not None:
                return settled

    async def start_many(self, workflow: _Named, calls: list[Call], options: StartOptions) -> list[AsyncRun[Any]]:
        """Create a run for each call, in one write."""
        sealed = inputs(self._connection.codec, workflow, calls, many=True)
        store = await self._connection.opened()
        version, queue = await self._place(store, workflow)
        runs = [new_run(workflow, version, input, options, queue=queue) for input in sealed]
        started = await store.start_runs(runs) if runs else []
        return [self._handle(workflow, new, answer) for new, answer in zip(runs, started, strict=True)]

    async def retry(self, record: RunRecord, workflow: _Named | None = None) -> AsyncRun[Any]:
        """Create the run that goes on where this one stopped."""
        check_retryable(record)
        store = await self._connection.opened()
        while True:
            again = await self._retry(store, record, workflow)
            if again is not None:
                return again
            # Somebody was faster: whoever has the key now is the retry, or in its way.
            holder = await store.find_run(record.workflow, str(record.key))
            if holder is not None and holder.forked_from == record.id:
                return self._found(workflow, holder)
            if holder is not None and holder.id != record.id:
                raise KeyTaken(
                    f"run {record.id} can't be retried with its key {record.key!r}, which run {holder.id} has now; "
                    "retry that one, or start another run",
                    holder.id,
                )

    async def _settle(self, store: Store, workflow: _Named, new: NewRun, record: RunRecord) -> AsyncRun[Any] | None:
        """What a start that met a run comes to; None: that run has changed, start again."""
        if new.on_conflict == "raise" or record.workflow != new.workflow:
            raise taken(new, record)
        if new.on_conflict == "retry" and new.key is not None:
            # A run found by its id may have given its key to a later one.
            record = await store.find_run(new.workflow, new.key) or record
            if record.status in RETRYABLE:
                return await self._retry(store, record, workflow)
        return self._found(workflow, record)

    async def _retry(self, store: Store, record: RunRecord, workflow: _Named | None) -> AsyncRun[Any] | None:
        rows = await store.read_journal(record.id)
        version = await store.newest_version(record.workflow, record.version) or record.version
        retention = workflow.retention if isinstance(workflow, Workflow) else KEPT
        new = retry_of(record, rows, version=version, retention=retention, at=self._connection.now())
        [started] = await store.start_runs([new])
        return self._handle(workflow or record.workflow, new, started) if started.id == new.id else None

    async def _place(self, store: Store, workflow: _Named) -> tuple[str, str]:
        """The version to start, and the queue of a workflow that is known by name only."""
        if isinstance(workflow, Workflow):
            own = (workflow.name, workflow.version)
            if own in self._registered:
                return workflow.version, workflow.queue
            version = await store.newest_version(*own)
            if version == workflow.version:
                self._registered.add(own)
            return version or workflow.version, workflow.queue
        name = name_of(workflow)
        newest = await store.newest_version(name, None)
        if newest is None:
            raise unknown(name, [one.name for one in await store.list_workflows() if one.versions])
        return newest, queue_of(name, newest, await store.list_workers())

    def _handle(self, workflow: _Named, new: NewRun, started: StartedRun) -> AsyncRun[Any]:
        return AsyncRun(
            self._connection, started.id, workflow=workflow, status=started.status, key=new.key, created=True
        )

    def _found(self, workflow: _Named | None, record: RunRecord) -> AsyncRun[Any]:
        return AsyncRun(
            self._connection,
            record.id,
            workflow=workflow or record.workflow,
            status=record.status,
            record=record,
            created=False,
        )
