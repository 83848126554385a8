"""What `asyncio.gather` returns, among the futures of a body: it hashes alike on every replay, too.

asyncio makes it of a class of its own, for which no loop is asked. By their addresses, a set of them (what
`asyncio.wait` returns is one) would be gone through in another order on each replay. Outside bodies nothing changes.
"""

from __future__ import annotations

from asyncio import tasks
from typing import Any

from .loop import BodyLoop

_Gathered: Any = tasks._GatheringFuture  # type: ignore[attr-defined]  # typeshed leaves it out


def _hash(gathered: Any) -> int:
    # By the first that it gathers, which is a task or a future of the body, or another gather. There always is one.
    if isinstance(gathered.get_loop(), BodyLoop):
        return hash(gathered._children[0])
    return object.__hash__(gathered)


def hash_by_members() -> None:
    """Have every gather of a body hash so. Doing it again changes nothing."""
    _Gathered.__hash__ = _hash
