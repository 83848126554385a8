"""The process that `holdfast dev` starts, and starts again when code changes: `python -m holdfast.cli.developing`.

A worker and the REST API in one process, with the guards of the test kit up: a body that does I/O is refused here, and
not first in production.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Sequence

from holdfast.client import AsyncClient
from holdfast.extras import find_extra
from holdfast.observe import Observer, Prometheus
from holdfast.testing import guarded

from .child import main
from .plan import ServingPlan
from .servers import answering


class Developing:
    """What a development process does beside its worker."""

    def __init__(self) -> None:
        self._metrics = Prometheus() if find_extra("prometheus_client") is not None else None

    @property
    def observers(self) -> Sequence[Observer] | None:
        return None if self._metrics is None else [self._metrics]

    @contextlib.asynccontextmanager
    async def open(self, plan: ServingPlan, client: AsyncClient) -> AsyncIterator[None]:
        level = "warning" if plan.log_level == "info" else plan.log_level
        metrics = None if self._metrics is None else self._rendered
        with guarded():
            async with answering(plan, client, log_level=level, metrics=metrics):
                yield

    def _rendered(self) -> str | bytes:
        assert self._metrics is not None, "asked for only where there are metrics"
        return self._metrics.render()[0]


if __name__ == "__main__":
    sys.exit(main(Developing()))
