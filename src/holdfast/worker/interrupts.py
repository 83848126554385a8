"""Signals and cancels that tell a process to stop.

SIGTERM and Ctrl-C: the first one stops a process in good order, a second one ends it at once.

Some send a signal to a process and then to its whole group, as timeout(1) and some wrappers of commands do: it comes
twice, and is meant once. So for a moment after the first signal no other counts as the second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.define import HouseLogger

ECHO = 0.2
"""In seconds. Nobody who means a second Ctrl-C presses it sooner."""


class Interrupts:
    """Called at each signal, on the process's event loop."""

    def __init__(self, stop: Callable[[], None], leave: Callable[[], None], log: logging.Logger | HouseLogger) -> None:
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
        """A signal that comes from here on is a second one."""
        self._is_over = True
        self._log.info("still stopping; another signal ends it at once")


@contextlib.contextmanager
def listening(told: Callable[[], None]) -> Iterator[None]:
    """Call `told` at SIGTERM and Ctrl-C, together with every other listener on this loop.

    Only the main thread takes signals, and a loop has one handler for each. The handler that there was before the first
    listener came is put back when the last one has gone.
    """
    loop = asyncio.get_running_loop()
    listeners = _listeners.setdefault(loop, _Listeners())
    listeners.add(loop, told)
    try:
        yield
    finally:
        listeners.remove(loop, told)


class _Listeners:
    """The listeners on one loop, and how to put the former handlers back."""

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
                # Somebody else has set a handler meanwhile.
                return
            loop.remove_signal_handler(number)
            if of_loop is not None:
                loop.add_signal_handler(number, of_loop._callback, *of_loop._args)
            elif before is not None:
                signal.signal(number, before)

        self._give_back.append(give_back)


def _handler_of(loop: asyncio.AbstractEventLoop, number: signal.Signals) -> Any:
    """The loop's own handler, where asyncio keeps it: asyncio has no call that returns it, and other loops may not have
    it."""
    return getattr(loop, "_signal_handlers", {}).get(number)


_listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, _Listeners] = WeakKeyDictionary()


async def through(work: Coroutine[Any, Any, None]) -> None:
    """Do the work to its end even if this is cancelled meanwhile: anyio cancels again at every turn of the loop."""
    doing = asyncio.ensure_future(work)
    while not doing.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([doing])
    doing.result()
