"""Who is told to stop, and told again: by signals, or by being cancelled.

SIGTERM and Ctrl-C, told apart: the first one stops a process in good order, another one ends it at once.

Whoever signals a process and then its whole group, as timeout(1) does and some wrappers of commands, sends the same
signal twice, and means it once. So for a moment after the first one nothing is taken for a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

ECHO = 0.2
"""Seconds: nobody presses Ctrl-C again sooner and means it."""


class Interrupts:
    """To be called at each signal, on the process's event loop."""

    def __init__(self, stop: Callable[[], None], leave: Callable[[], None], log: logging.Logger) -> None:
        self._stop = stop
        self._leave = leave
        self._log = log
        self._is_told = False
        self._is_over = False

    def __call__(self) -> None:
        if not self._is_told:
            self._is_told = True
            asyncio.get_running_loop().call_later(ECHO, self._end)
            self._stop()
        elif self._is_over:
            self._leave()

    def _end(self) -> None:
        """What comes from here on is another one."""
        self._is_over = True
        self._log.info("still stopping; another signal ends it at once")


async def through(work: Coroutine[Any, Any, None]) -> None:
    """Do it to its end, whoever cancels meanwhile: anyio does so on every turn of the loop."""
    doing = asyncio.ensure_future(work)
    while not doing.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([doing])
    doing.result()
