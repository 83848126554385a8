"""A worker process of these tests: `python -m tests.acceptance.serve '{"lease": "2s"}'`, until SIGTERM.

With `{"stop_before_commit": 2}` it stops itself with SIGSTOP when it is about to send its second turn: whatever the
test does until SIGCONT, that write is under way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from itertools import count
from typing import Any

from holdfast import Worker
from holdfast.store import open_store
from tests.acceptance import workflows
from tests.acceptance.effects import note_looks, url
from tests.acceptance.points import Pointed


def stopping(at: int) -> Any:
    """A store that stops its process before a commit."""
    commits = count(1)

    def reach(point: str) -> None:
        if point == "before commit_turns" and next(commits) == at:
            os.kill(os.getpid(), signal.SIGSTOP)

    return Pointed(open_store(url()), reach)


async def main() -> None:
    note_looks()
    options = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stop_at = options.pop("stop_before_commit", None)
    store = url() if stop_at is None else stopping(stop_at)
    await Worker(store, workflows=workflows.ALL, **options).run()


if __name__ == "__main__":
    asyncio.run(main())
