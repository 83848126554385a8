"""Workers as records: who is alive, until when, and which workflows it knows."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Lane(msgspec.Struct, frozen=True, order=True):
    """What a claim asks for: one workflow, in one version, on one queue."""

    workflow: str
    version: str
    queue: str = "default"


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One worker, as others see it."""

    id: str
    host: str
    pid: int
    started_at: datetime
    renewed_at: datetime
    lease_until: datetime
    lanes: tuple[Lane, ...]
