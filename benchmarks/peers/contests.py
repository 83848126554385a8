"""Rounds in turns: every engine does the same work, each time in a fresh database on the same server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import Figure, compared, ratio_at_least
from tests.servers import Databases

from .environments import CONTESTANTS, Absent, Contestant, Environment

STEPS = 4
_PATIENCE = 600
_PROMISED_AT = 100
_TUNED_AT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """The amount of work."""

    rounds: int
    runs: dict[int, int]
    """How many runs, by how many at once."""


FULL = Amount(rounds=5, runs={100: 1_000, 1: 100})
QUICK = Amount(rounds=1, runs={100: 100, 1: 5})


@dataclass(slots=True)
class Entrant:
    """A contestant as installed here, and its steps a second: a list of rounds by runs at once."""

    contestant: Contestant
    environment: Environment | None = None
    absence: str | None = None
    pool: int = 0
    speeds: dict[int, list[float]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.contestant.name

    @property
    def label(self) -> str:
        return f"{self.name} {self.environment.version}" if self.environment else self.name

    @property
    def setup(self) -> str:
        pools = self.contestant.pools
        if len(pools) == 1:
            return self.contestant.setup
        tried = ", ".join(map(str, pools))
        return f"{self.contestant.setup}; a pool of {self.pool} connections, the fastest of {tried}"

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.environment.version if self.environment else None,
            "setup": self.setup,
            "absent": self.absence,
            "steps_a_second": {
                str(at_once): {"median": median(speeds), "rounds": speeds} for at_once, speeds in self.speeds.items()
            },
        }


def contest(amount: Amount, server: Databases, folder: Path, names: Sequence[str]) -> list[Entrant]:
    """Install the contestants and let them take turns. One that can't take part, or breaks, stays with the reason."""
    entrants = [
        _entered(contestant, folder / str(number))
        for number, contestant in enumerate(CONTESTANTS)
        if contestant.name in names
    ]
    for entrant in entrants:
        _tune(entrant, server, amount.runs[_TUNED_AT])
    for at_once, runs in amount.runs.items():
        for _ in range(amount.rounds):
            for entrant in entrants:
                speed = _turn(entrant, server, runs, at_once)
                if speed is not None:
                    entrant.speeds.setdefault(at_once, []).append(speed)
    return entrants


def figures(entrants: Sequence[Entrant]) -> list[Figure]:
    """Our figures compared with each peer's."""
    ours, *theirs = entrants
    return [
        compared(
            f"four steps a run, {f'{at_once} runs at once' if at_once > 1 else 'one run at a time'}",
            "steps/s",
            ours.speeds[at_once],
            peer.label,
            peer.speeds[at_once],
            ratio_at_least(10, "10 ×") if at_once >= _PROMISED_AT else None,
        )
        for at_once in ours.speeds
        for peer in theirs
        if peer.absence is None
    ]


def _entered(contestant: Contestant, folder: Path) -> Entrant:
    entrant = Entrant(contestant)
    print(f"installing {contestant.name} ...", file=sys.stderr, flush=True)
    try:
        entrant.environment = contestant.install(folder)
    except Absent as reason:
        entrant.absence = str(reason)
    return entrant


def _tune(entrant: Entrant, server: Databases, runs: int) -> None:
    """Find the pool size with which an entrant is fastest. These turns don't count."""
    pools = entrant.contestant.pools
    if len(pools) == 1:
        return
    found: dict[int, float] = {}
    for pool in pools:
        entrant.pool = pool
        found[pool] = _turn(entrant, server, runs, _TUNED_AT) or 0.0
    entrant.pool = max(found, key=found.__getitem__)


def _turn(entrant: Entrant, server: Databases, runs: int, at_once: int) -> float | None:
    """Steps a second; None if the entrant can't take part, or no longer can."""
    if entrant.environment is None or entrant.absence is not None:
        return None
    shown = f", a pool of {entrant.pool}" if entrant.pool else ""
    print(f"{entrant.name}, {runs} runs, {at_once} at once{shown} ...", end=" ", file=sys.stderr, flush=True)
    amounts = [str(runs), str(at_once), str(entrant.pool)]
    command = [*entrant.environment.command, server.create_database(), *amounts]
    try:
        done = subprocess.run(
            command, cwd=entrant.environment.folder, capture_output=True, text=True, timeout=_PATIENCE, check=True
        )
    except subprocess.TimeoutExpired:
        entrant.absence = f"{runs} runs, {at_once} at once, did not end within {_PATIENCE} s"
        return None
    except subprocess.CalledProcessError as error:
        print(error.stderr, file=sys.stderr)
        entrant.absence = f"its program ended with {error.returncode}"
        return None
    speed: float = STEPS * runs / json.loads(done.stdout.splitlines()[-1])["seconds"]
    print(f"{speed:,.0f} steps/s", file=sys.stderr)
    return speed
