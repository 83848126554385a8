"""The report of P10: what the journal holds, what the code asked for, and where."""

from __future__ import annotations

import asyncio
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from holdfast.codec import message_of
from holdfast.errors import JournalDiverged
from holdfast.model import (
    MESSAGES,
    ChildAsked,
    ChildEnded,
    Entry,
    StepAsked,
    StepCompleted,
    StepFailed,
    StepRetrying,
    TimerFired,
)

_HOUSE = str(Path(__file__).parent.parent) + "/"
_ASYNCIO = "/asyncio/"
_LIBRARIES = ("/site-packages/", "/dist-packages/", f"{sysconfig.get_path('stdlib')}/")


def calling_line(depth: int) -> str | None:
    """The line of the user's code that is executing, as in "orders.py:42 in checkout"; None if none is on the stack.

    The innermost `depth` frames above this one are known to be the house's own.
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return line_of(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return None


def own_line(frame: FrameType | None, main: asyncio.Task[Any] | None) -> str | None:
    """The line of the user's code that led here, perhaps through libraries; None if only the house did.

    A task that a library has made has none of the user's frames above it; then it is the line at which the body waits.
    If the user's code is itself installed like a library, it is the outermost line, the body's own.
    """
    outermost = None
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            outermost = frame
            if _is_own(frame):
                break
        frame = frame.f_back
    found = frame or next((one for one in reversed(_awaiting(main)) if _is_own(one)), outermost)
    return None if found is None else line_of(found.f_code, found.f_lineno)


def _awaiting(main: asyncio.Task[Any] | None) -> list[FrameType]:
    """The frames of a waiting task, the outermost first."""
    frames = []
    awaited: Any = None if main is None else main.get_coro()
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        frames.append(frame)
        awaited = awaited.cr_await
    return frames


def _is_own(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return is_users(file) and not any(place in file for place in _LIBRARIES)


def is_users(file: str) -> bool:
    """Whether a file belongs neither to the house nor to Python itself."""
    return not file.startswith(_HOUSE) and _ASYNCIO not in file and not file.startswith("<frozen")


def line_of(code: CodeType, line: int) -> str:
    """A line in the form in which messages name it."""
    return f"{Path(code.co_filename).name}:{line} in {code.co_name}"


def line_at(code: CodeType, at: int) -> str:
    """The line of an instruction. Calls are remembered without: finding it goes through all of the code before it."""
    return line_of(code, next(line or 0 for start, end, line in code.co_lines() if start <= at < end))


def ending(main: asyncio.Task[Any]) -> str:
    """The error a body ended with and its line, as the second half of a sentence; empty if there was none."""
    error = None if main.cancelled() else main.exception()
    if error is None:
        return ""
    line = ""
    trace = error.__traceback__
    while trace is not None:
        if is_users(trace.tb_frame.f_code.co_filename):
            line = f", at {line_of(trace.tb_frame.f_code, trace.tb_lineno)}"
        trace = trace.tb_next
    return f" with {type(error).__name__}: {message_of(error)}{line}"


def diverged(run: str, number: int, held: Entry | None, asked: str) -> JournalDiverged:
    """The error itself. `number` is the entry's place in the history, from 0."""
    holds = "nothing more" if held is None else describe(held)
    return JournalDiverged(
        f"{run} does not match its journal at entry {number}.\n"
        f"  the journal holds: {holds}\n"
        f"  the code asked for: {asked}\n"
        "The run is intact. Deploy code that asks for the same things in the same order, or give changed code a new "
        "version= and keep the old one for the runs in flight; the run then goes on by itself."
    )


def describe(entry: Entry) -> str:
    """An entry in a few words."""
    if isinstance(entry, StepAsked):
        return f"step {entry.key!r} asked, arguments {entry.digest.hex()}"
    if isinstance(entry, (StepCompleted, StepFailed, StepRetrying)):
        return f"{entry.kind} of {entry.key!r}, attempt {entry.attempt}"
    if isinstance(entry, ChildAsked):
        return f"child run {entry.key!r} asked, arguments {entry.digest.hex()}"
    if isinstance(entry, ChildEnded):
        return f"{entry.kind} of {entry.key!r}"
    if isinstance(entry, MESSAGES):
        return f"{entry.kind} {entry.name!r}"
    if isinstance(entry, TimerFired):
        return f"timer {entry.timer} fired"
    return entry.kind
