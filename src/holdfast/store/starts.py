"""Starts of one call that have to do with each other: every dialect settles them in the order they were given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.model import NewRun


def is_takeover(run: NewRun) -> bool:
    """Whether it may take a key from its holder."""
    return run.key is not None and (run.on_conflict in ("restart", "replace") or run.takes_key_of is not None)


def parts_of(runs: Sequence[NewRun]) -> Iterator[slice]:
    """The parts to settle one after the other. Within each of them the order makes no difference.

    A new one begins with an id that was asked for with another key, which may have led to another run; and with a key
    that an earlier one may have taken over. Starts that are alike stay together, however many there are.
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
