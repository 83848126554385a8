"""Coroutines that are no durable calls and that nobody awaits: asyncio's own, and those of functions of the user's.

A durable call knows that it was made. Of these it is Python that tells, when they are thrown away, by a function of
`warnings`: it is heard here, for what a line of a body throws away is skipped. Outside bodies nothing changes.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from typing import Any

from .divergence import is_users
from .loop import BodyLoop

_NAME = "_warn_unawaited_coroutine"
_warn: Any = getattr(warnings, _NAME, None)


def _hear(coroutine: Any) -> None:
    loop = asyncio._get_running_loop()
    if not isinstance(loop, BodyLoop):
        # Perhaps where no Python runs, as at the end of a process or of a thread: there is no frame to look at.
        _warn(coroutine)
    elif loop.is_closed():
        # The body is put away in the midst of what it does: when it is rebuilt it comes to awaiting this.
        return
    elif is_users((frame := sys._getframe(1)).f_code.co_filename):
        loop.drop(frame)
    else:
        # What nobody's line throws away was handed to something that a cancel has ended before it began.
        _warn(coroutine)


def hear_of_unawaited() -> None:
    """Have every body hear of them. Doing it again changes nothing."""
    if _warn is not None:
        setattr(warnings, _NAME, _hear)
