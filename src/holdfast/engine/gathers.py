"""The futures that `asyncio.gather` returns hash alike on every replay, as all futures of a body do.

asyncio makes them of a class of its own and asks no loop for it. They would hash by their addresses, so a set of them,
such as `asyncio.wait` returns, would be iterated in another order on each replay. Outside bodies nothing changes.
"""

from __future__ import annotations

from asyncio import tasks
from typing import Any

from .loop import BodyLoop

_Gathered: Any = tasks._GatheringFuture  # type: ignore[attr-defined]  # typeshed leaves it out


def _hash(gathered: Any) -> int:
    # By its first member, which is a task or a future of the body, or another gather. There is always one.
    if isinstance(gathered.get_loop(), BodyLoop):
        return hash(gathered._children[0])
    return object.__hash__(gathered)


def hash_by_members() -> None:
    """Make every gather of a body hash by its members. Calling this again changes nothing."""
    _Gathered.__hash__ = _hash
