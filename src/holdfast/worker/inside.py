"""Transactional steps, from the worker's side: executed in a transaction of the store, and committed with it.

The result of such a step is taken in by a turn like any other, but that turn is written by the transaction that the
step's function wrote in. It is the run's one uncommitted turn:

- It is made only when no other write of the run is under way; what arrives while it is, waits for the next one.
- On a store whose transactions exclude all others (SQLite), the run's other turns wait from the beginning of the
  transaction: they could not be written anyway, and would wait for it while it waited for them. So would what the step
  sends: it is kept, and written by the transaction, before the turn.
- In a paused run no body takes it in: it is recorded for later, behind a `blocked` entry, and by the transaction all
  the same, whatever else of the run is in flight.
- Refused, it is rolled back, and the run dropped as after any refused turn. If it was not refused and did not happen
  either, the body, which has got the result already, is thrown away, and the run begins anew from its journal: after a
  pause that grows, for what keeps it from happening, such as a full disk, may last.

Crash before the COMMIT: neither the user's writes nor the turn are there, and the step executes again. Crash behind it:
both are there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from holdfast.errors import DefinitionError, FatalError, StoreAway
from holdfast.model import Instant
from holdfast.store import IDLE, LOST, Lender, Undone

from .attempt import Attempt, Item
from .held import Held
from .outbox import as_sent, numbered

_PAUSE = 0.001
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_MOST_LOST = 5
_FIRST_UNDONE_PAUSE = 100_000
_LONGEST_UNDONE_PAUSE = 10_000_000
_REMEMBERED = 1_000
"""Of so many runs a worker remembers how long they are to pause the next time."""
_log = logging.getLogger("holdfast.worker")
InThread = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Awaitable[Any]]
Limit = Callable[[Attempt], None]
"""Lets the time of an attempt begin."""


class Inside:
    """Begins, gates and commits the transactions of one worker's steps."""

    def __init__(
        self,
        lender: Lender,
        *,
        store_time: Callable[[], Instant | None],
        may_commit: Callable[[], bool],
        undone: Callable[[Held, Undone, int], None],
        send: Callable[[Item], None],
    ) -> None:
        self.lender = lender
        self._store_time = store_time
        self._may_commit = may_commit
        self._undone = undone
        self._send = send
        self._pauses: dict[str, int] = {}
        """Of runs whose last transaction did not happen."""

    async def begin(self, attempt: Attempt) -> None:
        """Lend the attempt a connection."""
        check_colour(attempt.command.step, self.lender)
        if attempt.timeout is None:
            attempt.timeout = self.lender.timeout
        if self.lender.is_exclusive:
            await self._gate(attempt)
            attempt.held.is_committing = attempt.is_holding = True
        pause = _FIRST_PAUSE
        while True:
            loan = self.lender.lend()
            try:
                await loan.begin()
            except StoreAway:
                # Not the step's fault, and no attempt of it.
                pass
            else:
                if self._may_commit():
                    attempt.loan = loan
                    attempt.kept = [] if self.lender.is_exclusive else None
                    _refuse_settled(attempt)
                    return
                # The wait for it outlasted the lease: nothing begins until that is renewed. If it is lost, so is this.
                await loan.end()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            _refuse_settled(attempt)

    async def execute(
        self, attempt: Attempt, args: tuple[Any, ...], kwargs: dict[str, Any], in_thread: InThread, limit: Limit
    ) -> Any:
        """Call the step's function with the connection first. On any error all is rolled back before it is heard of.

        A function whose connection was cut is called again with another one: the store was away, and that must not use
        up its attempts or its time. Not for ever, for it may be the function that cuts it; and not if others have heard
        of it already.
        """
        left = _MOST_LOST
        while True:
            await self.begin(attempt)
            limit(attempt)
            try:
                return await self._call(attempt, args, kwargs, in_thread)
            except _Lost as lost:
                error = lost.error
            left -= 1
            if left < 0 or attempt.has_sent or attempt.is_settled:
                raise error
            _log.info("the step %r %s and executes again: %s", attempt.key, LOST, error)
            if attempt.alarm is not None:
                attempt.alarm.cancel()
                attempt.alarm = None

    async def _call(self, attempt: Attempt, args: tuple[Any, ...], kwargs: dict[str, Any], in_thread: InThread) -> Any:
        loan = attempt.loan
        assert loan is not None
        try:
            step = attempt.command.step
            args = (loan.connection, *args)
            value = await (step.fn(*args, **kwargs) if step.is_async else in_thread(step.fn, args, kwargs))
            if not attempt.is_settled and (why := await loan.check(is_failed=False)):
                raise FatalError(f"the step {attempt.key!r} {why}")
            return value
        except FatalError:
            await self.end(attempt)
            raise
        except BaseException as error:
            why = None if attempt.is_settled else await loan.check(is_failed=True)
            await self.end(attempt)
            if why == LOST and isinstance(error, Exception):
                raise _Lost(error) from None
            if why == IDLE:
                # The driver's own words say only that the connection is closed.
                error.add_note(f"the step {attempt.key!r} {why}")
            elif why and why != LOST:
                raise FatalError(f"the step {attempt.key!r} {why}") from error
            raise

    async def ready(self, attempt: Attempt) -> None:
        """Wait until the run has no other write under way. What comes now must be done without giving way."""
        if not self.lender.is_exclusive:
            await self._gate(attempt)

    async def _gate(self, attempt: Attempt) -> None:
        while attempt.held.is_committing:
            _refuse_settled(attempt)
            await asyncio.sleep(_PAUSE)
        _refuse_settled(attempt)

    async def commit(self, attempt: Attempt) -> None:
        """Commit the turn that took the result in, if one did."""
        if attempt.turn is None:
            return
        turn, told = attempt.turn
        attempt.turn = None
        assert attempt.loan is not None
        verdict: bool | Undone = Undone("the lease has lapsed")
        # Sent now, or sent again when the step executes again: nobody may know whether a commit has happened.
        kept, attempt.kept = attempt.kept or (), None
        if self._may_commit():
            sent = tuple(as_sent(numbered(item)) for item in kept)
            verdict = await attempt.loan.commit(replace(turn, sent=sent) if sent else turn, now=self._store_time())
        if isinstance(verdict, Undone):
            await self.end(attempt)
            self._undone(attempt.held, verdict, self._pause(turn.run_id))
        else:
            self._pauses.pop(turn.run_id, None)
            told(attempt.held, turn, verdict)

    def _pause(self, run_id: str) -> int:
        pause = self._pauses.pop(run_id, _FIRST_UNDONE_PAUSE)
        self._pauses[run_id] = min(pause * 2, _LONGEST_UNDONE_PAUSE)
        if len(self._pauses) > _REMEMBERED:
            del self._pauses[next(iter(self._pauses))]
        return pause

    async def end(self, attempt: Attempt) -> None:
        """Roll back what is not committed. What was to go out with it goes alone, as from any step that fails."""
        assert attempt.loan is not None
        await attempt.loan.end()
        # Its middleware may keep the failure to itself: then the step has a result, and no transaction to commit it by.
        attempt.loan = None
        kept, attempt.kept = attempt.kept or (), None
        for item in kept:
            # One past its timeout was abandoned, and ends when it likes: its body may have said something else since.
            if not attempt.held.is_lost and not attempt.is_timed_out:
                self._send(item)


class _Lost(Exception):
    """A function failed with this error while its connection was cut."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def check_colour(step: Any, lender: Lender) -> None:
    """Refuse a transactional step that this store can't lend to."""
    if step.is_async is not lender.is_async:
        expected, found = ("async def", "def") if lender.is_async else ("def", "async def")
        raise DefinitionError(
            f"step {step.name!r}: with transaction=True it gets {lender.kind} in this store, and must be `{expected}`,"
            f" not `{found}`"
        )


def _refuse_settled(attempt: Attempt) -> None:
    """Nobody wants it any more."""
    if attempt.is_settled:
        raise asyncio.CancelledError
