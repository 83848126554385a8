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
from itertools import count
from pathlib import Path
from typing import Any

from holdfast import AsyncClient, Worker
from holdfast.store import open_store
from tests.acceptance import effects
from tests.acceptance.points import Pointed
from tests.acceptance.workflows import journey


def dying(last: int | None) -> Any:
    """A store that kills its process at the point of that number, and leaves word of which one it was."""
    points = count()

    def reach(point: str) -> None:
        if next(points) == last:
            (effects.folder() / "point").write_text(point)
            os.kill(os.getpid(), signal.SIGKILL)

    return Pointed(open_store(effects.url()), reach)


async def take_part(last: int | None) -> None:
    """Client and worker in one: start the run unless it is there, and see it through."""
    store = dying(last)
    await store.open()
    async with AsyncClient(store) as client, Worker(client, workflows=[journey]):
        run = await client.start(journey, 1, key="journey")
        result = await run.result(timeout=60)
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
