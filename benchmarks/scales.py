"""How much work each measurement does. The quick scale shows that everything works; its figures mean little."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The size of every measurement."""

    rounds: int
    """Rounds of our own work and of what it is compared with, in turns."""
    runs: dict[int, int]
    """How many runs to execute, by how many at once."""
    steps: int
    """Steps in the run whose steps are timed one by one."""
    alone: int
    """Rounds of such runs. Each takes a fraction of a second, so there can be more of them."""
    starts: int
    replayed: tuple[int, ...]
    """Lengths of journals."""
    replay_budget: float
    """Seconds to spend on one length."""
    sleepers: int
    settle: float
    """Seconds until a run has let go of what it needs only at its beginning."""
    backlogs: tuple[int, ...]
    """Parked runs in the database, and as many finished ones. The others are compared with the first."""
    claims: int
    churned: int
    """Runs claimed and ended under a snapshot that is held open."""
    fleet: int
    """Runs for all worker processes together."""
    watched: tuple[int, int]
    """Rounds with and without observers, and runs in each. The difference is smaller than the machine's variations, so
    there are many short rounds."""
    fans: tuple[int, int]
    """Runs woken by one event, and children of one run: a few, and many to compare with them."""
    parked: int
    idle: float
    """Seconds to watch an idle worker."""


FULL = Scale(
    rounds=5,
    runs={1: 300, 100: 4_000, 1000: 8_000},
    steps=1_000,
    alone=9,
    starts=100,
    replayed=(10, 100, 1_000, 10_000),
    replay_budget=1.0,
    sleepers=5_000,
    settle=1.5,
    backlogs=(0, 100_000, 1_000_000),
    claims=40,
    churned=20_000,
    fleet=16_000,
    watched=(15, 2_000),
    fans=(1_000, 10_000),
    parked=1_000,
    idle=5.0,
)

QUICK = Scale(
    rounds=1,
    runs={1: 5, 100: 100, 1000: 400},
    steps=20,
    alone=1,
    starts=2,
    replayed=(10, 100, 1_000),
    replay_budget=0.02,
    sleepers=100,
    settle=0.1,
    backlogs=(0, 500),
    claims=3,
    churned=200,
    fleet=100,
    watched=(1, 100),
    fans=(20, 60),
    parked=50,
    idle=0.3,
)
