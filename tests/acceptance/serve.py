"""A worker process of these tests: `python -m tests.acceptance.serve '{"lease": "2s"}'`, until SIGTERM.

With `{"waits_before_commit": true}` it waits when it is about to send what came of its gate, until the test lets it
send: whatever happens until then, that write is under way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

from holdfast import Worker
from holdfast.store import open_store
from tests.acceptance import workflows
from tests.acceptance.effects import folder, note_looks, url
from tests.acceptance.points import Pointed


def waiting() -> Any:
    """A store that keeps its process waiting, once, before a commit: the first one after the gate of this process is
    open. The lease is renewed meanwhile."""
    has_waited = False

    def reach(point: str) -> None:
        nonlocal has_waited
        if point == "before commit_turns" and not has_waited and workflows.gate_here().exists():
            has_waited = True
            (folder() / "committing").touch()
            workflows.until_told("commit")

    return Pointed(open_store(url()), reach)


async def main() -> None:
    note_looks()
    options = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    store = waiting() if options.pop("waits_before_commit", False) else url()
    await Worker(store, workflows=workflows.ALL, **options).run()


if __name__ == "__main__":
    asyncio.run(main())
