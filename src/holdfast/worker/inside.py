"""Transactional steps, from the worker's side: executed in a transaction of the store, and committed with it.

The result of such a step is taken in by a turn like any other, but that turn is written by the transaction in which the
step's function wrote. It is the run's one uncommitted turn:

- It is made only when no other write of the run is under way. What arrives meanwhile waits for the next turn.
- On a store whose transactions exclude all others (SQLite), the run's other turns wait from the beginning of the
  transaction: they could not be written anyway, and would wait for the transaction while it waited for them. What the
  step sends could not be written either: it is kept, and the transaction writes it, before the turn.
- In a paused run no body takes the result in. The transaction records it for later, behind a `blocked` entry, whatever
  else of the run is in flight.
- If the turn is refused, the transaction is rolled back, and the run is dropped as after any refused turn. If the turn
  was not refused but did not happen either, the body has got a result that was never recorded. So the body is thrown
  away, and the run begins anew from its journal, after a pause that grows: the cause, such as a full disk, may last.

Crash before the COMMIT: neither the user's writes nor the turn are there, and the step executes again. Crash after it:
both are there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from holdfast.define import HouseLogger
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
"""For how many runs a worker remembers how long they are to pause the next time."""
_log = HouseLogger("holdfast.worker")
InThread = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Awaitable[Any]]
Limit = Callable[[Attempt], None]
"""Begins the time of an attempt."""


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
        """The next pause of each run whose last transaction did not happen."""

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
                # This is not the step's fault, and counts as no attempt.
                pass
            else:
                if self._may_commit():
                    attempt.loan = loan
                    attempt.kept = [] if self.lender.is_exclusive else None
                    _refuse_settled(attempt)
                    return
                # The lease lapsed during the wait: nothing begins until it is renewed. If it is lost, this is
                # cancelled.
                await loan.end()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            _refuse_settled(attempt)

    async def execute(
        self, attempt: Attempt, args: tuple[Any, ...], kwargs: dict[str, Any], in_thread: InThread, limit: Limit
    ) -> Any:
        """Call the step's function with the connection first. After an error the transaction is rolled back before
        anybody learns of the error.

        A function whose connection was cut is called again with another one: the store was away, which must not use up
        the step's attempts or its time. Not for ever, for the function itself may be cutting it; and not if it has sent
        anything.
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
                # The driver's own message says only that the connection is closed.
                error.add_note(f"the step {attempt.key!r} {why}")
            elif why and why != LOST:
                raise FatalError(f"the step {attempt.key!r} {why}") from error
            raise

    async def ready(self, attempt: Attempt) -> None:
        """Wait until the run has no other write under way. The caller must go on to its commit without giving way."""
        if not self.lender.is_exclusive:
            await self._gate(attempt)

    async def _gate(self, attempt: Attempt) -> None:
        while attempt.held.is_committing:
            _refuse_settled(attempt)
            await asyncio.sleep(_PAUSE)
        _refuse_settled(attempt)

    async def commit(self, attempt: Attempt) -> None:
        """Commit the turn that took the result in, if there is one."""
        if attempt.turn is None:
            return
        turn, told = attempt.turn
        attempt.turn = None
        assert attempt.loan is not None
        verdict: bool | Undone = Undone("the lease has lapsed")
        # What was kept goes with the turn, or is sent again when the step executes again. Not by `end` as well, for
        # nobody may know whether the commit has happened.
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

    async def left(self, attempt: Attempt, kind: object, error: BaseException | None, where: object) -> None:
        """Its middleware was left. If that failed after the function, nothing is committed, as after a failure of the
        function: what was kept goes out before anybody learns of it."""
        if error is not None and attempt.loan is not None:
            await self.end(attempt)

    async def end(self, attempt: Attempt) -> None:
        """Roll back what is not committed. What the step has sent goes out alone, as from any step that fails."""
        assert attempt.loan is not None
        await attempt.loan.end()
        # Middleware may swallow the failure: then the step has a result, but no transaction to commit it with.
        attempt.loan = None
        kept, attempt.kept = attempt.kept or (), None
        for item in kept:
            # An attempt past its timeout was abandoned and ends at any time: its body may have sent something else
            # since.
            if not attempt.held.is_lost and not attempt.is_timed_out:
                self._send(item)


class _Lost(Exception):
    """The function failed with this error when its connection was cut."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def check_colour(step: Any, lender: Lender) -> None:
    """Refuse a transactional step that this store can't lend a connection to."""
    if step.is_async is not lender.is_async:
        expected, found = ("async def", "def") if lender.is_async else ("def", "async def")
        raise DefinitionError(
            f"step {step.name!r}: with transaction=True it gets {lender.kind} in this store, and must be `{expected}`,"
            f" not `{found}`"
        )


def _refuse_settled(attempt: Attempt) -> None:
    """Cancel an attempt whose result nobody wants any more."""
    if attempt.is_settled:
        raise asyncio.CancelledError
