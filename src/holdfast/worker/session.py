"""One registration of a worker: its lease, claims and runs. When the lease is lost it ends, and another one begins."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from holdfast.define import HouseLogger
from holdfast.errors import LeaseLost, StoreAway, StoreError
from holdfast.model import Registration, RowWrite, Swept, Turn, new_id
from holdfast.store import Answer, News

from .admission import Admission
from .ahead import Ahead
from .attempts import Attempts
from .claiming import Claiming
from .commits import GroupWriter, weigh_turn
from .given import check_transactions
from .held import Held
from .inside import Inside
from .interrupts import through
from .lease import Lease, Pulse
from .listening import Listening
from .outbox import Outbox
from .plan import Plan
from .registrations import Registrations
from .upkeep import Upkeep

_log = HouseLogger("holdfast.worker")
_STEPS = 1_000
_QUIET = 0.02
_BREATH = 0.001
_TIDY = 5.0


class Session(Claiming):
    """A worker between registering and leaving. `look` finds work; everything else follows from it."""

    _runs_of: type[Admission] = Admission
    _attempts_of: type[Attempts] = Attempts
    swept: Callable[[Swept], None] | None = None

    def __init__(self, plan: Plan, resources: Mapping[object, Any], interrupted: Callable[[], None]) -> None:
        worker_id = f"{socket.gethostname()}-{os.getpid()}-{new_id()[-12:]}"
        super().__init__(worker_id, plan, Lease(plan.clock, plan.lease))
        self.ended = asyncio.Event()
        """Set when the lease is lost or the session has stopped."""
        self._resources = resources
        self._interrupted = interrupted
        self._pulse: Pulse | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self._is_away = False

    async def register(self) -> None:
        """Announce this worker and make it ready to take turns; nothing is claimed yet."""
        plan = self._plan
        self._lender = self.store.lender(plan.lease)
        check_transactions(plan.workflows.values(), self._lender)
        asked_at = self._clock.monotonic()
        declared = [Registration(*known, workflow.declared) for known, workflow in plan.workflows.items()]
        try:
            seen = await self.store.register_worker(
                self.worker_id, plan.lanes, plan.lease, workflows=declared, now=self._clock.store_time()
            )
        except asyncio.CancelledError:
            # The registration may still be written.
            await through(self._leave_no_trace())
            raise
        self._clock.observe(seen, asked_at)
        self.lease.renewed(asked_at)
        self._turns: GroupWriter[Turn, Held] = GroupWriter(self._commit, self.lease, weigh_turn)
        self._rows: GroupWriter[RowWrite, Held] = GroupWriter(self._write, self.lease)
        self.runs = self._runs_of(
            self.worker_id,
            plan.workflows,
            plan.codec,
            self._clock,
            self._turns,
            self._rows,
            concurrency=plan.concurrency,
            keep_parked=plan.keep_parked,
            replay_each_turn=plan.replay_each_turn,
            may_begin=self.lease.holds,
            freed=self._freed,
        )
        self.runs.cleared = self._wake.set
        self.runs.strayed = self._strayed
        self.runs.attempts = self._attempts_of(
            plan.codec,
            self._clock,
            threads=plan.threads,
            in_flight=max(plan.concurrency, _STEPS),
            middleware=plan.middleware,
            may_begin=self._may_begin,
            holds=self.lease.holds,
            done=self.runs.step_ended,
            beat=self._beat,
            interrupted=self._interrupted,
            outbox=Outbox(self.store, self._clock),
        )
        self.runs.attempts.resources = self._resources
        self.runs.attempts.is_cancelled = lambda: any(task.cancelling() for task in self.tasks)
        self.runs.attempts.inside = Inside(
            self._lender,
            store_time=self._clock.store_time,
            may_commit=self.lease.holds,
            undone=self.runs.undone,
            send=self.runs.attempts.outbox.add,
        )

    def start(self, *, with_pulse: bool = True, is_serving: bool = True) -> None:
        """Begin to serve. Without `is_serving` only the lease is renewed, and a drive says when to look for work."""
        plan, loop = self._plan, self._loop
        if with_pulse:
            self._pulse = Pulse(
                self.store, self.worker_id, self.lease, self._clock, stall=plan.stall, blocked_after=plan.blocked_after,
                advancing=lambda: self.runs.advancing, lost=self.lost, renewed=self.renewed,
            )  # fmt: skip  # one line a group reads better here
            self._pulse.start()
        self._unsubscribe = self.store.subscribe(self._changed, News.WORK)
        self._listening = Listening(self.read_inbox, self.match, self.runs.deliver, self._clock.now)
        self.runs.listen = self._listening.add
        self._registrations = Registrations(self.store.read_waits, self.read_inbox, self.runs.deliver)
        self.runs.compare = self._registrations.add
        if not is_serving:
            return
        self.ahead = Ahead(plan.ahead, plan.concurrency)
        kept = self._plan.event_retention
        upkeep = Upkeep(
            self.store, self._clock, self.worker_id, self.lease, self._wake.set, self._changed, self.swept, kept
        )
        self.tasks = [loop.create_task(one) for one in (self._serve(), upkeep.run(), upkeep.sweep())]

    def renewed(self) -> None:
        """The lease holds again: everything that it held up goes on."""
        if self._is_held_up:
            self._is_held_up = False
            self._wake.set()
        self._turns.go_on()
        self._rows.go_on()
        self.runs.attempts.go_on()
        self.runs.renewed()

    def lost(self) -> None:
        """Somebody else has taken our runs over: drop them all at once."""
        if self.ended.is_set():
            return
        _log.error("the worker %s lost its lease; it drops its runs and begins anew", self.worker_id)
        self.lease.is_lost = True
        self.leave()

    def leave(self) -> None:
        """Stop at once, writing nothing: like a crash, but tidily."""
        self.ended.set()
        for task in self.tasks:
            task.cancel()
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
            self._listening.close()
            self._registrations.close()
        self._forget()
        if self._pulse is not None:
            self._pulse.stop()
        self.runs.drop_all()
        self.runs.close()
        self._turns.stop()
        self._rows.stop()
        self.runs.attempts.close()

    def begin_no_more(self) -> None:
        """The session is about to stop: from here on nothing is claimed and no step begins, not even one that stands in
        line."""
        self.runs.is_stopping = True
        self.runs.attempts.empty_line()
        self._wake.set()

    async def stop(self, grace: int | None = None) -> None:
        """Stop claiming, let steps end within the grace period, hand everything back, and leave.

        Until then, messages for the runs that are here are passed on to them. If the caller is cancelled, this no
        longer waits for steps, only until everything is handed back.
        """
        if self.ended.is_set():
            return
        giving = asyncio.ensure_future(self._give_back(self._plan.grace if grace is None else grace))
        left = asyncio.ensure_future(self.ended.wait())
        try:
            await asyncio.wait([giving, left], return_when=asyncio.FIRST_COMPLETED)
            if left.done():
                # The session was told to leave at once, or has lost its lease: nothing more is waited for.
                return
            giving.result()
        except asyncio.CancelledError:
            giving.cancel()
            await through(self._give_back(0))
            raise
        finally:
            giving.cancel()
            left.cancel()
            # Also if the caller gives up: a lease that is still renewed would keep the runs from others.
            self.leave()
        if self._pulse is not None:
            await self._pulse.join()

    async def clear(self) -> None:
        """After a lost lease, remove what is left of this worker, such as its lock. Others have its runs."""
        if self.lease.is_lost:
            await self._leave_no_trace()

    async def _leave_no_trace(self) -> None:
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_TIDY):
                await self.store.remove_worker(self.worker_id)

    async def _give_back(self, grace: int) -> None:
        runs = self.runs
        self.begin_no_more()
        if self.tasks:
            # A claim under way comes to its end: runs that it took must be handed back, and not look like a crash.
            await asyncio.wait(self.tasks[:1], timeout=5)
        self._give_back_ahead()
        for held in [one for one in runs.held.values() if not one.is_busy and not one.is_committing]:
            runs.hand_back(held)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace / 1_000_000):
                while any(held.attempts for held in runs.held.values()):
                    await self._hear_meanwhile()
                    await asyncio.sleep(0)
        try:
            async with asyncio.timeout(5):
                while runs.held:
                    runs.hand_back_all()
                    await self._turns.idle()
                    await self._rows.idle()
                    # A transactional step's turn is in neither of the two, and may take any time.
                    await asyncio.sleep(_BREATH if runs.held else 0)
                if self._doubts:
                    # Runs of a claim whose answer was lost have not begun, so they count no crash. They must not begin
                    # here any more either: if the answer comes now, others may have these runs already.
                    for serving in self.tasks[:1]:
                        serving.cancel()
                    await self.store.release_strays(self.worker_id, [], now=self._clock.store_time())
                await self.store.remove_worker(self.worker_id)
        except (TimeoutError, StoreError) as error:
            # The lease ends by itself, so nothing is lost.
            why = error if isinstance(error, StoreError) else "it does not answer"
            _log.warning("the store is away, others take over from here when the lease ends: %s", why)

    async def _hear_meanwhile(self) -> None:
        """Wait until a step has ended or a message was passed on: a cancel must not wait until the grace period is
        over."""
        self._wake.clear()
        if self._is_changed:
            self._is_changed = False
            try:
                self.runs.deliver(await self.read_inbox())
            except StoreError:
                self._is_changed = True
                await asyncio.sleep(_QUIET)
        elif self.runs.attempts.tasks:
            news = asyncio.ensure_future(self._wake.wait())
            try:
                await asyncio.wait([news, *self.runs.attempts.tasks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
        else:
            # What is open is not in flight: only the end of the grace period ends it.
            await asyncio.sleep(_QUIET)

    async def quiet(self) -> None:
        """Wait until no run here has anything under way, passing messages on meanwhile."""
        while self.is_busy:
            self._wake.clear()
            if self._is_changed:
                self._is_changed = False
                self.runs.deliver(await self.read_inbox())
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(_QUIET):
                    await self._wake.wait()

    @property
    def is_busy(self) -> bool:
        """Whether anything is under way: a run that advances or stands in line, a step in flight, a write, or a
        look."""
        is_written = self._turns.is_idle and self._rows.is_idle
        is_looking = self._listening.is_under_way or self._registrations.is_under_way
        return bool(self.runs.busy or self.runs.line or is_looking or not is_written)

    async def _serve(self) -> None:
        pause = 0.05
        while not self.runs.is_stopping:
            self._wake.clear()
            try:
                await self.look()
            except StoreAway as error:
                if not self._is_away:
                    self._is_away = True
                    _log.warning("the store is away, claims wait for it: %s", error)
                # This look did not come to its end.
                self._is_changed = self._may_match = True
                self._doubts += 1
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)
                continue
            if self._is_away:
                self._is_away = False
                _log.warning("the store is back")
            pause = 0.05
            if not self.runs.is_stopping:
                await self._wake.wait()

    def _may_begin(self) -> bool:
        return not self.runs.is_stopping and self.lease.holds()

    def _commit(self, turns: Sequence[Turn]) -> Awaitable[Sequence[Answer]]:
        return self.store.commit_turns(turns, now=self._clock.store_time())

    def _write(self, writes: Sequence[RowWrite]) -> Awaitable[Sequence[Answer]]:
        return self.store.write_rows(writes)

    def _beat(self, held: Held) -> None:
        # A step may beat in a thread.
        if held.is_taken_over or self.lease.is_lost:
            raise LeaseLost(
                f"{held.info!r} was taken over from the worker {self.worker_id}; nothing comes of this attempt: end it"
            )
        self._loop.call_soon_threadsafe(self.runs.beat, held)
