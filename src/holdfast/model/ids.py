"""Ids of runs: how they are made, and which texts are refused."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from hashlib import blake2b

from holdfast.errors import DefinitionError

from .texts import is_text, quoted

LONGEST_ID = 500
"""In characters. An index has to hold such an id."""


def new_id() -> str:
    """A UUID of version 7 as text: milliseconds first, so that ids sort in order of creation; the rest is random."""
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def bounded_id(id: str, room: int = 0) -> str:
    """A composed id: unchanged if a store can keep it, else cut, with a digest of the whole at its end.

    The id of a child's child contains the names of everything above it, however deep that goes. `room` is how many
    characters are to follow the id.
    """
    longest = LONGEST_ID - room
    if len(id) <= longest:
        return id
    return f"{id[: longest - 33]}~{blake2b(id.encode(), digest_size=16).hexdigest()}"


def next_child_id(first: str, tried: Sequence[str], attempt: int) -> str:
    """The id of the child that replaces one in a new try of its parent. `tried` are the ids before it, oldest first."""
    found = bounded_id(f"{first}~{attempt + 1}")
    # A child with an id of its own may have been retried by hand before.
    return bounded_id(f"{tried[-1]}~{attempt + 1}") if found in tried else found


def check_id(run_id: object) -> None:
    """Raise DefinitionError for anything that can't be a run's id."""
    if isinstance(run_id, str):
        if not is_text(run_id):
            raise DefinitionError(
                f"{quoted(run_id)} is not a run's id; expected text without a NUL or a lone surrogate"
            )
        return
    own = getattr(run_id, "id", None)
    hint = f"give its id, {own!r}" if isinstance(own, str) else "expected text, such as run.id"
    raise DefinitionError(f"{run_id!r} is not a run's id; {hint}")
