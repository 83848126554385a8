"""Who is told to stop, and told again: by signals, or by being cancelled.

SIGTERM and Ctrl-C, told apart: the first one stops a process in good order, another one ends it at once.

Whoever signals a process and then its whole group, as timeout(1) does and some wrappers of commands, sends the same
signal twice, and means it once. So for a moment after the first one nothing is taken for a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from weakref import WeakKeyDictionary

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


@contextlib.contextmanager
def listening(told: Callable[[], None]) -> Iterator[None]:
    """Have it called at SIGTERM and Ctrl-C, as everybody who listens on this loop is.

    Only the main thread takes signals, and a loop has one handler for each. Whoever had it before the first one came
    has it again when the last one has gone.
    """
    loop = asyncio.get_running_loop()
    listeners = _listeners.setdefault(loop, _Listeners())
    listeners.add(loop, told)
    try:
        yield
    finally:
        listeners.remove(loop, told)


class _Listeners:
    """Those who listen on one loop, and how to give its signals back."""

    def __init__(self) -> None:
        self._told: list[Callable[[], None]] = []
        self._give_back: list[Callable[[], object]] = []

    def __call__(self) -> None:
        for told in list(self._told):
            told()

    def add(self, loop: asyncio.AbstractEventLoop, told: Callable[[], None]) -> None:
        if not self._told:
            for number in (signal.SIGTERM, signal.SIGINT):
                with contextlib.suppress(ValueError, NotImplementedError, RuntimeError):
                    self._take(loop, number)
        self._told.append(told)

    def remove(self, loop: asyncio.AbstractEventLoop, told: Callable[[], None]) -> None:
        self._told.remove(told)
        while self._give_back and not self._told:
            self._give_back.pop()()

    def _take(self, loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
        before, of_loop = signal.getsignal(number), _handler_of(loop, number)
        loop.add_signal_handler(number, self)

        def give_back() -> None:
            now = _handler_of(loop, number)
            if now is not None and now._callback is not self:
                # Somebody has taken it from us meanwhile.
                return
            loop.remove_signal_handler(number)
            if of_loop is not None:
                loop.add_signal_handler(number, of_loop._callback, *of_loop._args)
            elif before is not None:
                signal.signal(number, before)

        self._give_back.append(give_back)


def _handler_of(loop: asyncio.AbstractEventLoop, number: signal.Signals) -> Any:
    """The loop's own handler, as asyncio keeps it: it has no way to ask. A loop of another make may not tell."""
    return getattr(loop, "_signal_handlers", {}).get(number)


_listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, _Listeners] = WeakKeyDictionary()


async def through(work: Coroutine[Any, Any, None]) -> None:
    """Do it to its end, whoever cancels meanwhile: anyio does so on every turn of the loop."""
    doing = asyncio.ensure_future(work)
    while not doing.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([doing])
    doing.result()
