"""Handles: a run as callers see it, and how its end becomes a result or an error.

A timeout holds whatever the database does: after it there are only brief looks.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, Self, TypeVar, cast, overload

from holdfast.codec import Codec
from holdfast.define import NoClass, Workflow, refuse_in_body
from holdfast.errors import (
    DefinitionError,
    HoldfastError,
    PayloadTooLarge,
    RunCancelled,
    RunFailed,
    RunNotFound,
    StoreAway,
)
from holdfast.model import (
    Cancel,
    Duration,
    Entry,
    RunRecord,
    RunStatus,
    Stopped,
    Undoing,
    check_id,
    decode_entries,
    is_text,
    microseconds,
    spoken,
)
from holdfast.store import next_of

from .connections import Connection
from .entries import readable
from .failures import described, error_of, with_report
from .ids import check_name, not_found
from .messaging import send_signal
from .streams import (
    StreamInfo,
    StreamItem,
    ValueInfo,
    changes,
    follow,
    list_streams,
    list_values,
    read_value,
)

T = TypeVar("T")
D = TypeVar("D")
R_co = TypeVar("R_co", covariant=True)
BRIEF = 1.0
"""Seconds for a last look when a caller's time is up: at the run, or for the words of an error."""


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The answer to a cancel. It is true if the run was live, so that the cancel could reach it."""

    run_id: str
    status: RunStatus
    """The run's status when the cancel came."""
    force: bool = False
    skipped: tuple[str, ...] = ()
    """What a forced end left undone, in words: steps in flight, waits, cleanup."""

    @property
    def is_sent(self) -> bool:
        return not self.status.is_final

    def __bool__(self) -> bool:
        return self.is_sent

    def __str__(self) -> str:
        if not self.is_sent:
            return f"run {self.run_id} had ended already ({self.status}); nothing was changed"
        if self.force:
            undone = f"; skipped: {', '.join(self.skipped)}" if self.skipped else ""
            return f"run {self.run_id} was {self.status} and was ended at once{undone}"
        return f"run {self.run_id} was {self.status} and has been asked to end"


class AsyncRun(Generic[R_co]):
    """One run, as `client.start`, `client.get_run` and `client.runs` give it. Keeping a handle costs nothing.

        run = await client.start(checkout, order, key="order-42")
        receipt = await run.result(timeout="30s")

    `status` and `record` are what was last seen; `refresh` looks again. If the run continues as new, waiting goes on
    with the run that goes on. When the database can't be reached, waiting goes on until it is back; other calls raise
    StoreAway.
    """

    __slots__ = (
        "_connection", "_key", "_last_id", "_record", "_status", "_workflow", "_workflow_name", "created", "id",
    )  # fmt: skip  # a name a line would be a page

    created: bool | None
    """Whether the start that gave this handle created the run; None if the handle did not come from a start."""

    def __init__(
        self,
        connection: Connection,
        run_id: str,
        *,
        workflow: Workflow[..., Any] | str,
        status: RunStatus,
        key: str | None = None,
        record: RunRecord | None = None,
        created: bool | None = None,
    ) -> None:
        self.id = run_id
        self.created = created
        self._connection = connection
        self._workflow = workflow if isinstance(workflow, Workflow) else None
        self._workflow_name = workflow.name if isinstance(workflow, Workflow) else workflow
        self._status = status
        self._key = key
        self._record = record
        self._last_id = run_id
        """The last known run of the chain, so that waiting again need not come by all those before it."""

    @property
    def workflow(self) -> str:
        """The workflow's name."""
        return self._workflow_name

    @property
    def key(self) -> str | None:
        """The key that the run was started with."""
        return self._key if self._record is None else self._record.key

    @property
    def status(self) -> RunStatus:
        """As last seen."""
        return self._status if self._record is None else self._record.status

    @property
    def record(self) -> RunRecord | None:
        """Everything the store knew about the run when it was last read; None if only its start is known."""
        return None if self._record is None else with_report(self._record, self._connection.codec)

    async def refresh(self) -> Self:
        """Read the run again, and return this handle. Raises RunNotFound if the run is gone."""
        refuse_in_body("run.refresh()", "do it in a step")
        _, self._record = await self._connection.found(self.id)
        return self

    async def wait(self, timeout: Duration | None = None) -> RunStatus:
        """Wait until the run has ended in any way, and return its last status.

        Raises TimeoutError after `timeout`, which holds for all runs of a chain together; the run goes on.
        """
        refuse_in_body("run.wait()", "do it in a step")
        return (await self._ended(timeout)).status

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Wait until the run has ended and return what its body returned.

        Raises RunFailed, whose `__cause__` is the body's own exception; RunCancelled, whose `__cause__` says what could
        not be compensated; or TimeoutError after `timeout`, which leaves the run alone. The value has the type of the
        workflow's return annotation if the handle was made with the workflow itself, and is plain data if it was made
        by a name or an id.
        """
        refuse_in_body("run.result()", "do it in a step")
        record = await self._ended(timeout)
        codec = self._connection.codec
        if record.status is RunStatus.COMPLETED:
            return cast(R_co, _value(codec, self._workflow, record.output))
        if record.status is RunStatus.CANCELLED:
            # A cancelled run has an error if something could not be compensated.
            raise RunCancelled(await self._cancelled_text(record, timeout), record.id) from error_of(
                codec, record.error
            )
        _raise_failed(codec, self._workflow, record)

    async def cancel(self, *, reason: str | None = None, force: bool = False) -> Cancellation:
        """Ask the run to end; as `client.cancel`."""
        return await cancel(self._connection, self.id, reason=reason, force=force)

    async def signal(
        self, name: str, payload: Any = None, *, message_id: str | None = None, connection: Any = None
    ) -> None:
        """Send the run a signal; as `client.signal`."""
        await send_signal(self._connection, self.id, name, payload, message_id, connection)

    @overload
    async def value(self, name: str, *, type: type[T]) -> T | None: ...
    @overload
    async def value(self, name: str, *, default: D, type: type[T]) -> T | D: ...
    @overload
    async def value(self, name: str, *, default: Any = None, type: NoClass = ...) -> Any: ...
    async def value(self, name: str, *, default: Any = None, type: Any = Any) -> Any:
        """The value that the run has last set by this name, as a `type`; `default` if there is none."""
        refuse_in_body("run.value()", "do it in a step")
        check_name("value", name)
        return await read_value(self._connection, self.id, name, default, type)

    async def values(self, *, after: str = "", limit: int | None = None) -> list[ValueInfo]:
        """The values that the run has set, sorted by name: those after the name `after`, up to `limit` of them."""
        refuse_in_body("run.values()", "do it in a step")
        return await list_values(self._connection, self.id, after, limit)

    async def streams(self, *, after: str = "", limit: int | None = None) -> list[StreamInfo]:
        """The streams that the run has sent items to, sorted by name; `after` and `limit` as for `values`."""
        refuse_in_body("run.streams()", "do it in a step")
        return await list_streams(self._connection, self.id, after, limit)

    @overload
    def stream(self, name: str, *, after: int = 0, type: type[T]) -> AsyncIterator[StreamItem[T]]: ...
    @overload
    def stream(self, name: str, *, after: int = 0, type: NoClass = ...) -> AsyncIterator[StreamItem[Any]]: ...
    def stream(self, name: str, *, after: int = 0, type: Any = Any) -> AsyncIterator[StreamItem[Any]]:
        """The items of a stream after an offset, and those still to come, until the run has ended.

            async for item in run.stream("rows", after=last_offset, type=Row):
                ...                                     # item.value is a Row, item.offset the next `after`

        An item with `reset` means that a step is tried again: drop what its earlier attempts have sent. If the run
        continues as new, the stream goes on with the run that goes on. While the database can't be reached, this waits;
        it raises ClientClosed when the client is closed.
        """
        refuse_in_body("run.stream()", "do it in a step")
        check_name("stream", name)
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise DefinitionError(f"stream(after={after!r}): expected the offset of an item, a whole number from 0")
        return follow(self._connection, self.id, name, after, type)

    async def changes(self) -> AsyncIterator[RunStatus]:
        """The run's status, each time that it has changed, until the run has ended.

        If it continues as new, the statuses of the runs that go on follow. While the database can't be reached, this
        waits; it raises ClientClosed when the client is closed.
        """
        refuse_in_body("run.changes()", "do it in a step")
        async for record in changes(self._connection, self.id):
            self._record = record
            yield record.status

    async def _ended(self, timeout: Duration | None) -> RunRecord:
        """The record of the run when it has ended; if it continued as new, of the last run of its chain."""
        limit = None if timeout is None else microseconds(timeout, what="timeout")
        until = None if limit is None else self._connection.monotonic() + limit
        while True:
            # The timeout holds for the whole chain: each of its runs may be short, and the next one begins at once.
            left = None if until is None else max(until - self._connection.monotonic(), 0)
            try:
                record = await self._end_of(self._last_id, left)
            except TimeoutError:
                raise TimeoutError(await self._late_text(limit or 0)) from None
            except RunNotFound:
                if self._last_id == self.id:
                    raise
                # It was deleted since it was the last of the chain, which may have gone on: begin with the first again.
                self._last_id = self.id
                continue
            if record.status is not RunStatus.CONTINUED or record.successor_id is None:
                self._record = record
                return record
            self._last_id = await self._next_of(record, record.successor_id)

    async def _next_of(self, record: RunRecord, successor_id: str) -> str:
        try:
            async with asyncio.timeout(BRIEF):
                store = await self._connection.opened()
                found = await next_of(store, record)
        except (StoreAway, TimeoutError):
            # Wait for the successor, as long as there is time.
            return successor_id
        if found is None:
            raise not_found(successor_id, store.namespace)
        return found.id

    async def _end_of(self, run_id: str, limit: int | None) -> RunRecord:
        if self._record is not None and self._record.id == run_id and self._record.status.is_final:
            return self._record
        if limit == 0:
            # Without any time to wait, look once.
            async with asyncio.timeout(BRIEF):
                _, record = await self._connection.found(run_id)
            if not record.status.is_final:
                raise TimeoutError
            return record
        return await self._connection.ended(run_id, limit)

    async def _late_text(self, limit: int) -> str:
        late = f"run {self.id} of {self.workflow!r} has not ended after {spoken(limit)}"
        try:
            # If the run is gone, this raises RunNotFound: it would never end.
            async with asyncio.timeout(BRIEF):
                _, record = await self._connection.found(self._last_id)
        except StoreAway as error:
            return f"{late}, as far as is known: {error}"
        except TimeoutError:
            return f"{late}, as far as is known: the database does not answer"
        if record.blocked is not None:
            return f"{late}; it is blocked: {self._connection.codec.opened_text(record.blocked)}"
        ask = f"client.explain({record.id!r}), or in a shell `holdfast why {shlex.quote(record.id)}`"
        return f"{late}; it goes on: ask again, or see what it waits for with {ask}"

    async def _cancelled_text(self, record: RunRecord, timeout: Duration | None) -> str:
        told = f"run {record.id} of {record.workflow!r} was cancelled"
        try:
            async with asyncio.timeout(None if timeout is None else BRIEF):
                store = await self._connection.opened()
                rows = await store.read_journal(record.id)
        except TimeoutError:
            return f"{told}; the database does not answer: ask it later why, with client.explain({record.id!r})"
        entries, damage = readable(record.id, rows)
        if damage is not None:
            return f"{told}; {damage}"
        reason = cancel_reason(entries)
        why = f": {reason}" if reason else ""
        undone = skipped_in(entries)
        what = f" (skipped: {', '.join(undone)})" if undone else ""
        shell = f"`holdfast retry {shlex.quote(record.id)}`"
        advice = f"client.retry({record.id!r}), or in a shell {shell}, would go on from there"
        if any(isinstance(entry, Undoing) for entry in entries):
            advice = "it was compensated, so only a new run can go on"
        return f"{told}{why}{what}; {advice}"

    def __repr__(self) -> str:
        return f"<run {self.id} of {self.workflow}: {self.status}>"


async def cancel(connection: Connection, run_id: str, *, reason: str | None, force: bool) -> Cancellation:
    """Send a cancel. Raises RunNotFound."""
    refuse_in_body("a cancel by the client", "do it in a step")
    check_id(run_id)
    if reason is not None and not is_text(reason):
        raise DefinitionError(f"cancel(reason={reason!r}): expected text that says why, or nothing")
    if reason is not None and len(reason) > connection.codec.max_payload:
        raise PayloadTooLarge(f"cancel(reason=): {len(reason):,} characters; expected a few words that say why")
    if not isinstance(force, bool):
        raise DefinitionError(f"cancel(force={force!r}): expected True or False")
    store = await connection.opened()
    before = await store.cancel_run(run_id, reason=reason, force=force)
    if before is None:
        raise not_found(run_id, store.namespace)
    undone: tuple[str, ...] = ()
    if force and not before.status.is_final:
        # If the run has continued, `before` is the last of its chain, which was ended.
        rows = await store.read_journal(before.id)
        undone = skipped_in(decode_entries(rows[-1].data)) if rows else ()
    return Cancellation(run_id, before.status, force, undone)


def cancel_reason(entries: Iterable[Entry]) -> str | None:
    """Why the run was cancelled, if a reason was given."""
    return next((entry.reason for entry in entries if isinstance(entry, (Cancel, Stopped)) and entry.reason), None)


def skipped_in(entries: Iterable[Entry]) -> tuple[str, ...]:
    """What a forced end left undone."""
    return next((entry.skipped for entry in entries if isinstance(entry, Stopped)), ())


def _value(codec: Codec, workflow: Workflow[..., Any] | None, output: bytes | None) -> Any:
    if output is None:
        return None
    return (codec.value(Any) if workflow is None else codec.result(workflow.fn)).decode(output)


def _raise_failed(codec: Codec, workflow: Workflow[..., Any] | None, record: RunRecord) -> NoReturn:
    if record.status is not RunStatus.FAILED:
        raise HoldfastError(f"run {record.id} of {record.workflow!r} ended as {record.status} and has no result")
    cause = error_of(codec, record.error, home=None if workflow is None else workflow.fn.__module__)
    raise RunFailed(
        f"run {record.id} of {record.workflow!r} failed: {described(cause, whole=True)}", record.id
    ) from cause
