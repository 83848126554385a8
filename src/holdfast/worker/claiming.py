"""What a session claims, and when. It delivers messages, matches events, and claims runs as far as there is room for
them.

An idle worker asks when the next run is due and sleeps until then. A busy one claims without asking, as long as it gets
as many runs as it asks for.
"""

from __future__ import annotations

import asyncio
import contextvars
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from holdfast.errors import LeaseLost
from holdfast.model import ClaimedRun, Instant, Message

from .admission import Admission
from .ahead import Ahead
from .clock import Alarm
from .events import Matchmaker
from .lease import Lease
from .plan import Plan

_CLAIM = 200
_LOST_RACE = 50_000
_MOMENTS = 2
"""How many moments a run stands ahead at most. By then the guess that there would be room for it was wrong."""


class Claiming(ABC):
    """A session's looks for work."""

    runs: Admission

    def __init__(self, worker_id: str, plan: Plan, lease: Lease) -> None:
        self.worker_id = worker_id
        self.lease = lease
        self.store = plan.store
        self.taken = 0
        """How many runs this session has taken on."""
        self.is_crowded = False
        """There was no room for another run at the last look."""
        self.ahead = Ahead(0, 0)
        self._plan = plan
        self._clock = plan.clock
        self._wake = asyncio.Event()
        self._alarm: Alarm | None = None
        self._ahead_alarm: Alarm | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._is_held_up = self._has_backlog = False
        self._doubts = 0
        """How often the store may have given this worker a run that is not here, without being told since. A claim
        counts until it is answered."""
        self._is_changed = self._may_match = True
        self._matchmaker = Matchmaker(plan.store, plan.codec, plan.clock)
        self._matching = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()

    @abstractmethod
    def lost(self) -> None:
        """The lease is lost: drop all runs."""

    async def look(self) -> int:
        """Deliver fresh messages, claim what is due, and match events. Returns how many runs were claimed."""
        self._is_held_up = False
        claimed = await self._take()
        if self._may_match or self._unsubscribe is None:
            self._may_match = False
            # A page at a time, so that a flood of events keeps nothing else waiting.
            while await self._match_page() and not self.runs.is_stopping:
                claimed += await self._take()
        return claimed

    async def _take(self) -> int:
        if (self.runs.held or self.ahead) and (self._is_changed or self._unsubscribe is None):
            self._is_changed = False
            messages = await self.read_inbox()
            self.ahead.receive(messages)
            self.runs.deliver(messages)
        if doubts := self._doubts:
            # The store may hold runs for this worker that are not here: the answer to a claim was lost, the store has
            # lost a hand-back, or a turn was refused though nobody else has the run. Such a run would wait for us for
            # ever.
            ours = [*self.runs.held, *self.ahead.ids]
            await self.store.release_strays(self.worker_id, ours, now=self._clock.store_time())
            # Only the doubts from before: runs dropped during the call were in `ours`.
            self._doubts -= doubts
        claimed_now = 0
        while not self.runs.is_stopping and self.lease.holds():
            room = self._plan.concurrency - self.runs.busy - len(self.runs.line)
            self.is_crowded = room <= 0
            if self.ahead and not self.is_crowded:
                chosen = self.ahead.take(room)
                claimed_now += len(chosen)
                self._admit(chosen)
                continue
            try:
                if self.is_crowded:
                    # Once per look: during a backlog there may always be room again when this is done.
                    await self._claim_ahead()
                    break
                claimed = await self._claim_due(min(room, _CLAIM))
            except LeaseLost:
                # By our own clock the lease holds. The machine slept, or somebody set the store's clock.
                self.lost()
                break
            if claimed is None:
                break
            claimed_now += len(claimed)
            self._admit(claimed)
            if claimed and (self._is_changed or self._may_match):
                # Something has come meanwhile, and must not wait for the whole backlog.
                self._wake.set()
                break
        # Nothing is claimed while the lease has lapsed; only the next renewal will begin another look.
        self._is_held_up = self._is_held_up or not self.lease.holds()
        return claimed_now

    async def read_inbox(self) -> list[Message]:
        """Messages that have come for runs held here, except those that are here already."""
        return await self.store.read_inbox(self.worker_id, known=self.runs.unread())

    async def _claim_due(self, limit: int) -> list[ClaimedRun] | None:
        """Claim up to `limit` runs; None if none is due."""
        # If the last claim got all that it asked for there are likely more runs: no need to ask first.
        if not self._has_backlog:
            due_at = await self.store.next_due(
                self._plan.lanes, suspects=self.runs.may_suspect, now=self._clock.store_time()
            )
            if due_at is None or due_at > self._clock.now():
                self._wake_at(due_at)
                return None
        claimed = await self._claim(limit)
        if not claimed and not self._has_backlog:
            # Another worker was faster, or our clock is ahead of the store's.
            self._wake_at(self._clock.now() + _LOST_RACE)
            return None
        self._has_backlog = len(claimed) == limit
        return claimed

    async def _claim_ahead(self) -> None:
        """Claim some runs for which there is no room yet, if that is worth it: runs that nobody has ever begun.

        A place that is freed brings about the next look. If any of the oldest runs was begun before, this claim gets
        fewer than it asked for; then the next claim is an ordinary one, and takes that run.
        """
        limit = min(self.ahead.wanted(self._clock.monotonic()), _CLAIM) if self._has_backlog else 0
        if limit:
            claimed = await self._claim(limit, is_ahead=True)
            self._has_backlog = len(claimed) == limit
            self.ahead.add(claimed)
            if not self._has_backlog:
                self.ahead.rest(self._clock.monotonic())
            self._watch_ahead()

    def _watch_ahead(self) -> None:
        """Give the runs that stand ahead back before they have stood there for long: other workers may have room for
        them."""
        first_at = self.ahead.first_at
        if self._ahead_alarm is None and first_at is not None:
            self._ahead_alarm = self._clock.call_at(first_at + _MOMENTS * self.ahead.moment, self._waited)

    def _waited(self) -> None:
        self._ahead_alarm = None
        first_at = self.ahead.first_at
        if first_at is not None and first_at + _MOMENTS * self.ahead.moment <= self._clock.now():
            self._give_back_ahead()
        self._watch_ahead()

    def _give_back_ahead(self) -> None:
        for run in self.ahead.clear():
            self.runs.give_back(run)

    async def match(self) -> None:
        """Match all events and waits that nobody has looked at."""
        while await self._match_page():
            pass

    async def _match_page(self) -> bool:
        async with self._matching:
            return await self._matchmaker.look()

    def _admit(self, claimed: Sequence[ClaimedRun]) -> None:
        self.taken += len(claimed)
        if self.runs.is_stopping:
            # None of these would begin here any more.
            for run in claimed:
                if run.is_untouched:
                    self.runs.give_back(run)
            claimed = [run for run in claimed if not run.is_untouched]
        self.runs.admit(claimed)

    async def _claim(self, limit: int, run_id: str | None = None, *, is_ahead: bool = False) -> list[ClaimedRun]:
        self._doubts += 1
        self.runs.reserved = 0 if is_ahead else limit
        asked_at = self._clock.monotonic()
        try:
            cached, now = self.runs.cached(), self._clock.store_time()
            claimed = await self.store.claim_runs(
                self.worker_id, self._plan.lanes, limit, run_id=run_id, cached=cached, unbegun=is_ahead,
                suspects=int(self.runs.may_suspect), now=now,
            )  # fmt: skip  # one line a group reads better here
        finally:
            self.runs.reserved = 0
            if self.runs.line:
                self._loop.call_soon(self._next_in_line, context=self._context)
        self._doubts -= 1
        if claimed:
            self._clock.observe(claimed[0].claimed_at, asked_at)
        return claimed

    async def claim_only(self, run_id: str) -> int:
        """Claim one run, if it is due, and take it on."""
        claimed = await self._claim(1, run_id)
        self._admit(claimed)
        return len(claimed)

    def _strayed(self) -> None:
        self._doubts += 1
        self._wake.set()

    def _changed(self) -> None:
        """Somebody else may have written something for this worker."""
        self._is_changed = self._may_match = True
        self._wake.set()

    def _wake_at(self, when: Instant | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if when is not None:
            self._alarm = self._clock.call_at(when, self._wake.set)

    def _freed(self) -> None:
        self.ahead.freed()
        if self.runs.line:
            self._loop.call_soon(self._next_in_line, context=self._context)
        if self.is_crowded or self.runs.busy == 0:
            self._wake.set()

    def _next_in_line(self) -> None:
        self.runs.next_in_line()
        # Runs in line may leave their places at once, without having taken a turn. The last look stopped because of
        # them.
        if self.is_crowded:
            self._wake.set()

    def _forget(self) -> None:
        """Look for nothing any more. Runs that stand ahead are left to whoever takes them over."""
        for alarm in (self._alarm, self._ahead_alarm):
            if alarm is not None:
                alarm.cancel()
        self.ahead.clear()
