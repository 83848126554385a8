"""Group commit: everything that this worker's runs want written while a commit is under way goes out in the next one.

There is no timer and no artificial delay: alone, a turn is one commit; under load, hundreds are one. A store that is
away has refused nothing: the batch waits and is sent again unchanged until it is answered. If the store is away for one
item only, that item waits alone, longer each time, while the others go on: a run has at most one uncommitted write, so
no later write of the same run can overtake it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from holdfast.define import HouseLogger
from holdfast.errors import StoreAway, StoreError
from holdfast.model import Turn
from holdfast.store import Answer

from .lease import Lease

_log = HouseLogger("holdfast.worker")
T = TypeVar("T")
S = TypeVar("S")
_BATCH = 512
_BYTES = 64 * 1024 * 1024
"""The most bytes of values in a group. Postgres hangs up on whoever sends a gigabyte, which looks as if it were away;
and renewals wait while so much is sent."""
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_FIRST_PAUSE_ALONE = 0.005
_LOGGED_AT = 0.5

Verdict: TypeAlias = bool | StoreError
"""Accepted, refused, or the error because of which the write can never be stored."""
_Entry: TypeAlias = tuple[T, Callable[[S, T, Verdict], None], S]
_Batch: TypeAlias = list[_Entry[T, S]]


class GroupWriter(Generic[T, S]):
    """Writes items in groups, in order. For each item it calls `told` with the subject that came with it and the
    verdict."""

    def __init__(
        self,
        write: Callable[[Sequence[T]], Awaitable[Sequence[Answer]]],
        lease: Lease,
        weigh: Callable[[T], int] | None = None,
    ) -> None:
        self._write = write
        self._lease = lease
        self._weigh = weigh
        self._queue: _Batch[T, S] = []
        self._batches: list[_Batch[T, S]] = []
        """The batch that is on its way, or is sent next; behind it the parts of a failed batch."""
        self._waiting: dict[int, asyncio.TimerHandle] = {}
        """Timers of the entries that wait alone to be sent again, by the entries' identity."""
        self._pauses: dict[int, float] = {}
        """How long each of these entries waits the next time; kept until it is answered."""
        self._is_called = False
        self._is_sent = False
        self._pause = _FIRST_PAUSE
        self._idle: asyncio.Event | None = None
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        """The worker's own context: writes are added in the contexts of steps, which must not be seen here."""
        self._answering: asyncio.Future[Sequence[Answer]] | None = None
        """Only to hold it: the loop alone would let the collector take a write that is under way."""

    def add(self, item: T, told: Callable[[S, T, Verdict], None], subject: S, *, is_alone: bool = False) -> None:
        """Write an item with the next group. `is_alone` says that nobody else is likely to add anything, so that it may
        go now."""
        self._enqueue((item, told, subject), is_alone)

    def _enqueue(self, entry: _Entry[T, S], is_alone: bool) -> None:
        self._queue.append(entry)
        if self._batches or self._is_called:
            return
        if is_alone:
            self._send()
        else:
            # At the end of this turn of the loop, so that what other callbacks add goes out with it.
            self._is_called = True
            self._loop.call_soon(self._begin, context=self._context)

    @property
    def is_idle(self) -> bool:
        return not self._batches and not self._queue and not self._waiting

    async def idle(self) -> None:
        """Wait until everything added so far has been answered."""
        while not self.is_idle:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()
            self._idle = None

    def stop(self) -> None:
        """Forget everything that is queued: its runs are lost."""
        self._queue = []
        self._batches = []
        for handle in self._waiting.values():
            handle.cancel()
        self._waiting = {}
        self._pauses = {}
        if self._idle is not None:
            self._idle.set()

    def go_on(self) -> None:
        """The lease was renewed or is lost: send the batch that waited for that."""
        if self._batches and not self._is_sent:
            self._send()

    def _begin(self) -> None:
        self._is_called = False
        if self._queue and not self._batches:
            self._send()

    def _send(self) -> None:
        if not self._batches:
            count = self._count_of_next()
            self._batches = [self._queue[:count]]
            self._queue = self._queue[count:]
        batch = self._batches[0]
        if self._lease.is_lost:
            # Whoever took the runs over does not miss this batch.
            self._answer(batch, [False] * len(batch))
            return
        if not self._lease.holds():
            # Nothing commits while the lease has lapsed. `go_on` is called when it is renewed or lost.
            return
        self._is_sent = True
        answering: asyncio.Future[Sequence[Answer]]
        try:
            answering = self._answering = asyncio.ensure_future(self._write([item for item, _, _ in batch]))
        except Exception as error:
            # Any error counts as an answer: without one nothing would ever be sent again.
            answering = self._answering = self._loop.create_future()
            answering.set_exception(error)
        answering.add_done_callback(self._answered, context=self._context)

    def _count_of_next(self) -> int:
        """How many items go out together: bounded by number and by bytes, and at least one."""
        most = min(len(self._queue), _BATCH)
        if self._weigh is None or most == 1:
            return most
        weight = 0
        for place in range(most):
            weight += self._weigh(self._queue[place][0])
            if weight > _BYTES and place:
                return place
        return most

    def _answered(self, answer: asyncio.Future[Sequence[Answer]]) -> None:
        self._is_sent = False
        if answer.cancelled():
            return
        # The exception is looked at even if nobody is left to be told: asyncio would report it otherwise.
        error = answer.exception()
        if not self._batches:
            return
        batch = self._batches[0]
        if error is None:
            self._answer(batch, answer.result())
        else:
            self._failed(batch, error)

    def _answer(self, batch: _Batch[T, S], answers: Sequence[Answer]) -> None:
        if self._pause != _FIRST_PAUSE:
            self._pause = _FIRST_PAUSE
            _log.warning("the store is back")
        if self._batches and self._batches[0] is batch:
            del self._batches[0]
        if self._batches or self._queue:
            # The store works on the next batch while this worker computes what follows from this one.
            self._send()
        for entry, answer in zip(batch, answers, strict=True):
            if answer.__class__ is not bool and isinstance(answer, StoreAway):
                self._wait(entry, answer)
                continue
            if self._pauses:
                self._pauses.pop(id(entry), None)
            item, told, subject = entry
            try:
                told(subject, item, answer)
            except Exception:
                # The other entries of the group must get their answers, too.
                _log.exception("a write was answered %s, and what follows from that failed", answer)
        if self._idle is not None and self.is_idle:
            self._idle.set()

    def _wait(self, entry: _Entry[T, S], error: StoreAway) -> None:
        """One entry has to wait; no other entry waits for it."""
        pause = self._pauses.get(id(entry), _FIRST_PAUSE_ALONE)
        if pause < _LOGGED_AT <= pause * 2:
            _log.warning("a write has to wait and is sent again: %s", error)
        self._pauses[id(entry)] = min(pause * 2, _LONGEST_PAUSE)
        self._waiting[id(entry)] = self._loop.call_later(pause, self._again, entry, context=self._context)

    def _again(self, entry: _Entry[T, S]) -> None:
        del self._waiting[id(entry)]
        self._enqueue(entry, False)

    def _failed(self, batch: _Batch[T, S], error: BaseException) -> None:
        if isinstance(error, StoreAway):
            if self._pause == _FIRST_PAUSE:
                _log.warning("the store is away, %d writes wait for it: %s", len(batch), error)
            self._loop.call_later(self._pause, self.go_on, context=self._context)
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        elif len(batch) == 1:
            found = error if isinstance(error, StoreError) else StoreError(f"{type(error).__name__}: {error}")
            found.__cause__ = error if found is not error else error.__cause__
            self._answer(batch, [found])
        else:
            # One item that can never be stored must not hold up the others: halve the batch until that item is alone.
            half = len(batch) // 2
            self._batches[:1] = [batch[:half], batch[half:]]
            self._send()


def weigh_turn(turn: Turn) -> int:
    """How many bytes of values a turn writes."""
    weight = len(turn.data)
    if turn.change is not None and turn.change.output is not None:
        weight += len(turn.change.output)
    if turn.out is not None:
        weight += sum(len(child.input) for child in turn.out.children)
        weight += sum(len(signal.payload) for signal in turn.out.signals)
        weight += sum(len(event.payload) for event in turn.out.events)
        weight += sum(len(value) for _, value in (*turn.out.values, *turn.out.items))
    return weight
