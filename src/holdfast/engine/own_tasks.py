"""In a body `asyncio.all_tasks` finds the body's own tasks, in the order of their creation.

asyncio keeps the tasks of all loops in one set, whose order depends on the other runs. The set that all_tasks makes of
one body's tasks would have another order on each replay. Outside bodies nothing changes.
"""

from __future__ import annotations

from asyncio import events, tasks
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

from .loop import BodyLoop


class _Tasks(WeakSet[Any]):
    def __iter__(self) -> Iterator[Any]:
        loop = events._get_running_loop()
        return iter(loop.tasks.values()) if isinstance(loop, BodyLoop) else super().__iter__()


def find_in_order() -> None:
    """Make every body find its tasks so. Calling this again changes nothing."""
    # The set's name since Python 3.12, and before. From 3.14 on there is no such set: tasks are kept in order.
    for name in ("_scheduled_tasks", "_all_tasks"):
        found = getattr(tasks, name, None)
        if isinstance(found, WeakSet):
            found.__class__ = _Tasks
