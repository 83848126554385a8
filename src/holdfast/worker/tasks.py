"""Tasks that begin in a later turn of the loop, whatever task factory the application has set."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any


def begun_later(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None], *, name: str, context: Context | None = None
) -> asyncio.Task[None]:
    """A task that has not begun when this returns, so that its maker can first note that it is under way."""
    if loop.get_task_factory() is None:
        return loop.create_task(work, name=name, context=context)
    # With asyncio.eager_task_factory, for one, the task might be over by then.
    return asyncio.Task(work, loop=loop, name=name, context=context)
