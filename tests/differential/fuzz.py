"""The same operations on two dialects, and whatever differs: in an answer, or in anything that can be read after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from operator import methodcaller
from pathlib import Path
from typing import Any

from holdfast.store import open_store
from holdfast.store.postgres import PostgresStore
from tests.differential.life import BASE, Operation
from tests.differential.operations import OWNERSHIP, READS, Dice
from tests.differential.shown import parted, show
from tests.differential.sides import Side

LENGTH = 30
AT_ONCE = 3
_namespaces = count()


@dataclass
class Difference(Exception):
    """Where two dialects part."""

    seed: int
    operations: Sequence[Operation]
    what: str
    answers: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.what} differ after {len(self.operations)} operations"]
        lines += [f"  {number:2} {operation}" for number, operation in enumerate(self.operations, 1)]
        lines += [f"{name}:\n  {show(answer, BASE)}" for name, answer in self.answers.items()]
        lines.append(f"again: python -m tests.differential --seed {self.seed}")
        return "\n".join(lines)


class Fuzz:
    """One SQLite file and one Postgres database; each sequence has a namespace of its own on both."""

    def __init__(self, folder: Path, postgres_url: str) -> None:
        self._urls = {"SQLite": f"sqlite:///{folder / 'holdfast.db'}", "Postgres": postgres_url}

    async def play(self, seed: int, length: int = LENGTH) -> list[Operation]:
        """Draw a sequence and compare after each of its operations. Raises Difference."""
        dice = Dice(seed, length)
        try:
            async with self._sides() as sides:
                return await _compared(seed, sides, _drawn(dice), dice)
        except Difference:
            raise
        except Exception as error:
            error.add_note(f"seed {seed}; again: python -m tests.differential --seed {seed}")
            raise

    async def play_all(self, seeds: Iterable[int], length: int = LENGTH) -> list[list[Operation] | Difference]:
        """Sequences, a few at a time: most of the time is spent waiting for answers."""
        free = asyncio.Semaphore(AT_ONCE)

        async def play(seed: int) -> list[Operation] | Difference:
            async with free:
                try:
                    return await self.play(seed, length)
                except Difference as found:
                    return found

        return await asyncio.gather(*map(play, seeds))

    async def repeat(self, seed: int, operations: Sequence[Operation]) -> Difference | None:
        """Play operations that were drawn before."""
        try:
            async with self._sides() as sides:
                await _compared(seed, sides, iter(operations))
        except Difference as difference:
            return difference
        return None

    async def shrink(self, found: Difference) -> Difference:
        """The same difference with as few operations as dropping them one by one leads to."""
        place = len(found.operations) - 2
        while place >= 0:
            fewer = [one for number, one in enumerate(found.operations) if number != place]
            again = await self.repeat(found.seed, fewer)
            if again is not None and again.what == found.what:
                found = again
            place = min(place, len(found.operations) - 1) - 1
        return found

    @asynccontextmanager
    async def _sides(self) -> Any:
        namespace = f"fuzz-{next(_namespaces)}"
        sides = [Side(name, _opening(url, namespace)) for name, url in self._urls.items()]
        try:
            for side in sides:
                await side.open()
            yield sides
        finally:
            for side in sides:
                await side.close()


class _Sure(set[str]):
    """A server that has lost nothing: behind one that may have, Postgres refuses turns that no worker would send, as
    behind a hole in a journal. tests/contract/test_postgres_failover.py is about that."""

    def update(self, *others: Iterable[str]) -> None: ...


def _opening(url: str, namespace: str) -> Callable[[], Any]:
    def opened() -> Any:
        store = open_store(url, namespace=namespace)
        if isinstance(store, PostgresStore):
            store._known.unsure = _Sure()
        return store

    return opened


def _drawn(dice: Dice) -> Iterator[Operation]:
    while (operation := dice.next()) is not None:
        yield operation


async def _compared(
    seed: int, sides: Sequence[Side], operations: Iterator[Operation], dice: Dice | None = None
) -> list[Operation]:
    done: list[Operation] = []
    now = BASE
    for operation in operations:
        done.append(operation)
        now = operation.arguments.get("now", now)
        answers = await _both(sides, methodcaller("apply", operation))
        _agree(seed, done, "answers", answers)
        if operation.name in READS:
            # If one of these changed something, that shows after the next one.
            continue
        states = await _both(sides, methodcaller("state", now, with_life=operation.name not in OWNERSHIP))
        if not operation.is_ordered:
            for state in states.values():
                state["listed"].sort(key=lambda record: (record.created_at, record.id))
        for what in states[sides[0].name]:
            _agree(seed, done, what, {name: state[what] for name, state in states.items()})
        if dice is not None:
            dice.heard(operation, answers[sides[0].name], states[sides[0].name])
    return done


async def _both(sides: Sequence[Side], ask: Callable[[Side], Awaitable[Any]]) -> dict[str, Any]:
    return dict(zip((side.name for side in sides), await asyncio.gather(*map(ask, sides)), strict=True))


def _agree(seed: int, done: Sequence[Operation], what: str, answers: dict[str, Any]) -> None:
    one, other = (type(answer) if isinstance(answer, Exception) else answer for answer in answers.values())
    if one != other:
        raise Difference(seed, list(done), what, dict(zip(answers, parted(*answers.values()), strict=True)))
