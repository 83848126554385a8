"""A worker process of these tests: `python -m tests.acceptance.serve '{"lease": "2s"}'`, until SIGTERM.

With `{"stops_before_commit": true}` it stops itself with SIGSTOP when it is about to send what came of its gate:
whatever the test does until SIGCONT, that write is under way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from typing import Any

from holdfast import Worker
from holdfast.store import open_store
from tests.acceptance import workflows
from tests.acceptance.effects import note_looks, url
from tests.acceptance.points import Pointed


def stopping() -> Any:
    """A store that stops its process, once, before a commit: the first one after the gate of this process is open."""
    has_stopped = False

    def reach(point: str) -> None:
        nonlocal has_stopped
        if point == "before commit_turns" and not has_stopped and workflows.gate_here().exists():
            has_stopped = True
            os.kill(os.getpid(), signal.SIGSTOP)

    return Pointed(open_store(url()), reach)


async def main() -> None:
    note_looks()
    options = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    store = stopping() if options.pop("stops_before_commit", False) else url()
    await Worker(store, workflows=workflows.ALL, **options).run()


if __name__ == "__main__":
    asyncio.run(main())
