"""A store whose writes wait until a test lets them through, and a clock that jumps."""

from __future__ import annotations

import asyncio

from holdfast import StoreAway
from holdfast.store import SqliteStore
from holdfast.worker import Alarm
from tests.worker.stage import SkippingClock


class JumpingClock(SkippingClock):
    """Alarms never ring by themselves, and the monotonic clock can jump, as on a machine that stalls."""

    def __init__(self) -> None:
        super().__init__()
        self.jumped = 0

    def monotonic(self) -> int:
        return super().monotonic() + self.jumped

    def call_at(self, when, callback) -> Alarm:
        return super().call_at(when + 10**12, callback)


class Slow(SqliteStore):
    """A store whose writes wait until they are let through, and whose renewals may fail."""

    def __init__(self, url: str) -> None:
        super().__init__(url.removeprefix("sqlite:///"), url, "default")
        self.turns, self.rows = asyncio.Event(), asyncio.Event()
        self.waiting: list[str] = []
        self.delivered = self.looks = 0
        self.is_away = False
        self.failed = 0

    async def commit_turns(self, turns, *, now=None):
        # The write reaches the database; only its answer is delayed.
        answers = await super().commit_turns(turns, now=now)
        self.waiting.append("turns")
        await self.turns.wait()
        return answers

    async def write_rows(self, writes):
        self.waiting.append("rows")
        await self.rows.wait()
        return await super().write_rows(writes)

    async def read_inbox(self, worker_id, *, known=()):
        messages = await super().read_inbox(worker_id, known=known)
        self.delivered += len(messages)
        self.looks += 1
        return messages

    def renew_lease(self, worker_id, lease, *, now=None):
        if self.is_away:
            self.failed += 1
            raise StoreAway("the database is away")
        return super().renew_lease(worker_id, lease, now=now)
