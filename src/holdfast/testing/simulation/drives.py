"""Drives: processes that take turns for a while and go, beside workers, beside each other, or alone.

They keep every promise that workers keep. And the answer of a drive is true:

- "ended": the run has ended. "budget": so much time has passed.
- "waiting": nothing that it was asked for was due when it looked for the last time.
- `taken` is how many runs it has claimed.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Protocol

from holdfast.errors import LeaseLost, RunNotFound, StoreAway
from holdfast.model import RunRecord
from holdfast.worker import Driven, Session, drive

from .oracle import Oracle
from .processes import Process

MOST = 4
"""How many drives there are at once, at most."""


class Judge(Protocol):
    """What a drive needs of the laws."""

    has_clock_jumped: bool
    looks: dict[str, frozenset[str]]
    claims: dict[str, int]

    def record(self, run_id: str) -> RunRecord: ...


class Drive(Process):
    """A process that drives once."""

    def __init__(self, *args: Any, run_id: str | None, budget: float, judge: Judge, **given: Any) -> None:
        super().__init__(*args, **given)
        self._run_id = run_id
        self._budget = budget
        self._judge = judge
        self.is_passing = True

    async def _run(self) -> None:
        what = "whatever is due" if self._run_id is None else self.oracle.label(self._run_id)
        self.oracle.note(f"{self.name} drives {what} for {self._budget}s")
        try:
            session = await self._registered(_Pulseless)
            self._live(session)
            began_at = self.loop.microseconds
            driven = await drive(session, self._plan, self._run_id, self._budget)
        except (StoreAway, LeaseLost, RunNotFound) as error:
            self.oracle.note(f"{self.name} gives up: {type(error).__name__}")
        else:
            self.oracle.note(f"{self.name} says {driven.reason}, after {driven.taken} runs")
            self._check(driven, session.worker_id, self.loop.microseconds - began_at)
        self._end()

    def _check(self, driven: Driven, worker_id: str, took: int) -> None:
        oracle, judge = self.oracle, self._judge
        if driven.taken != judge.claims.get(worker_id, 0):
            oracle.report("drives", f"{self.name} has claimed {judge.claims.get(worker_id, 0)} runs: {driven}")
        if driven.reason == "budget" and took < round(self._budget * 1_000_000):
            oracle.report("drives", f"{self.name} has spent {took}us of its {self._budget}s: {driven}")
        if driven.done and not {driven.run_id} & (oracle.ended.keys() | oracle.gone):
            oracle.report("drives", f"{oracle.label(str(driven.run_id))} has not ended: {driven}")
        if driven.reason == "waiting" and not judge.has_clock_jumped:
            if worker_id not in judge.looks:
                oracle.report("drives", f"{self.name} has never looked: {driven}")
            self._check_waiting(judge.looks.get(worker_id, frozenset()))

    def _check_waiting(self, left: frozenset[str]) -> None:
        for run_id in left if self._run_id is None else left & {self._run_id}:
            if run_id in self.oracle.ended:
                continue
            record = self._judge.record(run_id)
            if record.owner is None and not record.paused and (record.workflow, record.version) in self._plan.workflows:
                self.oracle.report(
                    "drives", f"{self.name} says waiting: {self.oracle.label(run_id)} was due, and it left it"
                )


class _Pulseless(Session):
    """A session without a pulse's thread: the process renews the lease."""

    def start(self, *, with_pulse: bool = True, is_serving: bool = True) -> None:
        super().start(with_pulse=False, is_serving=is_serving)


class Driving(Protocol):
    """The world, as drives need it."""

    oracle: Oracle
    may_start: asyncio.Event
    is_over: bool
    is_quiet: bool
    has_workers: bool

    def alive(self) -> list[Process]: ...

    def spawn_drive(self, name: str, dice: Random, run_id: str | None, budget: float) -> None: ...


async def keep_driving(world: Driving, dice: Random) -> None:
    """Begin drives, now and then two of the same run at once; without workers, until all is over."""
    number = 0
    while not world.is_over and not (world.is_quiet and world.has_workers):
        await asyncio.sleep(2.5 if world.is_quiet else dice.choice((0.1, 0.5, 1.0, 1.0, 3.0)))
        await world.may_start.wait()
        known = list(world.oracle.runs)
        run_id = dice.choice(known) if known and dice.random() < 0.6 and not world.is_quiet else None
        # In the end the budget is enough even for a map's longest chunk, which executes again whole if it is
        # interrupted.
        budget = 300.0 if world.is_quiet else dice.choice((0.05, 0.6, 3.0, 10.0))
        for _ in range(dice.choice((1, 1, 2))):
            if sum(isinstance(process, Drive) for process in world.alive()) < MOST:
                number += 1
                world.spawn_drive(f"d{number}", dice, run_id, budget)
