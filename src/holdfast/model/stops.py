"""Ends from outside: what a forced cancel does not wait for, read from the journal that it ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .durations import Instant, moment_of
from .entries import Cancel, Started, decode_entries
from .histories import history_of, open_steps

FORCED = "forced-cancel"
"""Stands in the place of the worker's id in the `claimed` entry of a forced cancel."""


def skipped(rows: Iterable[bytes], due_at: Instant | None) -> tuple[str, ...]:
    """What a run that has begun leaves undone when it is ended by force, in words.

    A journal that can't be read is no obstacle: force is the way out for such a run.
    """
    try:
        entries = [entry for data in rows for entry in decode_entries(data)]
    except msgspec.MsgspecError:
        return ("whatever its journal asked for, which can't be read",)
    history = history_of(entries).entries
    if not any(isinstance(entry, Started) for entry in history):
        return ("its first turn, whose steps are not in the journal yet",)
    found = [f"step {key!r}" for key in open_steps(entries)]
    if not found:
        found.append("a wait" if due_at is None else f"a wait until {moment_of(due_at):%Y-%m-%d %H:%M:%S} UTC")
    is_cancelled = any(isinstance(entry, Cancel) for entry in history)
    found.append("the rest of the cleanup that a cancel began" if is_cancelled else "the cleanup of its body")
    return tuple(found)
