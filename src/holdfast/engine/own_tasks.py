"""What `asyncio.all_tasks` finds, in a body: its own tasks in the order of their creation.

asyncio keeps the tasks of all loops in one set, where what comes first depends on who else is there. So would the order
of the set that it makes of those of one body, on each replay. Outside bodies nothing changes.
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
    """Have every body find its tasks so. Doing it again changes nothing."""
    # Its name since Python 3.12, and before. From 3.14 on there is none: tasks are kept in order.
    for name in ("_scheduled_tasks", "_all_tasks"):
        found = getattr(tasks, name, None)
        if isinstance(found, WeakSet):
            found.__class__ = _Tasks
