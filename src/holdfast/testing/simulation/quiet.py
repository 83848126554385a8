"""P6: when nothing goes wrong any more, every run comes to its end, and everything that is due happens when it is
due."""

from __future__ import annotations

import asyncio
from typing import Protocol

from holdfast.model import Cancel, Instant, NewRun, RunRecord, instant_of

from .faults import Faults
from .laws import Laws
from .loop import VirtualLoop
from .oracle import Oracle
from .processes import Process
from .programs import Program

SLACK = 3_000_000
"""How many microseconds late something may be while nothing stands in its way."""
SETTLED = 5_000_000


class Calmed(Protocol):
    """The world after its faults."""

    loop: VirtualLoop
    faults: Faults
    oracle: Oracle
    laws: Laws
    has_workers: bool

    def alive(self) -> list[Process]: ...

    def store_now(self) -> Instant: ...

    def program(self, run: NewRun) -> Program: ...


class Quiet:
    """Waits for the ends of all runs, and meanwhile watches whether anything is late."""

    def __init__(self, world: Calmed) -> None:
        self._world = world
        self._oracle = world.oracle
        self._settled_at = world.faults.settled_at
        self.calm_since: Instant | None = None
        """Since when there has been room for every run, on workers that live."""

    async def wait_for_ends(self) -> None:
        world, oracle = self._world, self._oracle
        patience = 120.0 + 2 * sum(world.program(run).seconds for run in oracle.runs.values())
        until = world.loop.time() + patience
        while True:
            open_runs = [world.laws.record(run_id) for run_id in oracle.runs if run_id not in oracle.ended]
            if not open_runs and not world.laws.has_unmatched():
                return
            if world.loop.time() > until:
                oracle.report("P6", f"runs that could end have not: {'; '.join(map(self._told, open_runs))}")
            self._watch(open_runs)
            await asyncio.sleep(1.0)

    @property
    def punctual_from(self) -> Instant | None:
        """From this time on nothing may be late."""
        return None if self.calm_since is None else self.calm_since + SETTLED

    def _watch(self, open_runs: list[RunRecord]) -> None:
        now = self._world.store_now()
        if not self._is_calm(open_runs):
            self.calm_since = None
            return
        if self.calm_since is None:
            self.calm_since = now
        if now < self.calm_since + SETTLED:
            return
        for record in open_runs:
            self._check(record, now)

    def _is_calm(self, open_runs: list[RunRecord]) -> bool:
        alive = self._world.alive()
        owners = {None, *(hand.worker_id for process in alive for hand in process.hands[-1:])}
        return (
            # An alarm that was set by a wrong clock rings, but at the wrong time.
            not self._world.laws.has_clock_jumped
            and self._world.loop.microseconds > self._settled_at
            # Nobody can say when a drive comes.
            and self._world.has_workers
            and bool(alive)
            and all(record.owner in owners for record in open_runs)
            and all(process.is_serving for process in alive)
            and all(process.concurrency >= len(open_runs) for process in alive)
            and not any(record.crashes or record.workflow == "killer" for record in open_runs)
        )

    def _check(self, record: RunRecord, now: Instant) -> None:
        if record.paused:
            return
        is_due = record.due_at is not None and instant_of(record.due_at) + SLACK < now
        if is_due and record.owner is None:
            self._oracle.report("P6", f"nobody claims what is due: {self._told(record)}")
        journal = self._world.laws.journal(record.id)
        if record.blocked is not None or any(isinstance(entry, Cancel) for entry in journal.history.entries):
            return
        if (
            record.started_at is not None
            and record.deadline_at is not None
            and instant_of(record.deadline_at) + SLACK < now
        ):
            self._oracle.report("P6", f"a deadline has passed and its run was not told: {self._told(record)}")
        if record.id in self._oracle.cancelled:
            self._oracle.report("P6", f"a cancel was not delivered: {self._told(record)}")
        self._check_events(record, now)

    def _check_events(self, record: RunRecord, now: Instant) -> None:
        """An event and a wait for it must find each other, whichever was there first."""
        laws = self._world.laws
        for wait in laws.waits(record.id):
            if wait.kind != "event" or wait.registered_at + SLACK > now:
                continue
            for payload, published_at in laws.mail.events.get(wait.name, {}).items():
                is_old = published_at + SLACK < now and published_at >= laws.chain_began(record)
                if is_old and not laws.mail.has_taken(record.id, "event", payload):
                    self._oracle.report(
                        "P6", f"{self._told(record)}, waits for {wait.name!r} and is not given {payload!r}"
                    )

    def _told(self, record: RunRecord) -> str:
        due_at = record.due_at
        due = "never" if due_at is None else f"{(instant_of(due_at) - self._world.store_now()) / 1_000_000:+.1f}s"
        said = f"{self._oracle.label(record.id)} is {record.status}, owner {record.owner}, due {due}"
        return said + (f", blocked by {record.blocked.splitlines()[0]}" if record.blocked else "")
