"""Run a seed and report. A seed that breaks a law is reported with its last events and the command to run it again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .oracle import LawBroken
from .world import World

_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one seed. `law` is None if every promise was kept."""

    seed: int
    events: int
    digest: str
    """The digest of the whole log: the same seed gives the same digest."""
    runs: int
    seconds: float
    """In virtual time."""
    law: str | None = None
    said: str = ""
    tail: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.law is None:
            return f"seed {self.seed}: kept, {self.runs} runs, {self.events} events in {self.seconds:.0f}s"
        return "\n".join(
            (
                f"seed {self.seed}: {self.law} was broken",
                f"  {self.said}",
                f"the last of its {self.events} events:",
                *(f"  {line}" for line in self.tail),
                f"again: python -m holdfast.testing.simulate --seed {self.seed} --verbose",
            )
        )


def run_seed(seed: int, listener: Callable[[str], None] | None = None) -> Report:
    """Run one world from its beginning to its end. `listener` gets every event as a line."""
    world = World(seed, listener)
    broken: LawBroken | None = None
    with _silence():
        try:
            world.run()
        except LawBroken as error:
            broken = error
    oracle = world.oracle
    return Report(
        seed=seed,
        events=oracle.count,
        digest=oracle.digest,
        runs=len(oracle.runs),
        seconds=world.loop.time(),
        law=None if broken is None else broken.law,
        said="" if broken is None else str(broken),
        tail=tuple(oracle.tail)[-_SHOWN:],
    )


@contextmanager
def _silence() -> Iterator[None]:
    """Silence the log: workers in trouble log, and here trouble is intended."""
    logger = logging.getLogger("holdfast")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
