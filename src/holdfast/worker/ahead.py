"""Runs that were claimed before there was room for them.

Where another process does the work of a claim, a worker whose places are all taken waits for it with nothing to
compute, again and again, if its runs are short. So it claims further ones, as many as it has lately freed places for
within a moment, and lets them in as places are freed: concurrency counts what is let in.

Only runs that nobody has ever begun stand here: whatever becomes of them here, they can be given back as if they had
not been claimed. A process that dies leaves them to a takeover, as it does the runs of any claim that were yet to
begin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from holdfast.model import ClaimedRun, Instant, Message

_REST = 1_000_000


class Ahead:
    """Claimed runs that wait for room, first come first, for hardly longer than a moment of so many microseconds."""

    def __init__(self, moment: int, concurrency: int) -> None:
        self.moment = moment
        """How soon there is to be room for all of them, by what was freed lately. 0: none is claimed ahead."""
        self._most = concurrency
        self._runs: deque[ClaimedRun] = deque()
        self._count = 0
        self._counted_from = 0
        self._expected = 0
        """Places that are likely to be free within a moment."""
        self._rests_until = 0

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def ids(self) -> list[str]:
        return [run.id for run in self._runs]

    @property
    def first_at(self) -> Instant | None:
        """When the one that stands here longest was claimed."""
        return self._runs[0].claimed_at if self._runs else None

    def freed(self) -> None:
        """A run has left its place to another."""
        self._count += 1

    def wanted(self, now: int) -> int:
        """How many more to claim, by the monotonic clock's `now`; none if it would be a few only."""
        if not self.moment or now < self._rests_until:
            return 0
        elapsed = now - self._counted_from
        if elapsed >= self.moment:
            self._expected = min(self._count * self.moment // elapsed, self._most)
            self._count, self._counted_from = 0, now
        more = self._expected - len(self._runs)
        return more if more > len(self._runs) else 0

    def add(self, runs: Sequence[ClaimedRun]) -> None:
        self._runs.extend(runs)

    def rest(self, now: int) -> None:
        """Claim none for a while: others want the same, or what is oldest was begun before, or there are no more."""
        self._rests_until = now + _REST
        self._count, self._counted_from = 0, self._rests_until
        self._expected = 0

    def receive(self, messages: Sequence[Message]) -> None:
        """The inbox was read: what has come for these is there when they are let in."""
        mine: dict[str, list[Message]] = {}
        for message in messages:
            mine.setdefault(message.run_id, []).append(message)
        for place, run in enumerate(self._runs):
            if run.id in mine:
                self._runs[place] = _told(run, mine[run.id])

    def take(self, most: int) -> list[ClaimedRun]:
        """Those that there is room for."""
        return [self._runs.popleft() for _ in range(min(most, len(self._runs)))]

    def clear(self) -> list[ClaimedRun]:
        """All of them: they are to go back. Places are freed more slowly than it seemed, or no more."""
        self._expected = self._count = 0
        return self.take(len(self._runs))


def _told(run: ClaimedRun, messages: Sequence[Message]) -> ClaimedRun:
    known = {message.id for message in run.inbox}
    fresh = [message for message in messages if message.id not in known]
    pauses = [message for message in fresh if message.kind == "pause"]
    return msgspec.structs.replace(
        run,
        inbox=(*run.inbox, *(message for message in fresh if message.kind != "pause")),
        is_paused=pauses[-1].payload == b"paused" if pauses else run.is_paused,
    )
