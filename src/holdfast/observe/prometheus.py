"""Prometheus: metrics of workers and clients, for a registry, a port, or a page of the user's.

Labels are workflows, steps, queues, statuses and kinds, never runs or keys. Only the first `names` workflows, steps and
queues have labels of their own, so that names made at run time can't fill a server's memory.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from holdfast.define import StepInfo
from holdfast.errors import DefinitionError
from holdfast.extras import load_extra

from .facts import (
    Fact,
    Load,
    MessageSent,
    MessageTaken,
    RowsWritten,
    RunBlocked,
    RunEnded,
    RunLost,
    RunReplayed,
    RunRetrying,
    RunsClaimed,
    RunsStarted,
    RunsSwept,
    StepEnd,
    StepEnded,
    TurnsCommitted,
    WorkerBegan,
    WorkerEnded,
    WorkerLost,
)
from .observers import GroupObserver
from .series import Counts, Names, Spread, Totals

_log = logging.getLogger("holdfast.observe")
_WHO = "holdfast.observe.Prometheus"
_SERIES = "holdfast_client_starts"
_SECOND = 1_000_000
_PORTS = 64
"""How many ports are tried: the given one and those after it."""
_QUICK = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_STEPS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_RUNS = (0.01, 0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0, 86400.0, 604800.0)
_LENGTHS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10000, 50000)
_BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500)


class Prometheus(GroupObserver):
    """Metrics of workers and clients.

        metrics = Prometheus()
        Worker(url, workflows=[checkout], observers=[metrics])
        body, content_type = metrics.render()        # for a page of your own

    `registry` is by default prometheus_client's own, which `prometheus_client.start_http_server` and `generate_latest`
    show. One instance may be given to any number of workers and clients of a process, and their numbers are added. With
    `port` it serves `/metrics` while a worker runs. If that port is taken it takes the next free one, so that each
    process of `holdfast worker --processes 4` has a port of its own.

    `names` bounds how many workflows, how many steps and how many queues have labels of their own. Needs
    `holdfast[metrics]`.
    """

    def __init__(
        self, *, registry: Any = None, names: int = 200, port: int | None = None, host: str = "127.0.0.1"
    ) -> None:
        if isinstance(names, bool) or not isinstance(names, int) or names < 1:
            raise DefinitionError(f"Prometheus(names={names!r}): expected a whole number from 1")
        if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536):
            raise DefinitionError(f"Prometheus(port={port!r}): expected a port, 0 to 65535; 0 is any that is free")
        self._client = load_extra("prometheus_client", extra="metrics", needed_by=_WHO)
        self._core = load_extra("prometheus_client.core", extra="metrics", needed_by=_WHO)
        self.registry = self._client.REGISTRY if registry is None else registry
        self.address: tuple[str, int] | None = None
        """Where it serves its metrics, while it does."""
        self._port, self._host = port, host
        self._server: Any = None
        self._users = 0
        self._lock, self._serving = threading.Lock(), threading.Lock()
        self._workflows, self._steps, self._queues = Names(names), Names(names), Names(names)
        self._loads: dict[str, Callable[[], Load]] = {}
        self._make()
        self._takes: Mapping[type, Callable[[Any], None]] = self._handlers()
        self._by_step: dict[tuple[str, str, str], list[int]] = {}
        try:
            self.registry.register(self)
        except ValueError as error:
            raise DefinitionError(
                "Prometheus(): this registry counts for another one already; give that one to all workers and clients "
                "of this process, or give this one a registry= of its own"
            ) from error

    @classmethod
    def shared(cls, *, port: int | None = None, host: str = "127.0.0.1") -> Prometheus:
        """The instance that is registered with prometheus_client's own registry, or a new one.

        An instance without a port gets `port` and `host`. So all workers of a process that get their metrics from the
        settings share one instance, with the one that a module of yours may have made.
        """
        try:
            return cls(port=port, host=host)
        except DefinitionError:
            registry = load_extra("prometheus_client", extra="metrics", needed_by=_WHO).REGISTRY
            # Found by the name of a series: a registry does not list its collectors.
            found = getattr(registry, "_names_to_collectors", {}).get(_SERIES)
            if not isinstance(found, Prometheus):
                raise
        if found._port is None:
            found._port, found._host = port, host
        return found

    def _make(self) -> None:
        of = ("workflow",)
        self._started = Counts(_SERIES, "Runs that clients here have started.", of)
        self._sent = Counts("holdfast_client_messages", "Signals, events and hook payloads sent.", ("kind",))
        self._begun = Counts("holdfast_runs_started", "Runs that were begun.", of)
        self._lasted = Spread(
            "holdfast_run_duration_seconds",
            "From a run's beginning to its end.",
            ("workflow", "status"),
            _RUNS,
            _SECOND,
        )
        self._ended = Totals("holdfast_runs_completed", "Runs that have ended, by how.", self._lasted)
        self._retried = Counts("holdfast_runs_retried", "Runs tried again as a whole.", of)
        self._blocked = Counts("holdfast_runs_blocked", "Tries of runs that can't go on.", of)
        self._lost = Counts("holdfast_runs_lost", "Runs that another worker has taken over from here.", of)
        self._took_over = Counts("holdfast_runs_taken_over", "Runs claimed from workers that died.", of)
        self._replays = Spread("holdfast_replay_length", "Inputs delivered to rebuild a body.", of, _LENGTHS, 1)
        steps = ("workflow", "step", "status")
        self._step = Spread("holdfast_step_duration_seconds", "One attempt of a step.", steps, _STEPS, _SECOND)
        self._step_retries = Counts("holdfast_step_retries", "Attempts that failed and are repeated.", steps[:2])
        self._taken = Counts("holdfast_messages_taken", "Messages that runs have taken in.", ("workflow", "kind"))
        self._lag = Spread(
            "holdfast_queue_lag_seconds", "From when a run was due to its claim.", ("queue",), _STEPS, _SECOND
        )
        self._claims = Spread("holdfast_claim_seconds", "One claim, of however many runs.", (), _QUICK, _SECOND)
        self._claimed = Spread("holdfast_claim_size", "Runs in one claim.", (), _BATCHES, 1)
        self._commits = Spread("holdfast_commit_seconds", "One commit, of a group of turns.", (), _QUICK, _SECOND)
        self._batches = Spread("holdfast_commit_size", "Turns in one commit.", (), _BATCHES, 1)
        self._rows = Spread("holdfast_row_write_seconds", "One group of parks and hand-backs.", (), _QUICK, _SECOND)
        self._leases = Counts("holdfast_leases_lost", "Leases that workers here have lost.", ())
        self._swept = Counts("holdfast_swept", "Runs and events removed after their retention.", ("what",))
        self._series: tuple[Counts | Spread | Totals, ...] = tuple(
            one for one in vars(self).values() if isinstance(one, (Counts, Spread, Totals))
        )

    def _handlers(self) -> Mapping[type, Callable[[Any], None]]:
        workflows = self._workflows
        return {
            StepEnded: lambda fact: self._steps_ended((fact.end,)),
            RunEnded: lambda fact: self._runs_ended((fact,)),
            TurnsCommitted: lambda fact: self._group(self._commits, self._batches, fact.took, fact.count),
            RowsWritten: lambda fact: self._rows.add_to((), fact.took),
            RunsClaimed: self._runs_claimed,
            RunReplayed: lambda fact: self._replays.add_to((workflows[fact.run.workflow],), fact.length),
            RunRetrying: lambda fact: self._retried.add((workflows[fact.run.workflow],)),
            RunBlocked: lambda fact: self._blocked.add((workflows[fact.run.workflow],)),
            RunLost: lambda fact: self._lost.add((workflows[fact.run.workflow],)),
            MessageTaken: lambda fact: self._taken.add((workflows[fact.run.workflow], fact.kind)),
            RunsStarted: lambda fact: self._started.add((workflows[fact.workflow],), fact.count),
            MessageSent: lambda fact: self._sent.add((fact.kind,)),
            WorkerLost: lambda fact: self._leases.add(()),
            RunsSwept: self._runs_swept,
            WorkerBegan: lambda fact: self._loads.update({fact.worker_id: fact.load}),
            WorkerEnded: self._worker_ended,
        }

    def observe(self, fact: Fact) -> None:
        # Under a lock: workers and clients may be in several threads.
        with self._lock:
            self._takes[fact.__class__](fact)

    def observe_group(self, steps: Sequence[StepEnd], runs: Sequence[RunEnded]) -> None:
        with self._lock:
            self._steps_ended(steps)
            self._runs_ended(runs)

    def _steps_ended(self, ended: Sequence[StepEnd]) -> None:
        known, limits = self._by_step, self._step.limits
        for step, status, at in ended:
            series = known.get((step.run.workflow, step.name, status)) or self._step_series(step, status)
            took = at - step.began_at
            # Inlined from `Spread.add_to`, since this is done for every step.
            series[bisect_left(limits, took)] += 1
            series[-1] += took
            if status == "retrying":
                self._step_retries.add((self._workflows[step.run.workflow], self._steps[step.name]))

    def _runs_ended(self, ended: Sequence[RunEnded]) -> None:
        by_end: dict[tuple[str, str], list[int]] = {}
        for fact in ended:
            run = fact.run
            end = run.workflow, fact.status._value_
            if end not in by_end:
                by_end[end] = []
            by_end[end].append(fact.at - run.started_instant)
        for (workflow, status), lasted in by_end.items():
            self._lasted.add_all((self._workflows[workflow], status), lasted)

    def _step_series(self, step: StepInfo, status: str) -> list[int]:
        labels = (self._workflows[step.run.workflow], self._steps[step.name], status)
        series = self._step.of(labels)
        if labels[:2] == (step.run.workflow, step.name):
            # Only for names with labels of their own, so that this dict is bounded, too.
            self._by_step[labels] = series
        return series

    def _group(self, times: Spread, sizes: Spread, took: int, count: int) -> None:
        times.add_to((), took)
        sizes.add_to((), count)

    def _runs_claimed(self, fact: RunsClaimed) -> None:
        self._group(self._claims, self._claimed, fact.took, len(fact.runs))
        begun: list[str] = []
        taken_over: list[str] = []
        lags: dict[str, list[int]] = {}
        for run in fact.runs:
            if run.epoch == 1:
                begun.append(run.workflow)
            if run.is_takeover:
                taken_over.append(run.workflow)
            if run.queue not in lags:
                lags[run.queue] = []
            lags[run.queue].append(run.claimed_at - run.due_at)
        for counts, found in ((self._begun, begun), (self._took_over, taken_over)):
            for workflow, count in Counter(found).items():
                counts.add((self._workflows[workflow],), count)
        for queue, waited in lags.items():
            self._lag.add_all((self._queues[queue],), waited)

    def _worker_ended(self, fact: WorkerEnded) -> None:
        self._loads.pop(fact.worker_id, None)

    def _runs_swept(self, fact: RunsSwept) -> None:
        self._swept.add(("runs",), fact.runs)
        self._swept.add(("events",), fact.events)

    def describe(self) -> Iterable[Any]:
        """All series without values, so that the registry can refuse names that are taken."""
        return [one.empty(self._core) for one in self._series]

    def collect(self) -> Iterable[Any]:
        """All series, as a registry collects them."""
        with self._lock:
            found = [one.family(self._core) for one in self._series]
            loads = list(self._loads.values())
        return [*found, *self._gauges([load() for load in loads])]

    def _gauges(self, loads: list[Load]) -> Iterable[Any]:
        gauge = self._core.GaugeMetricFamily
        held: dict[str, int] = {}
        for load in loads:
            for workflow, count in load.held.items():
                label = self._workflows[workflow]
                held[label] = held.get(label, 0) + count
        in_flight = gauge("holdfast_runs_in_flight", "Runs in a worker's hands: not parked.", labels=["workflow"])
        for workflow, count in held.items():
            in_flight.add_metric([workflow], count)
        return [
            in_flight,
            gauge("holdfast_runs_busy", "Runs that advance or have a step in flight.", sum(one.busy for one in loads)),
            gauge("holdfast_steps_in_flight", "Attempts under way.", sum(one.steps for one in loads)),
            gauge("holdfast_bodies_parked", "Bodies kept in memory.", sum(one.parked for one in loads)),
            gauge("holdfast_workers", "Workers that serve in this process.", len(loads)),
        ]

    def render(self) -> tuple[bytes, str]:
        """The registry as text, and the content type to send it with."""
        return self._client.generate_latest(self.registry), self._client.CONTENT_TYPE_LATEST

    def open(self) -> None:
        """Serve the port, if one was given. The first worker that begins does so for all, in any thread."""
        with self._serving:
            if self._port is not None and self._server is None:
                self._serve(self._port)
            self._users += 1

    def _serve(self, first: int) -> None:
        refused: OSError | None = None
        for port in range(first, min(first + (_PORTS if first else 1), 65536)):
            try:
                self._server, _ = self._client.start_http_server(port, self._host, self.registry)
            except OSError as error:
                refused = error
                continue
            self.address = self._server.server_address[:2]
            _log.info("metrics are at http://%s:%d/metrics", *self.address)
            return
        raise DefinitionError(
            f"Prometheus(port={first}, host={self._host!r}): neither that port nor one of the next {_PORTS - 1} can be "
            f"served at: {refused}; give another one"
        )

    def close(self) -> None:
        """Stop serving when the last worker has stopped. The numbers stay."""
        with self._serving:
            self._users -= 1
            if self._users <= 0 and self._server is not None:
                server, self._server, self.address = self._server, None, None
                server.shutdown()
                server.server_close()
