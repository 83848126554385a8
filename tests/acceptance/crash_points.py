"""Runs one workflow again and again, killing its process at another write to the store each time.

`python -m tests.acceptance.crash_points` prints a line of JSON for each point: where it died, and how processes ended.
A point is the moment before or after one write. The victim kills itself there with SIGKILL; then a second process is
started, which must bring the run to its end. The last line is a run that nothing happened to.

Processes are forked from one that has imported everything and started no thread: a fresh interpreter for each would
take most of the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from holdfast import AsyncClient, Worker
from holdfast.store import open_store
from tests.acceptance import effects
from tests.acceptance.workflows import journey

WRITES = ("start_runs", "register_worker", "claim_runs", "commit_turns", "write_rows", "remove_worker")


class Dying:
    """A store that kills its process at the n-th point, and leaves word of which one it was."""

    def __init__(self, store: Any, last: int | None) -> None:
        self._store = store
        self._last = last
        self._points = count()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._around(name, found) if name in WRITES else found

    def _around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        async def around(*args: Any, **kwargs: Any) -> Any:
            self._point(f"before {name}")
            answer = await call(*args, **kwargs)
            self._point(f"after {name}")
            return answer

        return around

    def _point(self, name: str) -> None:
        if next(self._points) == self._last:
            (effects.folder() / "point").write_text(name)
            os.kill(os.getpid(), signal.SIGKILL)


async def take_part(last: int | None) -> None:
    """Client and worker in one: start the run unless it is there, and see it through."""
    store: Any = Dying(open_store(effects.url()), last)
    await store.open()
    async with AsyncClient(store) as client, Worker(client, workflows=[journey]):
        run = await client.start(journey, 1, key="journey")
        result = await run.result(timeout=30)
        (effects.folder() / "result").write_text(json.dumps(result))
    await store.close()


def in_process(folder: Path, last: int | None) -> int:
    """A process of its own; how it ended, as os.waitstatus_to_exitcode says."""
    pid = os.fork()
    if pid == 0:
        os.environ[effects.FOLDER] = str(folder)
        try:
            asyncio.run(take_part(last))
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> None:
    for point in count():
        folder = effects.folder() / f"point-{point}"
        effects.database(folder).parent.mkdir(parents=True)
        code = in_process(folder, point)
        told = {"point": point, "at": None, "codes": [code]}
        if code == -signal.SIGKILL:
            told["at"] = (folder / "point").read_text()
            told["codes"] = [code, in_process(folder, None)]
        print(json.dumps(told), flush=True)
        if code != -signal.SIGKILL:
            return


if __name__ == "__main__":
    main()
