"""The worker's lease: one row to renew, however many runs are held.

The pulse is a thread of its own, so that renewals don't depend on well-behaved user code. It stops renewing when the
worker's loop has not turned for `stall`: then the run on the loop is to blame. It also reports what blocks the loop, be
it a body or a step, with its stack.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable

from holdfast.define import HouseLogger
from holdfast.errors import StoreError
from holdfast.model import spoken
from holdfast.store import Store

from .clock import Clock
from .threads import Threads

_log = HouseLogger("holdfast.worker")
_TICKS = 4
"""How many times a second the pulse beats."""
_FIRST_PAUSE = 200_000
_WHILE_IT_HOLDS = 1_000_000
_LONGEST_PAUSE = 5_000_000
"""The longest pause between two tries to renew. When the lease has lapsed there is no hurry any more: a server that
refuses a whole fleet must not be kept busy with that."""


class Lease:
    """The time until which this worker may begin effects and commit, by its own monotonic clock."""

    def __init__(self, clock: Clock, length: int) -> None:
        self.length = length
        self._clock = clock
        self.until = 0
        self.is_lost = False
        self._is_missed = False
        self._reaps_from = 0

    def holds(self) -> bool:
        return not self.is_lost and self._clock.monotonic() < self.until

    def has_held(self, until: int) -> bool:
        """Whether the lease has held ever since it was to last until `until`."""
        return self.holds() and self._clock.monotonic() < until

    def may_reap(self) -> bool:
        """Whether this worker may end the leases of others. What kept it from renewing its own may have kept them from
        theirs, too, so after that they get the time of a renewal to come back."""
        return self.holds() and self._clock.monotonic() >= self._reaps_from

    def missed(self) -> None:
        """A renewal that was due has failed."""
        self._is_missed = True

    def renewed(self, asked_at: int) -> None:
        """A request sent at `asked_at` has renewed the lease. Counting from there errs on the safe side."""
        if self._is_missed or (self.until and not self.holds()):
            self._is_missed = False
            self._reaps_from = self._clock.monotonic() + self.length // 3
        self.until = max(self.until, asked_at + self.length)


class Pulse:
    """The thread that renews the lease and watches the loop."""

    def __init__(
        self,
        store: Store,
        worker_id: str,
        lease: Lease,
        clock: Clock,
        *,
        stall: int,
        blocked_after: int,
        advancing: Callable[[], tuple[object] | None],
        lost: Callable[[], None],
        renewed: Callable[[], None],
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._lease = lease
        self._clock = clock
        self._stall = stall
        self._blocked_after = blocked_after
        self._advancing = advancing
        self._lost = lost
        self._renewed = renewed
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._turned = clock.monotonic()
        self._is_asked = False
        self._unheard = 0
        """For how many ticks the loop has not answered. A clock would also count the time in which the process was
        halted."""
        self._patience = max(1, blocked_after * _TICKS // 1_000_000)
        self._watched: object = None
        """The advance of a body that was under way at the last look."""
        self._watched_since = 0
        self._is_reported = False
        self._is_away = False
        self._pause = _FIRST_PAUSE
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"holdfast-pulse-{worker_id[-6:]}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    async def join(self) -> None:
        # Not in the loop's default executor: steps may have taken all of its threads, for ever.
        threads = Threads()
        try:
            await threads.call(self._thread.join, (5,), {})
        finally:
            # Also if this wait is cancelled: the thread would wait for its next call for ever.
            threads.close()

    def _run(self) -> None:
        due = self._clock.monotonic() + self._lease.length // 3
        while not self._stop.wait(1 / _TICKS):
            now = self._clock.monotonic()
            self._watch_body(now)
            self._watch_loop()
            self._ask_loop()
            if now >= due:
                if now - self._turned > self._stall:
                    _log.error(
                        "the worker's loop has not turned for %s; its lease is left to end. It is here:\n%s",
                        spoken(now - self._turned),
                        self._stack(),
                    )
                    due = now + self._lease.length // 3
                    continue
                due = now + (self._lease.length // 3 if self._renew(now) else self._next_pause())
            if self._lease.is_lost:
                return

    def _next_pause(self) -> int:
        """How long to wait after a renewal that failed."""
        pause = self._pause
        self._pause = min(2 * pause, _WHILE_IT_HOLDS if self._lease.holds() else _LONGEST_PAUSE)
        return pause

    def _renew(self, asked_at: int) -> bool:
        try:
            seen = self._store.renew_lease(self._worker_id, self._lease.length, now=self._clock.store_time())
        except Exception as error:
            # Any error: without this thread the worker would never begin anything again, and never say why.
            if self._stop.is_set():
                return False
            self._lease.missed()
            if not self._is_away:
                self._is_away = True
                trace = None if isinstance(error, StoreError) else error
                _log.warning("the lease can't be renewed, work goes on until it ends: %s", error, exc_info=trace)
            return False
        self._pause = _FIRST_PAUSE
        if self._is_away:
            self._is_away = False
            _log.warning("the lease could be renewed again")
        if seen is None:
            self._lease.is_lost = True
            self._post(self._lost)
            return True
        self._lease.renewed(asked_at)
        self._clock.observe(seen, asked_at)
        self._post(self._renewed)
        return True

    def _ask_loop(self) -> None:
        if not self._is_asked and self._clock.monotonic() - self._turned > 1_000_000:
            self._is_asked = True
            self._post(self._answer)

    def _answer(self) -> None:
        self._turned = self._clock.monotonic()
        self._is_asked = False

    def _post(self, call: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            # The loop was closed under the worker, so nobody is left to renew for.
            self._stop.set()

    def _watch_body(self, now: int) -> None:
        advancing = self._advancing()
        if advancing is not self._watched:
            self._watched, self._watched_since, self._is_reported = advancing, now, False
        if advancing is None or self._is_reported or now - self._watched_since < self._blocked_after:
            return
        self._is_reported = True
        _log.warning(
            "the body of %r has blocked this worker's loop for %s; a body must only call steps and wait durably: "
            "move slow or blocking work into a step. It is here:\n%s",
            advancing[0],
            spoken(now - self._watched_since),
            self._stack(),
        )

    def _watch_loop(self) -> None:
        self._unheard = self._unheard + 1 if self._is_asked else 0
        if self._unheard != self._patience or self._advancing() is not None:
            return
        _log.warning(
            "this worker's loop has been blocked for %s, and all of its runs with it; a coroutine must not block: "
            "make such a step a `def`, which executes in a thread. It is here:\n%s",
            spoken(self._unheard * 1_000_000 // _TICKS),
            self._stack(),
        )

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)
        return "".join(traceback.format_stack(frame)[-12:]) if frame is not None else "(unknown)"
