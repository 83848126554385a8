"""Runs that were claimed before there was room for them.

Where another process does the work of a claim, a worker whose places are all taken has nothing to compute while it
waits for one; if its runs are short, that happens again and again. So it claims further runs, as many as it has lately
freed places for within a moment, and lets them in as places are freed: concurrency counts what is let in.

Only runs that nobody has ever begun stand here, so they can always be given back as if they had not been claimed. If
the process dies, they are taken over like the runs of any claim that were yet to begin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from holdfast.model import ClaimedRun, Instant, Message

_REST = 250_000
_LOOKS = 4
"""How often within a moment it is looked at how fast places are freed. A backlog of short runs may be over soon."""


class Ahead:
    """Claimed runs that wait for room, first come first served. They wait hardly longer than a `moment`
    (microseconds)."""

    def __init__(self, moment: int, concurrency: int) -> None:
        self.moment = moment
        """How soon there is to be room for all of them, judged by how fast places were freed lately. 0: nothing is
        claimed ahead."""
        self._most = concurrency
        self._runs: deque[ClaimedRun] = deque()
        self._count = 0
        self._counted_from = 0
        self._expected = 0
        """How many places are likely to be freed within a moment."""
        self._rests_until = 0

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def ids(self) -> list[str]:
        return [run.id for run in self._runs]

    @property
    def first_at(self) -> Instant | None:
        """When the run that stands here longest was claimed."""
        return self._runs[0].claimed_at if self._runs else None

    def freed(self) -> None:
        """Count a place that a run has left."""
        self._count += 1

    def wanted(self, now: int) -> int:
        """How many more runs to claim at the monotonic time `now`; 0 if it would be only a few."""
        if not self.moment or now < self._rests_until:
            return 0
        elapsed = now - self._counted_from
        if elapsed * _LOOKS >= self.moment:
            self._expected = min(self._count * self.moment // elapsed, self._most)
            self._count, self._counted_from = 0, now
        more = self._expected - len(self._runs)
        return more if more > len(self._runs) else 0

    def add(self, runs: Sequence[ClaimedRun]) -> None:
        self._runs.extend(runs)

    def rest(self, now: int) -> None:
        """Claim nothing ahead for a while: other workers want the same runs, the oldest were begun before, or there are
        no more."""
        self._rests_until = now + _REST
        self._count, self._counted_from = 0, self._rests_until
        self._expected = 0

    def receive(self, messages: Sequence[Message]) -> None:
        """Add messages of the inbox to the runs that stand here."""
        mine: dict[str, list[Message]] = {}
        for message in messages:
            mine.setdefault(message.run_id, []).append(message)
        for place, run in enumerate(self._runs):
            if run.id in mine:
                self._runs[place] = _told(run, mine[run.id])

    def take(self, most: int) -> list[ClaimedRun]:
        """Take out up to `most` runs, for which there is room."""
        return [self._runs.popleft() for _ in range(min(most, len(self._runs)))]

    def clear(self) -> list[ClaimedRun]:
        """Take out all runs, to give them back: places are freed more slowly than they seemed to be, or not at all."""
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
