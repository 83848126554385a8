"""Where a wait's look at earlier events begins, for both dialects."""

from __future__ import annotations

from holdfast.model import EventWait, Instant, Looked

_LAST = 2**63 - 1
"""No event has this id: a place with it is behind all events of that time."""


def places_of(wait: EventWait, after: tuple[Instant, int], looked: Looked | None) -> dict[str, Instant | int | None]:
    """The places that the statements walk from. A later look walks on from where an earlier one has been. What has been
    matched since, or is still unmatched, it looks for from the chain's beginning."""
    start = max(after, (wait.since - 1, _LAST))
    place = start if looked is None else max(start, (looked.at, looked.id))
    return {
        "after_at": place[0],
        "after_id": place[1],
        "unmatched_at": start[0],
        "unmatched_id": start[1],
        "matched_since": None if looked is None else looked.matched_since,
    }
