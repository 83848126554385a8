"""The process that `holdfast dev` starts, and restarts when code changes: `python -m holdfast.cli.developing`.

A worker and the REST API in one process, with the guards of the test kit: a body that does I/O is refused here, and not
only in production.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from functools import cached_property

from holdfast.client import AsyncClient
from holdfast.extras import load_extra
from holdfast.observe import Observer
from holdfast.settings import resolve
from holdfast.testing import guarded

from .child import main
from .plan import ServingPlan
from .servers import answering, offer, watching


class Developing:
    """What a development process does beside its worker: it serves the REST API, guarded."""

    @cached_property
    def observers(self) -> Sequence[Observer]:
        return watching(resolve())

    @contextlib.asynccontextmanager
    async def open(self, plan: ServingPlan, client: AsyncClient) -> AsyncIterator[None]:
        level = "warning" if plan.log_level == "info" else plan.log_level
        with guarded():
            async with answering(offer(plan, client), log_level=level):
                yield


if __name__ == "__main__":
    # Python takes a module as unchanged if its size and its second of change are the same. With frequent changes, a
    # compiled file could hide the newest code from the next process.
    sys.dont_write_bytecode = True
    # Before the project's modules can be found: what these import would be taken from an email.py of the project.
    for package in ("fastapi", "uvicorn"):
        load_extra(package, extra="web", needed_by="holdfast dev")
    sys.exit(main(Developing()))
