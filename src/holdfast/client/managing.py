"""Managing runs: count, cancel, retry, pause, resume, fork and delete; one by its id or many by a filter."""

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
from holdfast.store import Store, kept_of_chain, next_of

from .connections import Connected
from .forking import Edits, Forks
from .ids import not_found
from .listings import checked_filter, live_runs, matching
from .retries import RETRYABLE, children_kept, retry_id
from .runs import AsyncRun, Cancellation, cancel
from .starting import Starter

_BATCH = 200
_TOGETHER = 50
"""How many runs are cancelled or retried at the same time."""
T = TypeVar("T")
R = TypeVar("R")


class Managing(Connected):
    """The part of a client that manages runs."""

    _starter: Starter

    async def count(self, where: RunFilter) -> int:
        """How many runs a filter lets through, for example before something is done to all of them."""
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

        The answer is true if the run was live; an ended run is left as it is, and the answer says so. A second cancel
        changes nothing. With `force` the run ends at once, without cleanup and without waiting for a step in flight;
        the answer's `skipped` lists what was left undone. `reason` is kept in the journal. With a filter, all live runs
        that it lets through are asked, parents before their children, and the answer is how many.
        """
        if not isinstance(run_id, RunFilter):
            return await cancel(self._connection, run_id, reason=reason, force=force)

        asked: set[str] = set()

        async def cancelled(one: RunRecord) -> None:
            # It may have ended and been deleted since it was listed.
            with suppress(RunNotFound):
                answer = await cancel(self._connection, one.id, reason=reason, force=force)
                # A child that has already ended with its parent counts as cancelled by this.
                if answer or (answer.status is RunStatus.CANCELLED and one.parent_id in asked):
                    asked.add(one.id)

        # A parent that heard of its child's end before its own cancel would take it for a failure.
        for level in _parents_first(await live_runs(self._connection, checked_filter(run_id))):
            await _together(level, cancelled)
        return len(asked)

    @overload
    async def retry(self, run_id: str, *, id: str | None = None) -> AsyncRun[Any]: ...
    @overload
    async def retry(self, run_id: RunFilter, *, id: None = None) -> int: ...
    async def retry(self, run_id: str | RunFilter, *, id: str | None = None) -> AsyncRun[Any] | int:
        """Go on where a failed or cancelled run stopped: in a new run, with its history up to the last failure.

        Steps with a recorded result are not executed again. The old run stays as it was. To retry a run with a key
        again returns the run that the first retry made. If a run has no key, name the new run by `id`: if the answer is
        lost, the same call again returns the run that it made. Raises RunNotFound; NotRetryable for a run that is live
        or completed; AlreadyCompensated for a run that has undone what it did; KeyTaken if another run has the key or
        the id. With a filter, all failed and cancelled runs are retried that it lets through and that can be, and the
        answer is how many. Runs that were retried by a filter before are left out, and so are children that their
        parents' retries begin anew.
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
        """Retry runs, parents first. A child that its parent's retry begins anew is left out: else its work would be
        done twice."""
        store = await self._connection.opened()
        parents = {record.parent_id for record in records}
        kept: dict[str, set[str]] = {}
        """By the ids of retried parents: the children whose ends stay in the history, so that they are not begun
        anew."""
        count = 0
        for level in _parents_first(records):
            alone: list[RunRecord] = []
            for record in level:
                # A child with a key may be retried by itself: if its parent asks for it, too, that finds it by the key.
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
        """Whether this call has retried the run. False: it was retried before, or another run has its key. None: it
        can't be retried."""
        # A run may be retried by somebody else, or deleted, meanwhile; and its journal may be damaged.
        with suppress(AlreadyCompensated, NotDecodable, NotRetryable, RunNotFound):
            try:
                # By an id that is always the same: the same call again must not do once more what the first retry did.
                again = await self._starter.retry(record, id=retry_id(record) if record.key is None else None)
            except KeyTaken:
                return False
            return again.created is True
        return None

    async def pause(self, which: str | RunFilter) -> int:
        """Stop taking turns of a run, or of all runs that a filter lets through. Returns how many this has paused.

        Steps in flight end, and their results are recorded and delivered on resume. Timers wait, the deadline does not,
        and a cancel still acts. If the run has continued as new, the run that goes on is paused. Raises RunNotFound,
        and RunEnded for a run that has ended.
        """
        refuse_in_body("client.pause()", "do it in a step")
        return await self._set_paused(which, True)

    async def resume(self, which: str | RunFilter) -> int:
        """Let a paused run go on, or all runs that a filter lets through. Returns how many were paused until now.

        If the run has continued as new, the run that goes on is resumed. Raises RunNotFound, and RunEnded for a run
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
        """Make a new run that shares a run's history up to a step, and goes its own way from there.

            again = await client.fork(run.id, at="charge")                      # ask for the step anew
            other = await client.fork(run.id, at="charge", result="ok")         # as if it had come to this
            fresh = await client.fork(run.id, input=(other_order,))             # from the start, with other arguments

        The old run stays as it was, whatever its status. `at` is the step's key as the journal shows it; `input` is a
        sequence of arguments. The result of a machine's state is a `Next` or a `Done`. With `workflow`, the arguments
        are checked by its annotations, and the new run's result is typed; a fork from the start takes its version,
        unless live workers have only others. With a filter, all runs are forked that it lets through and that have
        asked for the step, and the answer is how many.
        Raises DefinitionError, NoSuchStep or BadArguments for anything that does not fit the run.
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
        """Remove an ended run, or all ended runs that a filter lets through, with all they own. Returns how many.

        A live run is never deleted: cancel it first. Nor is the first run of a chain while another run of the chain is
        kept, for the chain goes by its id. A run that has continued as new is not deleted while a caller's own
        transaction (`connection=`) that has sent to it is open. Raises RunNotFound.
        """
        refuse_in_body("client.delete()", "do it in a step")
        if isinstance(which, RunFilter):
            # Only ids are kept: the runs may be very many, and a record holds the run's input and output.
            ended: tuple[list[str], list[str]] = [], []
            async for record in matching(self._connection, which, ENDED):
                ended[record.id == record.chain_id].append(record.id)
            # The first run of a chain can only go with or after the others.
            others, firsts = ended
            return await self._in_batches([*others, *firsts], lambda store, ids: store.delete_runs(ids))
        store, record = await self._connection.found(which)
        if not record.status.is_final:
            raise DefinitionError(
                f"run {record.id} is {record.status}: only an ended one can be deleted; cancel it first"
            )
        gone = await store.delete_runs([record.id])
        kept = None if gone else await kept_of_chain(store, record)
        if kept is not None:
            raise DefinitionError(
                f"run {record.id} is the first of a chain, which goes by its id, and run {kept.id} of that chain is "
                f"{kept.status}: delete {'it' if kept.status.is_final else 'the chain when that has ended'} first"
            )
        return len(gone)

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
        live = await live_runs(self._connection, checked_filter(which))
        count = await self._in_batches([record.id for record in live], set_some)
        for record in gone_on:
            # The run that goes on may have ended, or been deleted, by now.
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
            # The flag was set like this already, or the run has continued meanwhile.
            _, record = await self._connection.found(record.id)
            if record.status is not RunStatus.CONTINUED:
                return 0

    async def _in_batches(self, ids: Sequence[str], deed: Callable[[Store, list[str]], Any]) -> int:
        """Do it to all of these runs, some at a time. Returns how many it was done to."""
        store = await self._connection.opened()
        count = 0
        for start in range(0, len(ids), _BATCH):
            count += len(await deed(store, [*ids[start : start + _BATCH]]))
        return count


def _parents_first(records: Sequence[RunRecord]) -> Iterator[list[RunRecord]]:
    """The runs in groups. A run comes in a later group than its parent, if that is among them."""
    left = {record.id: record for record in records}
    while left:
        # An imported run may claim to be its own ancestor: whatever is left in a circle goes as one group.
        level = [record for record in left.values() if record.parent_id not in left] or [*left.values()]
        for record in level:
            del left[record.id]
        yield level


async def _together(items: Sequence[T], deed: Callable[[T], Awaitable[R]]) -> list[R]:
    """Do it to each item, some at a time, so that what they write shares commits. If one fails, the others of its group
    are still done, and then the error is raised."""
    answers: list[R] = []
    for start in range(0, len(items), _TOGETHER):
        some = await asyncio.gather(*map(deed, items[start : start + _TOGETHER]), return_exceptions=True)
        for answer in some:
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
    return answers
