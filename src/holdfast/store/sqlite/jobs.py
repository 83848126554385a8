"""Jobs: calls that event loops hand to the threads that talk to SQLite, and how the answers get back."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.model import Instant

from .transactions import Transaction

Deed: TypeAlias = Callable[[Transaction], Any]
BatchDeed: TypeAlias = Callable[[Transaction, Sequence[Any], Instant | None], list[Any]]
ShortCut: TypeAlias = Callable[[Transaction, Sequence[Any]], list[Any] | None]


@dataclass(slots=True, eq=False)
class Job:
    """One call. `loop` is the loop of its future; None: the caller blocks in a thread of its own."""

    deed: Deed
    loop: asyncio.AbstractEventLoop | None
    future: asyncio.Future[Any] | concurrent.futures.Future[Any]
    is_read: bool = False


@dataclass(slots=True, eq=False)
class BatchJob:
    """A call whose items may be written together with those of other calls. Each item has an answer of its own."""

    deed: BatchDeed
    items: Sequence[Any]
    now: Instant | None
    loop: asyncio.AbstractEventLoop | None
    future: asyncio.Future[Any] | concurrent.futures.Future[Any]
    shortcut: ShortCut | None = None
    """Does it outside a transaction, in a single statement; or answers None if it can't be done like that."""


AnyJob: TypeAlias = Job | BatchJob


@dataclass(slots=True, eq=False)
class Unit:
    """Jobs that succeed or fail as one: a single job, or batches merged into one."""

    jobs: list[AnyJob]

    @property
    def is_read(self) -> bool:
        first = self.jobs[0]
        return isinstance(first, Job) and first.is_read

    def run(self, tx: Transaction) -> list[Any]:
        """Do the jobs, in the transaction that is open, and return one answer for each."""
        first = self.jobs[0]
        if isinstance(first, Job):
            return [first.deed(tx)]
        return self._parted(first.deed(tx, self._items(), first.now))

    def run_short(self, tx: Transaction) -> list[Any] | None:
        """Do the jobs by their shortcut; None if there is none, or it can't be taken."""
        first = self.jobs[0]
        if isinstance(first, Job) or first.shortcut is None:
            return None
        answers = first.shortcut(tx, self._items())
        return None if answers is None else self._parted(answers)

    def _items(self) -> Sequence[Any]:
        batches = [job for job in self.jobs if isinstance(job, BatchJob)]
        return batches[0].items if len(batches) == 1 else [item for job in batches for item in job.items]

    def _parted(self, answers: list[Any]) -> list[Any]:
        parts, start = [], 0
        for job in self.jobs:
            assert isinstance(job, BatchJob)
            parts.append(answers[start : start + len(job.items)])
            start += len(job.items)
        return parts


def merged(jobs: Sequence[AnyJob]) -> list[Unit]:
    """Jobs as units. Batches of the same deed become one unit: nobody can tell which of them was asked for first."""
    units: list[Unit] = []
    open_units: dict[tuple[BatchDeed, Instant | None], Unit] = {}
    for job in jobs:
        if isinstance(job, Job):
            units.append(Unit([job]))
            continue
        unit = open_units.get((job.deed, job.now))
        if unit is None:
            unit = open_units[job.deed, job.now] = Unit([job])
            units.append(unit)
        else:
            unit.jobs.append(job)
    return units


class Answers:
    """Answers on their way back: one wake-up for each loop, however many there are."""

    def __init__(self) -> None:
        self._by_loop: dict[asyncio.AbstractEventLoop | None, list[tuple[Any, Any, BaseException | None]]] = {}

    def add(self, job: AnyJob, answer: Any, error: BaseException | None = None) -> None:
        """One answer, or the error instead."""
        self._by_loop.setdefault(job.loop, []).append((job.future, answer, error))

    def send(self, *, here: bool) -> None:
        """Deliver the answers. `here`: the callers' loop is the one that is running now."""
        for loop, answers in self._by_loop.items():
            if loop is None or here:
                _settle(answers)
                continue
            try:
                loop.call_soon_threadsafe(_settle, answers)
            except RuntimeError:
                # The loop was closed meanwhile: nobody is there to be told.
                continue


def _settle(answers: list[tuple[Any, Any, BaseException | None]]) -> None:
    for future, answer, error in answers:
        if future.cancelled():
            continue
        if error is None:
            future.set_result(answer)
        else:
            future.set_exception(error)
