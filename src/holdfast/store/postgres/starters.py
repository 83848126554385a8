"""Group commit for starts: all runs that callers want started during a commit are started by the next one.

A caller's own transaction that is still open may hold a key. A start with that key has to wait for it, and no other
start does: a group hardly waits for keys. If one is not free in time, the starts with keys leave the group, and each
tries again by itself, now and then, holding nothing meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from holdfast.errors import StoreAway
from holdfast.model import Instant, NewRun, StartedRun
from holdfast.store.starts import is_takeover, parts_of

from .connections import is_held_up, sqlstate
from .links import Pool
from .starts import start_runs
from .transactions import Transaction

_UNIQUE = "23505"
_TRIES = 5
_MOST = 1_000
_PATIENCE = 30.0
T = TypeVar("T")


class _Call(NamedTuple):
    runs: Sequence[NewRun]
    now: Instant | None
    answer: asyncio.Future[list[StartedRun]]

    def keys(self) -> set[tuple[str, str]]:
        """The keys that it asks for, any of which somebody else may hold."""
        return {(run.workflow, run.key) for run in self.runs if run.key is not None}

    def tell(self, started: list[StartedRun]) -> None:
        """Answer, unless the caller has given up."""
        if not self.answer.done():
            self.answer.set_result(started)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Starter:
    """Starts runs for all callers. It lives on the store's own loop."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._queue: list[_Call] = []
        self._sending: asyncio.Task[None] | None = None
        self._stuck: set[tuple[str, str]] = set()
        """The keys that starts wait for, each by itself."""
        self._waiting: set[asyncio.Task[None]] = set()

    async def start(self, runs: Sequence[NewRun], now: Instant | None) -> list[StartedRun]:
        """Start these with the next commit."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[StartedRun]] = loop.create_future()
        self._queue.append(_Call(runs, now, answer))
        if self._sending is None:
            # In a task of its own: the first caller would have to wait for all that come while it sends.
            self._sending = loop.create_task(self._send_all())
        return await answer

    async def _send_all(self) -> None:
        try:
            while self._queue:
                await self._send()
        finally:
            self._sending = None

    async def _send(self) -> None:
        first = self._queue[0]
        group: list[_Call] = []
        count = 0
        while self._queue and self._queue[0].now == first.now and (not group or count < _MOST):
            call = self._queue.pop(0)
            if self._stuck and not self._stuck.isdisjoint(call.keys()):
                self._wait(call)
                continue
            group.append(call)
            count += len(call.runs)
        if group:
            await self._send_group(group, first.now)

    async def _send_group(self, group: list[_Call], now: Instant | None) -> None:
        try:
            answers = await self._started([run for call in group for run in call.runs], now)
        except Exception as error:
            if is_held_up(error):
                free = [call for call in group if not call.keys()]
                for call in group:
                    if call.keys():
                        self._wait(call)
                if free and len(free) < len(group):
                    await self._send_group(free, now)
                    return
                group = free
            if len(group) == 1 or isinstance(error, StoreAway):
                for call in group:
                    call.fail(error if len(group) == 1 else StoreAway(*error.args))
            else:
                # One of them can't be started, which must not affect the others.
                for call in group:
                    await self._alone(call)
            return
        for call in group:
            part, answers = answers[: len(call.runs)], answers[len(call.runs) :]
            call.tell(part)

    async def _alone(self, call: _Call) -> None:
        try:
            call.tell(await self._started(call.runs, call.now))
        except Exception as error:
            if is_held_up(error) and call.keys():
                self._wait(call)
            else:
                call.fail(error)

    def _wait(self, call: _Call) -> None:
        keys = call.keys() - self._stuck
        self._stuck |= keys
        task = asyncio.get_running_loop().create_task(self._wait_for_keys(call, keys))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _wait_for_keys(self, call: _Call, keys: set[tuple[str, str]]) -> None:
        """Try again until the keys are free or taken, for as long as `_PATIENCE` allows."""
        try:
            call.tell(await self._started(call.runs, call.now, is_patient=True))
        except Exception as error:
            call.fail(error)
        finally:
            self._stuck -= keys

    async def _started(
        self, runs: Sequence[NewRun], now: Instant | None, *, is_patient: bool = False
    ) -> list[StartedRun]:
        """Start runs. Without `is_patient`, don't wait for keys. Nothing else that may be locked, such as a lane, is
        locked for long."""

        async def deed(tx: Transaction) -> list[StartedRun]:
            return await start_runs(tx, runs, now)

        is_one = len([*parts_of(runs)]) == 1 and not any(is_takeover(run) or run.is_retry for run in runs)
        patience = _PATIENCE if is_patient or all(run.key is None for run in runs) else 0
        return await again_if_taken(lambda: self._pool.run(deed, is_one=is_one, patience=patience))


async def again_if_taken(start: Callable[[], Awaitable[T]]) -> T:
    """Start runs. If another process starts one with the same id between two of our statements, start them once more:
    then that run is found."""
    for left in range(_TRIES - 1, -1, -1):
        try:
            return await start()
        except Exception as error:
            if sqlstate(error) != _UNIQUE or not left:
                raise
    raise AssertionError("a start that is tried ends")
