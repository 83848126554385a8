"""Managing runs: pause, resume, fork, delete; one by its id or many by a filter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar, Unpack, overload

from holdfast.define import Workflow, refuse_in_body, said_by, wrong_workflow
from holdfast.errors import (
    AlreadyCompensated,
    BadArguments,
    DefinitionError,
    KeyTaken,
    NotDecodable,
    NotRetryable,
    RunEnded,
    RunNotFound,
)
from holdfast.model import (
    ENDED,
    LIVE,
    NOT_GIVEN,
    NotGiven,
    RunFilter,
    RunRecord,
    RunStatus,
    check_id,
)
from holdfast.store import Store, next_of

from .connections import Connected
from .forking import Edits, Forks
from .ids import not_found
from .listings import checked_filter, live_runs, matching
from .retries import RETRYABLE, children_kept, retry_id
from .runs import AsyncRun, Cancellation, cancel
from .starting import Starter

_BATCH = 200
_TOGETHER = 50
"""Runs that are cancelled or retried at once."""
T = TypeVar("T")
R = TypeVar("R")


class Managing(Connected):
    """The part of a client that manages runs."""

    _starter: Starter

    async def count(self, where: RunFilter) -> int:
        """How many runs a filter lets through: to be asked before something is done to all of them."""
        refuse_in_body("client.count()", "do it in a step")
        asked = checked_filter(where)
        if asked.status is not None and set(asked.status) <= set(LIVE):
            return len(await live_runs(self._connection, asked))
        return sum([1 async for _ in matching(self._connection, asked)])

    @overload
    async def cancel(self, run_id: str, *, reason: str | None = None, force: bool = False) -> Cancellation: ...
    @overload
    async def cancel(self, run_id: RunFilter, *, reason: str | None = None, force: bool = False) -> int: ...
    async def cancel(
        self, run_id: str | RunFilter, *, reason: str | None = None, force: bool = False
    ) -> Cancellation | int:
        """Ask a run to end: its body gets a CancelledError and may clean up. Raises RunNotFound.

            await client.cancel(run.id, reason="the customer has changed their mind")
            await client.cancel(RunFilter(workflow="checkout", tags={"batch": "7"}))

        The answer is true if the run was live; an ended one is left as it is, and the answer says so. Repeats
        change nothing. With `force` the run ends at once: no cleanup, and a step in flight is not waited for; the
        answer's `skipped` lists what was left undone. `reason` is kept in the journal. With a filter all live runs
        that it lets through are asked, parents before their children, and the answer is how many.
        """
        if not isinstance(run_id, RunFilter):
            return await cancel(self._connection, run_id, reason=reason, force=force)

        asked: set[str] = set()

        async def cancelled(one: RunRecord) -> None:
            # It may have ended, and been deleted, while this goes on.
            with suppress(RunNotFound):
                answer = await cancel(self._connection, one.id, reason=reason, force=force)
                # One that has been quick to end with its parent is cancelled by this, too.
                if answer or (answer.status is RunStatus.CANCELLED and one.parent_id in asked):
                    asked.add(one.id)

        # A parent that heard first of its child's end would take it for a failure.
        for level in _parents_first(await live_runs(self._connection, checked_filter(run_id))):
            await _together(level, cancelled)
        return len(asked)

    @overload
    async def retry(self, run_id: str, *, id: str | None = None) -> AsyncRun[Any]: ...
    @overload
    async def retry(self, run_id: RunFilter, *, id: None = None) -> int: ...
    async def retry(self, run_id: str | RunFilter, *, id: str | None = None) -> AsyncRun[Any] | int:
        """Go on where a failed or cancelled run stopped: as a new run, with its history up to the last failure.

        Steps with a recorded result are not executed again. The old run stays as it was. Retrying a run with a key
        once more returns the run that the first retry made. For one without, `id` names the new run: whoever has lost
        the answer asks again with it, and gets the run that is there by then. Raises NotRetryable for a run that is
        live or completed, AlreadyCompensated for one that has undone what it did, KeyTaken if the key has gone to
        another run, or the id is another's, RunNotFound. With a filter all failed and cancelled runs that it lets
        through are retried, those that can be, and the answer is how many. A run that a filter has retried before is
        passed by, and a child that begins anew with its parent is left to that.
        """
        refuse_in_body("client.retry()", "do it in a step")
        if not isinstance(run_id, RunFilter):
            if id is not None:
                check_id(id)
            _, record = await self._connection.found(run_id)
            return await self._starter.retry(record, id=id)
        if id is not None:
            raise DefinitionError("retry(id=) names one new run, and a filter may let many through; leave it out")
        return await self._retry_all([record async for record in matching(self._connection, run_id, RETRYABLE)])

    async def _retry_all(self, records: Sequence[RunRecord]) -> int:
        """Parents first: a child that its parent's retry begins anew is not retried beside it, to do its work twice."""
        store = await self._connection.opened()
        parents = {record.parent_id for record in records}
        kept: dict[str, set[str]] = {}
        """By the runs that are done anew: the children that are not, for their ends stay in the history."""
        count = 0
        for level in _parents_first(records):
            alone: list[RunRecord] = []
            for record in level:
                # One with a key is found by it: whoever comes second joins it, or is told.
                if record.key is None and record.parent_id in kept and record.id not in kept[record.parent_id]:
                    kept[record.id] = set()
                else:
                    alone.append(record)
            done = await _together(alone, self._retried)
            count += done.count(True)
            for record, is_retried in zip(alone, done, strict=True):
                if is_retried is not None and record.id in parents:
                    kept[record.id] = children_kept(record.id, await store.read_journal(record.id))
        return count

    async def _retried(self, record: RunRecord) -> bool | None:
        """Whether it is retried by this; False: it was before, or another run has its key. None: it can't be."""
        # One may be retried by somebody else, or deleted, while this goes on; and one may have a damaged journal.
        with suppress(AlreadyCompensated, NotDecodable, NotRetryable, RunNotFound):
            try:
                # Who asks again, having lost the answer or next week, must not do again what the first retry has done.
                again = await self._starter.retry(record, id=retry_id(record) if record.key is None else None)
            except KeyTaken:
                return False
            return again.created is True
        return None

    async def pause(self, which: str | RunFilter) -> int:
        """Stop taking turns of a run, or of all that a filter lets through; returns how many were paused by this.

        Steps in flight end and are recorded; what they came to is delivered on resume. Timers wait, the deadline runs
        on, a cancel acts. Of a run that continued as new, the one that goes on is paused. Raises RunNotFound, and
        RunEnded for a run that has ended.
        """
        refuse_in_body("client.pause()", "do it in a step")
        return await self._set_paused(which, True)

    async def resume(self, which: str | RunFilter) -> int:
        """Let a paused run go on, or all that a filter lets through; returns how many were paused until now.

        As with `pause`, a run that continued as new is the one that goes on. Raises RunNotFound, and RunEnded for a run
        that has ended.
        """
        refuse_in_body("client.resume()", "do it in a step")
        return await self._set_paused(which, False)

    @overload
    async def fork(self, run_id: str, **edits: Unpack[Edits]) -> AsyncRun[Any]: ...
    @overload
    async def fork(self, run_id: RunFilter, **edits: Unpack[Edits]) -> int: ...
    async def fork(
        self,
        run_id: str | RunFilter,
        *,
        at: str | None = None,
        input: Sequence[Any] | NotGiven = NOT_GIVEN,
        result: Any = NOT_GIVEN,
        workflow: Workflow[..., Any] | None = None,
    ) -> AsyncRun[Any] | int:
        """A new run that shares this one's history up to a step, and goes on from there by itself.

            again = await client.fork(run.id, at="charge")                      # ask for the step anew
            other = await client.fork(run.id, at="charge", result="ok")         # as if it had come to this
            fresh = await client.fork(run.id, input=(other_order,))             # from the start, with other arguments

        The old run stays as it was, whatever state it is in. `at` is the step's key as the journal shows it; `input` is
        a sequence of arguments. What a machine's state came to is a `Next` or a `Done`. Give the `workflow` to have
        them, and the result, typed: from the start the fork is of its version. With a filter all runs that it lets
        through are forked, those that have asked for that step, and the answer is how many. Raises DefinitionError and
        BadArguments for what does not fit the run.
        """
        refuse_in_body("client.fork()", "do it in a step")
        if at is None and not isinstance(result, NotGiven):
            raise DefinitionError("fork(result=...) needs at=, the key of the step whose result it is")
        if not isinstance(input, (NotGiven, list, tuple)):
            raise BadArguments(f"fork(input={input!r}): expected a tuple of arguments, such as (1,)")
        if workflow is not None and not isinstance(workflow, Workflow):
            raise DefinitionError(f"fork(workflow={workflow!r}): {wrong_workflow(workflow)}")
        came_to = None if isinstance(result, NotGiven) else self._connection.codec.message(said_by(result), "fork")
        forks = Forks(self._connection, at, input, came_to, workflow)
        if isinstance(run_id, RunFilter):
            return await forks.make_all([record async for record in matching(self._connection, run_id)])
        _, record = await self._connection.found(run_id)
        return await forks.make(record)

    async def delete(self, which: str | RunFilter) -> int:
        """Remove an ended run, or all ended ones that a filter lets through, with all they own; returns how many.

        A live run is never deleted: cancel it first. One that has gone on in another is not deleted while a transaction
        of a caller's own (`connection=`) sends to it. Raises RunNotFound.
        """
        refuse_in_body("client.delete()", "do it in a step")
        if isinstance(which, RunFilter):
            ended = [record async for record in matching(self._connection, which, ENDED)]
            return await self._in_batches(ended, lambda store, ids: store.delete_runs(ids))
        store, record = await self._connection.found(which)
        if not record.status.is_final:
            raise DefinitionError(
                f"run {record.id} is {record.status}: only an ended one can be deleted; cancel it first"
            )
        return len(await store.delete_runs([record.id]))

    async def _set_paused(self, which: str | RunFilter, paused: bool) -> int:
        if not isinstance(which, RunFilter):
            store, record = await self._connection.found(which)
            return await self._set_one_paused(store, record, paused)
        gone_on: list[RunRecord] = []

        async def set_some(store: Store, ids: list[str]) -> list[str]:
            changed = await store.pause_runs(ids, paused)
            left = set(ids).difference(changed)
            if left:
                ended = await store.read_ended(list(left))
                gone_on.extend(record for record in ended if record.status is RunStatus.CONTINUED)
            return changed

        store = await self._connection.opened()
        count = await self._in_batches(await live_runs(self._connection, checked_filter(which)), set_some)
        for record in gone_on:
            # What it goes on in may have ended, or been deleted, by now.
            with suppress(RunEnded, RunNotFound):
                count += await self._set_one_paused(store, record, paused)
        return count

    async def _set_one_paused(self, store: Store, record: RunRecord, paused: bool) -> int:
        while True:
            if record.status is RunStatus.CONTINUED and record.successor_id is not None:
                found = await next_of(store, record)
                if found is None:
                    raise not_found(record.successor_id, store.namespace)
                record = found
                continue
            if record.status.is_final:
                text = f"run {record.id} of {record.workflow!r} has ended ({record.status}); nothing was changed"
                raise RunEnded(text)
            if await store.pause_runs([record.id], paused):
                return 1
            # It was so already, or it has gone on in another run meanwhile.
            _, record = await self._connection.found(record.id)
            if record.status is not RunStatus.CONTINUED:
                return 0

    async def _in_batches(self, records: Sequence[RunRecord], deed: Callable[[Store, list[str]], Any]) -> int:
        """Do it to all of these: those that come later are left alone."""
        store = await self._connection.opened()
        ids = [record.id for record in records]
        count = 0
        for start in range(0, len(ids), _BATCH):
            count += len(await deed(store, ids[start : start + _BATCH]))
        return count


def _parents_first(records: Sequence[RunRecord]) -> Iterator[list[RunRecord]]:
    """Runs in groups: the parents among them come in an earlier one than their children."""
    left = {record.id: record for record in records}
    while left:
        # An imported run may be said to be its own parent: what is left in a circle goes as it is.
        level = [record for record in left.values() if record.parent_id not in left] or [*left.values()]
        for record in level:
            del left[record.id]
        yield level


async def _together(items: Sequence[T], deed: Callable[[T], Awaitable[R]]) -> list[R]:
    """Do it to each, some at a time: what they write goes out in one commit. The first error ends it, not halfway."""
    answers: list[R] = []
    for start in range(0, len(items), _TOGETHER):
        some = await asyncio.gather(*map(deed, items[start : start + _TOGETHER]), return_exceptions=True)
        for answer in some:
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
    return answers
