"""The stage of the contract's tests: opens stores, starts runs, and does by hand what a worker does.

A test is an `async def` method that takes a stage. `on_stage` makes each of them a plain pytest test with its own event
loop. Nearly all calls give the time as `now`: `T0`, or some seconds after it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from holdfast.model import (
    SECOND,
    ClaimedRun,
    Instant,
    Lane,
    NewRun,
    RowChange,
    RowWrite,
    RunRecord,
    RunStatus,
    Turn,
    new_id,
)
from holdfast.store import Answer, Store

T0: Instant = 1_800_000_000 * SECOND
LANE = Lane("ship", "1")
LEASE = 30 * SECOND
PATIENCE = 30
"""How many seconds a test waits for something that must happen."""
MakeStore: TypeAlias = Callable[..., Store]
"""`make_store(namespace="default")`: a store that is not open yet. All stores of one test are on one database."""
T = TypeVar("T", bound=type)


class Stage:
    """One test's database."""

    def __init__(self, make_store: MakeStore) -> None:
        self._make_store = make_store
        self._opened: list[Store] = []
        self.store = make_store()

    async def open(self, **options: Any) -> Store:
        """Another store on the same database."""
        store = self._make_store(**options)
        self._opened.append(store)
        await store.open()
        return store

    async def close(self) -> None:
        """Close everything that the test opened."""
        for store in [*self._opened, self.store]:
            await store.close()

    async def start(self, count: int = 1, *, now: Instant = T0, **fields: Any) -> list[str]:
        """Start runs with the same fields and return their ids."""
        started = await self.store.start_runs([new_run(**fields) for _ in range(count)], now=now)
        return [run.id for run in started]

    async def start_one(self, *, now: Instant = T0, **fields: Any) -> str:
        """Start one run and return its id."""
        [run_id] = await self.start(now=now, **fields)
        return run_id

    async def run(self, run_id: str) -> RunRecord:
        """The run's record, which must exist."""
        found = await self.store.get_run(run_id)
        assert found is not None
        return found

    async def claim(
        self, limit: int = 100, *, worker: str = "one", now: Instant = T0, **options: Any
    ) -> list[ClaimedRun]:
        """Claim runs of the tests' lane."""
        return await self.store.claim_runs(worker, [LANE], limit, now=now, **options)

    async def claim_one(self, *, worker: str = "one", now: Instant = T0, **options: Any) -> ClaimedRun:
        """Claim the only run that can be claimed."""
        [claimed] = await self.claim(worker=worker, now=now, **options)
        return claimed

    async def held(self, *, worker: str = "one", now: Instant = T0, **fields: Any) -> ClaimedRun:
        """Start a run and claim it."""
        run_id = await self.start_one(now=now, **fields)
        return await self.claim_one(worker=worker, now=now, run_id=run_id)

    async def commit(self, *turns: Turn, now: Instant = T0) -> Sequence[Answer]:
        """Commit turns as one batch."""
        return await self.store.commit_turns(turns, now=now)

    async def end(self, run: ClaimedRun, status: RunStatus = RunStatus.COMPLETED, *, now: Instant = T0) -> None:
        """End a claimed run with its next turn."""
        assert await self.commit(turn(run, change=RowChange(status=status)), now=now) == [True]

    async def hand_back(self, run: ClaimedRun, *, worker: str = "one", **change: Any) -> Answer:
        """Give a claimed run back by a row-only write."""
        [is_done] = await self.store.write_rows([row_write(run, worker=worker, **change)])
        return is_done

    async def lose(self, worker: str = "one", *, now: Instant = T0) -> None:
        """End the worker's lease at once and reap the worker, so that its runs can be taken over."""
        await self.store.register_worker(worker, [LANE], 1, now=now - 2)
        assert worker in await self.store.reap_workers("reaper", now=now)

    async def journal(self, run_id: str) -> list[tuple[int, int, bytes]]:
        """(seq, epoch, data) of each row."""
        return [(row.seq, row.epoch, row.data) for row in await self.store.read_journal(run_id)]


def new_run(**fields: Any) -> NewRun:
    """A run to start, on the tests' lane."""
    given = {"id": new_id(), "workflow": LANE.workflow, "version": LANE.version, "input": b"[]", "seed": b"seed"}
    return NewRun(**{**given, **fields})


def turn(run: ClaimedRun, data: bytes = b"turn", *, after: int = 0, **fields: Any) -> Turn:
    """The run's next turn, or the turn `after` turns later."""
    given = {"run_id": run.id, "seq": run.next_seq + after, "epoch": run.epoch, "at": T0, "data": data}
    return Turn(**{**given, "created_at": run.created_at, **fields})


def row_write(
    run: ClaimedRun,
    *,
    worker: str = "one",
    run_id: str | None = None,
    epoch: int | None = None,
    next_seq: int | None = None,
    **change: Any,
) -> RowWrite:
    """A row-only write that hands the run back, waiting, unless told otherwise."""
    given = {"status": RunStatus.WAITING, "release": True}
    return RowWrite(
        run_id=run.id if run_id is None else run_id,
        worker_id=worker,
        epoch=run.epoch if epoch is None else epoch,
        next_seq=run.next_seq if next_seq is None else next_seq,
        change=RowChange(**{**given, **change}),
    )


def ids_of(runs: Iterable[ClaimedRun | RunRecord]) -> list[str]:
    """The ids of the runs, in order."""
    return [run.id for run in runs]


def after(seconds: float) -> Instant:
    """The instant `seconds` after T0."""
    return T0 + round(seconds * SECOND)


async def until(is_so: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Wait until `is_so` is true; False if it never is."""
    for _ in range(round(seconds / 0.005)):
        if is_so():
            return True
        await asyncio.sleep(0.005)
    return is_so()


async def quiet() -> None:
    """Wait long enough for every wake-up that is on its way."""
    await asyncio.sleep(0.1)


def on_stage(tests: T) -> T:
    """Make pytest tests of a class's `async def test_...(self, stage)` methods."""
    for name, method in list(vars(tests).items()):
        if name.startswith("test_") and inspect.iscoroutinefunction(method):
            setattr(tests, name, _staged(method))
    return tests


def _staged(method: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    wants = [name for name in inspect.signature(method).parameters if name not in ("self", "stage")]

    @functools.wraps(method)
    def test(self: object, make_store: MakeStore, **fixtures: Any) -> None:
        asyncio.run(_play(lambda stage: method(self, stage, **fixtures), make_store))

    # pytest takes the names of the fixtures from the signature.
    names: Sequence[str] = ["self", "make_store", *wants]
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    test.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return test


async def _play(act: Callable[[Stage], Awaitable[None]], make_store: MakeStore) -> None:
    stage = Stage(make_store)
    await stage.store.open()
    try:
        await act(stage)
    finally:
        await stage.close()
