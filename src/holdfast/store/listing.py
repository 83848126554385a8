"""Listing runs: a filter becomes names of SQL fragments and their parameters, a place in the list becomes a cursor.

The fragments have the same names in every dialect. Pages are newest first and end at (created_at, number), which never
changes, so that a cursor holds whatever is started meanwhile.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from typing import Annotated, Any, TypeAlias

import msgspec

from holdfast.errors import BadCursor
from holdfast.model import RunFilter, RunRecord, RunStatus, instant_of

CHUNK = 500
MOST_LOOKED_AT = 10_000
"""How many runs one page looks at when SQL alone can't decide. Then it ends early, with a cursor to go on from."""

Place: TypeAlias = tuple[int, int]
_Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A number that a database can hold. A cursor that somebody made up may have larger ones in it."""
_place = msgspec.msgpack.Decoder(tuple[_Number, _Number])


def fragments(where: RunFilter, after: Place | None) -> tuple[list[str], dict[str, Any]]:
    """The fragments that are the statement for a filter, and its parameters."""
    params: dict[str, Any] = {
        "statuses": [one.value for one in RunStatus] if where.status is None else statuses(where.status),
        "key": where.key,
        "parent": where.parent,
        "workflow": where.workflow,
        "since": None if where.since is None else instant_of(where.since, what="since"),
        "until": None if where.until is None else instant_of(where.until, what="until"),
    }
    params["cursor_at"], params["cursor_number"] = after or (None, None)
    tests = [f"and_{name}" for name in ("since", "until") if params[name] is not None]
    if after is not None:
        tests.append("and_before")
    of_workflow = [] if where.workflow is None else ["and_workflow"]
    if where.key is not None:
        of_parent = [] if where.parent is None else ["and_parent"]
        return ["select_runs", "list_by_key", *of_parent, *tests, *of_workflow, "end_few"], params
    if where.parent is not None:
        return ["select_runs", "list_by_parent", *tests, *of_workflow, "end_few"], params
    return ["select_runs", "list_runs", *tests, "end_walk", *of_workflow, "end_listed"], params


def statuses(given: RunStatus | str | Collection[RunStatus | str]) -> list[str]:
    """The statuses of a filter. Raises ValueError for anything that is not a status."""
    several = (given,) if isinstance(given, str) else given
    # Each once: a run that is found twice would count as two, and its page would be taken for the last.
    return [*dict.fromkeys(RunStatus(one).value for one in several)]


def has_tags(record: RunRecord, wanted: Mapping[str, str]) -> bool:
    """Whether the run has all of these tags."""
    return all(record.tags.get(name) == text for name, text in wanted.items())


def encode_cursor(after: Place) -> str:
    """A place in the listing, as opaque text."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(after)).decode()


def decode_cursor(cursor: str) -> Place:
    """The place that a cursor names. Raises BadCursor for any other text."""
    try:
        return _place.decode(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (binascii.Error, msgspec.DecodeError, ValueError, AttributeError, TypeError) as error:
        raise BadCursor(f"cursor: {cursor!r} is not one; give the `next` of an earlier page, or nothing") from error
