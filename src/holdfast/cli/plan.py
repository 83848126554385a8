"""The plan for a worker process: everything that was resolved, in a form to send to another process.

It is sent through a pipe and never on a command line, which everybody on the machine can read: the database's address
may hold a password.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

import msgspec

from holdfast.settings import Settings, settings_folder


class ServingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan for one worker process. Durations are in microseconds; None means the worker's own default."""

    url: str
    namespace: str
    schema: str | None
    max_payload: int | None
    migrate: bool
    codec: str | None
    queues: tuple[str, ...] | None
    concurrency: int | None
    threads: int | None
    lease: int | None
    grace: int | None
    targets: tuple[str, ...]
    ignore: tuple[str, ...]
    directory: str
    home: str | None
    log_level: str
    listen: tuple[str, int]
    """Where a development process serves the REST API."""
    api_keys: tuple[str, ...]
    allow_remote: bool
    cors: tuple[str, ...]


def plan_of(settings: Settings, targets: Sequence[str], log_level: str) -> ServingPlan:
    """Make the plan from the settings and the targets on the command line."""
    home = settings_folder()
    taken = {name: getattr(settings, name) for name in ServingPlan.__struct_fields__ if hasattr(settings, name)}
    return ServingPlan(
        **taken,
        targets=tuple(targets) or settings.workflows or (),
        directory=os.getcwd(),
        home=None if home is None else str(home),
        log_level=log_level,
    )


def set_up_logging(level: str) -> None:
    """Log to stderr; each line names its process."""
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)-7s %(process)d %(name)s %(message)s", force=True
    )
