"""Everything that a worker is configured with, in one record from which its sessions and drives are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.codec import Codec
from holdfast.define import StepInfo, Workflow
from holdfast.model import Lane
from holdfast.observe import Observers
from holdfast.store import Store

from .clock import Clock
from .upkeep import WEEK


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The configuration of a worker."""

    store: Store
    codec: Codec
    clock: Clock
    workflows: Mapping[tuple[str, str], Workflow[Any, Any]]
    lanes: tuple[Lane, ...]
    concurrency: int
    threads: int
    lease: int
    grace: int
    stall: int
    blocked_after: int
    keep_parked: int
    middleware: tuple[Callable[[StepInfo], Any], ...]
    ahead: int = 0
    """Claim runs for places that are likely to be freed within so many microseconds; 0: claim none ahead."""
    replay_each_turn: bool = False
    observers: Observers | None = None
    event_retention: int = WEEK
