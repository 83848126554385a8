"""A worker process of these tests: `python -m tests.acceptance.serve '{"lease": "2s"}'`, until SIGTERM."""

from __future__ import annotations

import asyncio
import json
import logging
import sys

from holdfast import Worker
from tests.acceptance import workflows
from tests.acceptance.effects import url


async def main() -> None:
    options = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    await Worker(url(), workflows=workflows.ALL, **options).run()


if __name__ == "__main__":
    asyncio.run(main())
