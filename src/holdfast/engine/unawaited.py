"""Coroutines that nobody awaits and that are no durable calls: asyncio's own, and those of the user's functions.

A durable call knows that it was made. Of other coroutines Python tells when they are thrown away, by a function of
`warnings`. That function is replaced here: a line of a body that throws a coroutine away has skipped it. Outside bodies
nothing changes.
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
        # No frame may be there to look at, as at the end of a process or of a thread.
        _warn(coroutine)
    elif loop.is_closed():
        # The body is being put away. When it is rebuilt it comes to awaiting this coroutine.
        return
    elif is_users((frame := sys._getframe(1)).f_code.co_filename):
        loop.drop(frame)
    else:
        # No line of the user's threw it away: it was handed to something that a cancel has ended before it began.
        _warn(coroutine)


def hear_of_unawaited() -> None:
    """Make every body hear of such coroutines. Calling this again changes nothing."""
    if _warn is not None:
        setattr(warnings, _NAME, _hear)
