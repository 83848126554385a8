"""Trouble for workers, clients and a server, at random and for as long as asked; and what must be true afterwards.

Workers are killed, stopped past their lease and sent on, and told to stop; the client is killed; the server is
restarted in order, at once, and by kill -9, and so is a pooler before it. The effects files are the oracle: they are
outside the store.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from holdfast import RunFilter, RunStatus
from holdfast.client import Run
from holdfast.errors import StoreAway
from tests.acceptance.effects import Effect
from tests.acceptance.stage import Stage
from tests.acceptance.start_runs import started_log
from tests.acceptance.workflows import MIXED, STEPS, expected, patient
from tests.processes import PATIENCE, Process
from tests.servers import PgBouncer, Postgres

LEASE = 3.0
ENDS_WITHIN = 120.0
MOST_ACROSS = 3
"""A step that looked at its lease and was stopped before its first line begins when its process goes on: semantics,
not an error, as long as there are no more of them than can be at that point at once."""
_LIVE = tuple(status for status in RunStatus if not status.is_final)
_DEEDS = {
    "kill": 45,
    "stop": 20,
    "terminate": 15,
    "kill the client": 8,
    "restart the server": 6,
    "restart the pooler": 6,
    "rest": 6,
}


@dataclass
class Trouble:
    """One stage, and what is done to it. `server` and `pooler` are restarted too, if they are given."""

    stage: Stage
    dice: random.Random
    workers: int = 3
    server: Postgres | None = None
    pooler: PgBouncer | None = None
    pause: float = 0.05
    say: Callable[[str], None] = print
    done: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    """What should not be."""
    went_on: list[tuple[int, float]] = field(default_factory=list)
    """Processes that had been stopped, and when they were sent on."""

    def make(self, seconds: float) -> None:
        """When everybody is at work make trouble for so long, then wait until every run has ended."""
        self._client = self._start_client()
        self._alive = [self._start_worker() for _ in range(self.workers)]
        self._stopped: dict[int, tuple[Process, float]] = {}
        self._leaving: list[Process] = []
        self.stage.ready(*self._alive)
        self.stage.until(lambda: self.stage.effects("end"), "a step has ended")
        began = told = time.monotonic()
        while time.monotonic() < began + seconds:
            time.sleep(self.dice.uniform(0.0, 1.2))
            self._send_on()
            self._miss()
            [deed] = self.dice.choices(list(_DEEDS), list(_DEEDS.values()))
            if deed != "rest":
                getattr(self, f"_{deed.replace(' ', '_')}")()
            if time.monotonic() > told + 30:
                told = time.monotonic()
                self.say(f"{told - began:.0f} s: {dict(self.done)}")
        self._client.kill()
        self._send_on(everybody=True)
        self._wait_for_ends()
        for process in self._leaving:
            if process.wait() != 0:
                self.found.append(f"a worker told to stop ended with {process.wait()}:\n{process.output[-2000:]}")

    def _start_client(self) -> Process:
        return self.stage.start("-m", "tests.acceptance.start_runs", "0", "0", str(self.pause), "cancels")

    def _start_worker(self) -> Process:
        return self.stage.worker(lease=f"{LEASE}s")

    def _victim(self) -> int | None:
        """The place of a worker that is not stopped."""
        places = [place for place, worker in enumerate(self._alive) if worker.pid not in self._stopped]
        return self.dice.choice(places) if places else None

    def _kill(self) -> None:
        place = self.dice.randrange(len(self._alive))
        worker = self._alive[place]
        self._stopped.pop(worker.pid, None)
        worker.kill()
        self._alive[place] = self._start_worker()
        self.done["kills"] += 1

    def _stop(self) -> None:
        place = self._victim()
        if place is not None:
            worker = self._alive[place]
            worker.send(signal.SIGSTOP)
            self._stopped[worker.pid] = worker, time.monotonic() + self.dice.uniform(0.1, 2.5 * LEASE)
            self.done["stops"] += 1

    def _send_on(self, *, everybody: bool = False) -> None:
        for pid, (worker, until) in list(self._stopped.items()):
            if everybody or time.monotonic() > until:
                # Taken before: whoever sends a signal may be kept waiting by the one who gets it.
                self.went_on.append((pid, time.time()))
                worker.send(signal.SIGCONT)
                del self._stopped[pid]

    def _terminate(self) -> None:
        place = self._victim()
        if place is not None:
            worker = self._alive[place]
            # One that is still starting has nobody to hear the signal.
            if "Traceback" in worker.output or not self._is_registered(worker):
                return
            worker.send(signal.SIGTERM)
            self._leaving.append(worker)
            self._alive[place] = self._start_worker()
            self.done["hand-overs"] += 1

    def _is_registered(self, worker: Process) -> bool:
        with suppress(StoreAway):
            return worker.pid in {record.pid for record in self.stage.client.workers()}
        return False

    def _kill_the_client(self) -> None:
        self._client.kill()
        self._client = self._start_client()
        self.done["client kills"] += 1

    def _restart_the_server(self) -> None:
        if self.server is None:
            return
        how = self.dice.choice(("fast", "immediate", "kill"))
        if how == "kill":
            self.server.kill()
        else:
            self.server.stop(how)
        time.sleep(self.dice.uniform(0.0, 2.0))
        self.server.start()
        self.done[f"restarts ({how})"] += 1

    def _restart_the_pooler(self) -> None:
        if self.pooler is None:
            return
        self.pooler.kill()
        time.sleep(self.dice.uniform(0.0, 2.0))
        self.pooler.start()
        self.done["restarts of the pooler"] += 1

    def _miss(self) -> None:
        """Look for workers that are gone without having been asked to."""
        for place, worker in enumerate(self._alive):
            if not worker.is_alive:
                # One that finds no database when it starts says so and ends: whoever started it starts it again.
                if "await store.open()" in worker.output:
                    self.done["starts without a server"] += 1
                else:
                    self.found.append(f"a worker ended by itself with {worker.wait()}:\n{worker.output[-3000:]}")
                self._alive[place] = self._start_worker()
        if not self._client.is_alive and self._client.wait() != -signal.SIGKILL:
            self.found.append(f"the client ended by itself:\n{self._client.output[-3000:]}")
            self._client = self._start_client()

    def _wait_for_ends(self) -> None:
        deadline = time.monotonic() + ENDS_WITHIN
        while live := list(self._runs(_LIVE)):
            self._miss()
            if time.monotonic() > deadline:
                self.found += [f"a run does not end: {self.stage.client.explain(run.id)}" for run in live[:5]]
                self.found.append(f"{len(live)} runs do not end")
                return
            # A start may have been durable without its answer, and then nobody was there to cancel that run.
            for run in live:
                if run.workflow == patient.name:
                    run.cancel()
            time.sleep(0.2)

    def _runs(self, status: Any = None) -> Iterator[Run[object]]:
        for workflow in (*MIXED, patient):
            yield from self.stage.client.runs(RunFilter(workflow=workflow.name, status=status))

    def check(self) -> None:
        """Compare runs, journals and effects."""
        started = {int(line) for line in started_log(self.stage.folder, 0).read_text().split()}
        runs = {str(run.key): run for run in self._runs()}
        missing = {f"run-{number}" for number in started} - runs.keys()
        if missing:
            self.found.append(f"{len(missing)} runs are lost, {sorted(missing)[:5]}")
        if len(runs) > len(started) + 1:
            self.found.append(f"{len(runs)} runs from {len(started)} starts")
        effects: dict[str, list[Effect]] = defaultdict(list)
        for effect in self.stage.effects():
            effects[effect.run_id].append(effect)
        strangers = effects.keys() - {run.id for run in runs.values()}
        if strangers:
            self.found.append(f"effects of runs that are not there: {sorted(strangers)[:5]}")
        across = self._across_stops([effect for one in effects.values() for effect in one])
        self.done["begun across a stop"] = len(across)
        for run in runs.values():
            found = [effect for effect in effects[run.id] if effect not in across]
            self.found += [f"{run!r}: {wrong}" for wrong in self._wrongs(run, found)]
        told = Counter(effect.what for one in effects.values() for effect in one)
        self.done["runs"] = len(runs)
        self.done["steps"] = told["end"]
        self.done["begun again"] = told["begin"] - told["end"] - told["fail"]
        lines = [process.output.count("\n") for process in self.stage.processes if "Traceback" not in process.output]
        self.done["log lines by the one that wrote most"] = max(lines, default=0)

    def _across_stops(self, effects: list[Effect]) -> set[Effect]:
        """Those "begun twice" that are excused: no look at the lease came between going on and their first line."""
        excused: set[Effect] = set()
        twice = [effect for effect in effects if effect.what == "begun twice"]
        for pid, at in self.went_on:
            found = [one for one in twice if one.pid == pid and one.looked <= at <= one.at]
            if len(found) <= MOST_ACROSS:
                excused.update(found)
        return excused

    def _wrongs(self, run: Run[object], effects: list[Effect]) -> Iterator[str]:
        journal = self.stage.journal(run.id)
        self.done["takeovers"] += sum(entry.kind == "claimed" for entry in journal)
        recorded = [(entry.key, entry.attempt) for entry in journal if entry.kind == "step_completed"]
        keys = Counter(key for key, _ in recorded)
        twice = [key for key, times in keys.items() if times > 1]
        if twice:
            yield f"two results of {twice}"
        ends = sum(entry.kind in ("ended", "stopped") for entry in journal)
        if ends != 1:
            yield f"{ends} ends in its journal"
        if run.workflow == patient.name:
            has_begun = any(entry.kind == "started" for entry in journal)
            if run.status is not RunStatus.CANCELLED:
                yield f"was cancelled and is {run.status}"
            elif has_begun and "tidy" not in keys:
                yield "did not tidy up"
        elif run.status is not RunStatus.COMPLETED:
            yield f"is {run.status}: {str(self.stage.client.explain(run.id))[:300]}"
        else:
            result = run.result(timeout=PATIENCE)
            if result != expected(run.workflow, int(str(run.key).removeprefix("run-"))):
                yield f"returned {result!r}"
            if len(recorded) != STEPS[run.workflow]:
                yield f"{len(recorded)} steps recorded, {STEPS[run.workflow]} expected"
        for effect in effects:
            if effect.what == "begun twice":
                yield f"{effect.key} began after its result was recorded"
            elif effect.what == "begun early":
                yield f"{effect.key} began before it was asked for durably"
        begun = {(effect.key, effect.attempt) for effect in effects if effect.what == "begin"}
        ended = {(effect.key, effect.attempt) for effect in effects if effect.what == "end"}
        if not set(recorded) <= ended <= begun:
            yield f"results without an effect: {sorted(set(recorded) - ended)}"
