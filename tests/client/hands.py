"""A worker played by hand, through the store's contract alone: claim a run, write the turn that the test wants."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

from holdfast.client import AsyncClient, AsyncRun, Client
from holdfast.define import Workflow, step, workflow
from holdfast.model import (
    ClaimedRun,
    Ended,
    Entry,
    Lane,
    Registration,
    RowChange,
    RunStatus,
    Started,
    StepAsked,
    StepCompleted,
    StepFailed,
    Turn,
    decode_entries,
    encode_entries,
    microseconds,
)

LEASE = microseconds("30s")


@step
async def add(a: int, b: int) -> int:
    return a + b


@workflow
async def total(a: int, b: int = 0) -> int:
    return await add(a, b)


@workflow(name="ship", version="2", queue="parcels", deadline="1h", retention="1d")
def ship(address: str) -> str:
    return address


def at() -> int:
    """Now, as the store has it."""
    return time.time_ns() // 1_000


def damage(client: AsyncClient | Client, run_id: str) -> None:
    """Write something else over the journal of a run in a SQLite file."""
    path = client.url.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path)) as other:
        changed = other.execute(
            "update journal set data = x'67617262616765' where run = (select number from runs where id = ?)", [run_id]
        )
        assert changed.rowcount
        other.commit()


class Hands:
    """One worker."""

    def __init__(self, client: AsyncClient, worker_id: str = "hands") -> None:
        self.client = client
        self.worker_id = worker_id
        self.lanes: list[Lane] = []

    async def register(self, *lanes: Lane, workflows: Sequence[Workflow[..., Any]] = ()) -> None:
        """Announce the worker: for these lanes, or as one that has these workflows; without either, for `total`."""
        await self.client._connection.opened()
        known = [Registration(one.name, one.version, one.declared) for one in workflows]
        own = [Lane(one.name, one.version, one.queue) for one in workflows]
        self.lanes = [*lanes, *own] or [Lane("total", "1")]
        await self.client.store.register_worker(self.worker_id, self.lanes, LEASE, workflows=known)

    async def claim(self, run_id: str) -> ClaimedRun:
        """Take one run."""
        if not self.lanes:
            await self.register()
        [run] = await self.client.store.claim_runs(self.worker_id, self.lanes, 1, run_id=run_id)
        return run

    async def write(self, run: ClaimedRun, *entries: Entry, change: RowChange | None = None, seq: int = 0) -> None:
        """Commit one turn, `seq` rows after the claim."""
        turn = Turn(
            run_id=run.id,
            seq=run.next_seq + seq,
            epoch=run.epoch,
            at=at(),
            data=encode_entries(entries),
            change=change,
            taken=tuple(message.id for message in run.inbox),
        )
        assert await self.client.store.commit_turns([turn]) == [True]

    async def complete(self, run_id: str, value: Any) -> None:
        """Run to a good end: one step, and its result returned."""
        run = await self.claim(run_id)
        output = self.client.codec.value(type(value)).encode(value)
        await self.write(
            run,
            Started(at(), run.seed),
            StepAsked("add", b"digest"),
            StepCompleted(at(), "add", 1, output),
            Ended(at(), "completed", output),
            change=RowChange(status=RunStatus.COMPLETED, output=output),
        )

    async def fail(self, run_id: str, error: BaseException) -> None:
        """Run to a bad end: the step "first" completes, the step "second" fails, and the body with it."""
        run = await self.claim(run_id)
        stored = self.client.codec.encode_exception(error)
        begin = [] if run.rows else [Started(at(), run.seed), StepAsked("first", b"1")]
        await self.write(
            run,
            *begin,
            StepCompleted(at(), "first", 1, b"1"),
            StepAsked("second", b"2"),
            StepFailed(at(), "second", 3, stored),
            Ended(at(), "failed", None, stored),
            change=RowChange(status=RunStatus.FAILED, error=stored),
        )

    async def cancelled(self, run_id: str) -> None:
        """End a run as cancelled."""
        run = await self.claim(run_id)
        await self.write(run, Ended(at(), "cancelled"), change=RowChange(status=RunStatus.CANCELLED))


async def failed(client: AsyncClient, hands: Hands, **options: Any) -> AsyncRun[int]:
    """A run that has failed."""
    run = await client.start(total, 1, **options)
    await hands.fail(run.id, ValueError("no"))
    return run


async def entries_of(client: AsyncClient, run_id: str) -> list[Entry]:
    """A run's journal."""
    return [entry for row in await client.store.read_journal(run_id) for entry in decode_entries(row.data)]
