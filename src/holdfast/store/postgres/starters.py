"""Group commit for starts: all that callers want started while a commit is under way goes out with the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from holdfast.errors import StoreAway
from holdfast.model import Instant, NewRun, StartedRun

from .connections import sqlstate
from .links import Pool
from .starts import is_takeover, start_runs
from .transactions import Transaction

_UNIQUE = "23505"
_TRIES = 5
_MOST = 1_000
T = TypeVar("T")


class _Call(NamedTuple):
    runs: Sequence[NewRun]
    now: Instant | None
    answer: asyncio.Future[list[StartedRun]]


class Starter:
    """Lives on the store's own loop."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._queue: list[_Call] = []
        self._is_sending = False

    async def start(self, runs: Sequence[NewRun], now: Instant | None) -> list[StartedRun]:
        """Start these with the next commit."""
        answer: asyncio.Future[list[StartedRun]] = asyncio.get_running_loop().create_future()
        self._queue.append(_Call(runs, now, answer))
        if not self._is_sending:
            self._is_sending = True
            try:
                while self._queue:
                    await self._send()
            finally:
                self._is_sending = False
        return await answer

    async def _send(self) -> None:
        first = self._queue[0]
        group: list[_Call] = []
        count = 0
        while self._queue and self._queue[0].now == first.now and (not group or count < _MOST):
            call = self._queue.pop(0)
            group.append(call)
            count += len(call.runs)
        try:
            answers = await self._started([run for call in group for run in call.runs], first.now)
        except Exception as error:
            if len(group) == 1 or isinstance(error, StoreAway):
                for call in group:
                    if not call.answer.done():
                        call.answer.set_exception(error if len(group) == 1 else StoreAway(*error.args))
            else:
                # One that can't be started must not take the others with it.
                for call in group:
                    await self._alone(call)
            return
        for call in group:
            part, answers = answers[: len(call.runs)], answers[len(call.runs) :]
            if not call.answer.done():
                call.answer.set_result(part)

    async def _alone(self, call: _Call) -> None:
        try:
            call.answer.set_result(await self._started(call.runs, call.now))
        except Exception as error:
            call.answer.set_exception(error)

    async def _started(self, runs: Sequence[NewRun], now: Instant | None) -> list[StartedRun]:
        async def deed(tx: Transaction) -> list[StartedRun]:
            return await start_runs(tx, runs, now)

        is_one = not any(is_takeover(run) for run in runs)
        return await again_if_taken(lambda: self._pool.run(deed, is_one=is_one))


async def again_if_taken(start: Callable[[], Awaitable[T]]) -> T:
    """Start runs, again if another process has started one with the same id between two statements: it is found now."""
    for left in range(_TRIES - 1, -1, -1):
        try:
            return await start()
        except Exception as error:
            if sqlstate(error) != _UNIQUE or not left:
                raise
    raise AssertionError("a start that is tried ends")
