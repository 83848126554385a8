"""Starts in one call that affect each other: every dialect settles them in the order in which they were given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.model import NewRun


def is_takeover(run: NewRun) -> bool:
    """Whether this run may take its key from the run that holds it."""
    return run.key is not None and (run.on_conflict in ("restart", "replace") or run.takes_key_of is not None)


def parts_of(runs: Sequence[NewRun]) -> Iterator[slice]:
    """The parts of a call that are settled one after the other. Within a part the order makes no difference.

    A new part begins where a run's id came earlier with another key, and where a run's key may have been taken over by
    an earlier run of the call. So most calls are one part, however many runs they start.
    """
    begin = 0
    keys: dict[str, tuple[str, str | None]] = {}
    taken_over: set[tuple[str, str | None]] = set()
    for place, run in enumerate(runs):
        key = (run.workflow, run.key)
        is_over = is_takeover(run)
        if keys.setdefault(run.id, key) != key or (not is_over and key in taken_over):
            yield slice(begin, place)
            begin, keys, taken_over = place, {run.id: key}, set()
        if is_over:
            taken_over.add(key)
    yield slice(begin, len(runs))
