"""The garbage collector's finalizers: while it runs, no body advances and nobody's code may make a durable call.

It runs at any time, in any thread, and so does what a body has left in a reference cycle: a plain generator closed then
would execute the steps in its `finally` as plain calls, or in another run.
"""

from __future__ import annotations

import gc
import threading
import weakref
from contextvars import Token
from typing import Any, Protocol

from holdfast.define import FINALIZERS, current_scope


class Pumped(Protocol):
    """A body that is advancing."""

    is_dead: bool


class Pumping(Protocol):
    """What pumps bodies in one thread."""

    @property
    def pumped(self) -> Pumped | None:
        """The body that is advancing here."""


class _Refusing:
    """Shows FINALIZERS to whatever the collector runs, in whichever thread, for as long as it may be a body's.

    One for the whole process. It stays in `gc.callbacks`: Python would skip the callback behind one that leaves while
    they are called.
    """

    def __init__(self) -> None:
        self._watching: set[_Collecting] = set()
        self._closed = self._collected = object()
        """The last closing of runners, and the last one after which all garbage was collected."""
        self._begun: dict[int, list[tuple[Token[Any], object]]] = {}
        """By thread. Other threads go on when a finalizer lets go of the interpreter's lock."""

    def add(self, watching: _Collecting) -> None:
        self._watching.add(watching)
        if self not in gc.callbacks:
            gc.callbacks.append(self)

    def remove(self, watching: _Collecting) -> None:
        # In this order, for a collection in another thread: what these bodies have left is garbage only from here on.
        self._closed = object()
        self._watching.discard(watching)

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        thread = threading.get_ident()
        if phase == "start":
            if self._watching or self._closed is not self._collected:
                self._begun.setdefault(thread, []).append((current_scope.set(FINALIZERS), self._closed))
        elif thread in self._begun:
            before, closed = self._begun[thread].pop()
            if not self._begun[thread]:
                del self._begun[thread]
            if info.get("generation") == 2:
                self._collected = closed
            # Whatever was going on here goes on: a step finds itself again.
            current_scope.reset(before)


_refusing = _Refusing()


class _Collecting:
    """While the collector runs in this thread, the body that is advancing here counts as dead.

    Its loop is the running one then: what a finalizer asks of it, such as a task, belongs to no body.
    """

    def __init__(self, runners: Pumping) -> None:
        self._runners = weakref.ref(runners, self.end)
        self._thread = threading.get_ident()
        self._paused: Pumped | None = None

    def __call__(self, phase: str, info: object) -> None:
        runners = self._runners()
        if runners is None or threading.get_ident() != self._thread:
            return
        if phase == "start":
            pumped = runners.pumped
            if pumped is not None and not pumped.is_dead:
                self._paused, pumped.is_dead = pumped, True
        elif self._paused is not None:
            self._paused.is_dead, self._paused = False, None

    def end(self, _: object = None) -> None:
        if self in gc.callbacks:
            gc.callbacks.remove(self)
            _refusing.remove(self)


def watch_collector(runners: Pumping) -> _Collecting:
    """Watch the collector from here on, until the runners are freed or `end` is called."""
    made = _Collecting(runners)
    gc.callbacks.append(made)
    _refusing.add(made)
    return made
