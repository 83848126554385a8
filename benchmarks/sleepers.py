"""A process full of waiting runs: it prints how much it grows by each, and by each plain body that is suspended.

python -m benchmarks.sleepers async|def resident|traced COUNT SETTLE FILE
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

from greenlet import getcurrent, greenlet

from holdfast import AsyncClient, Worker

from .databases import Place, until_parked
from .sqlite_files import SqliteFile
from .subjects import sleeper

_STATM = Path("/proc/self/statm")
_PART = 100
_SQLITE_HEAP = 4 << 20
"""SQLite caches pages of its file up to a fixed size, which is no cost of a run. Here that size is small."""


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    shown = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], check=True, capture_output=True, text=True)
    return int(shown.stdout) * 1024


def traced() -> int:
    """Bytes that Python has allocated and not freed."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


class Growth(NamedTuple):
    """Bytes by which the process grows: by a run that waits in a worker, and by the same body without Holdfast."""

    waiting: float
    plain: float


class Forever:
    """An awaitable that never finishes."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield


async def _awaiting(number: int) -> int:
    """The sleeper's body, without Holdfast."""
    found = number + 1
    await Forever()
    return found


def _blocked(number: int) -> int:
    """The sleeper's `def` body without Holdfast: suspended, it is a greenlet."""
    found = number + 1
    parent = getcurrent().parent
    assert parent is not None
    parent.switch()
    return found


def _suspended(kind: str, number: int) -> object:
    if kind == "async":
        body = _awaiting(number)
        body.send(None)
        return body
    other = greenlet(_blocked)
    other.switch(number)
    return other


def _plain(kind: str, count: int, meter: Callable[[], int]) -> float:
    kept = [_suspended(kind, number) for number in range(100)]
    before = meter()
    kept += [_suspended(kind, number) for number in range(count)]
    grown = (meter() - before) / count
    for body in kept:
        if asyncio.iscoroutine(body):
            body.close()
    return grown


async def _park(client: AsyncClient, workflow: Any, count: int, settle: float, place: Place) -> None:
    """Start runs and wait until all of them wait. A few at a time, so that garbage from their starts does not count."""
    for first in range(0, count, _PART):
        await client.start_many(workflow, [(number,) for number in range(first, min(first + _PART, count))])
        await until_parked(place)
    # By then each run has let go of what it needs only in its first second.
    await asyncio.sleep(settle)


async def _measure(kind: str, count: int, settle: float, path: Path, meter: Callable[[], int]) -> Growth:
    place = SqliteFile(path)
    store = await place.opened()
    await place.ask(f"PRAGMA soft_heap_limit = {_SQLITE_HEAP}")
    workflow = sleeper(is_async=kind == "async")
    client = AsyncClient(store)
    async with Worker(store, workflows=[workflow], concurrency=200, keep_parked=2 * count + 1_000):
        # Everything that all runs share is there before the first look.
        await _park(client, workflow, 500, settle, place)
        before = meter()
        await _park(client, workflow, count, settle, place)
        waiting = (meter() - before) / count
        # While the runs still exist: the memory that they free would be reused, and nothing would seem to grow.
        plain = _plain(kind, count, meter)
    await client.close()
    await store.close()
    return Growth(waiting, plain)


def main(kind: str, meter_name: str, count: int, settle: float, path: Path) -> None:
    meter = traced if meter_name == "traced" else resident
    if meter is traced:
        tracemalloc.start()
    print(json.dumps(asyncio.run(_measure(kind, count, settle, path, meter))._asdict()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), Path(sys.argv[5]))
