"""Observer: what receives facts. Observers: all observers of one worker or client.

An observer never changes what happens. If one raises, the error is logged, and neither the run nor the other observers
are affected.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeGuard

from holdfast.define import RunInfo, StepInfo
from holdfast.errors import DefinitionError
from holdfast.model import RunRecord

from .facts import Fact, RunEnded, StepEnd

_log = logging.getLogger("holdfast.observe")


class Observer:
    """Derive from it, override what you need, and give it to a worker or a client: `observers=[Mine()]`.

    All methods are called while runs wait, most of them on the worker's event loop: be quick, never block. A client
    calls them in the thread that uses the client.
    """

    def open(self) -> None:
        """A worker is about to begin. If this raises, the worker does not begin."""

    def close(self) -> None:
        """The worker has stopped."""

    def observe(self, fact: Fact) -> None:
        """Something has happened."""

    def hold(self, run: RunInfo) -> None:
        """A worker has taken a run, and nothing of it has executed there yet."""

    def enter(self, step: StepInfo) -> None:
        """An attempt is about to execute.

        This is called in the attempt's own context: contextvars set here are seen by the step, also in its thread, and
        by nothing else.
        """

    def caller_trace(self) -> str | None:
        """The trace of the code that calls a client.

        In W3C's form: a `traceparent`, followed by a space and a `tracestate` if there is one.
        """
        return None

    def trace_of(self, run: RunRecord) -> str | None:
        """The span context of a run, in W3C's form: the parent of runs that retry it or are forked from it."""
        return None


class GroupObserver(Observer):
    """An observer of our own that gets many ends of steps and runs in one call, a little later: that costs less."""

    @abstractmethod
    def observe_group(self, steps: Sequence[StepEnd], runs: Sequence[RunEnded]) -> None:
        """These have ended, in this order. Facts about what happened after them are reported after this call.

        The StepInfo of a step that failed has its error.
        """

    def shortcut(self, name: str) -> Callable[..., None] | None:
        """A cheaper function than the method of that name, once the observer is open; None if there is none."""
        return None


class Observers:
    """The observers of one worker or client, of which there is at least one."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self.all = tuple(observers)
        self._observes = _overridden(self.all, "observe")
        self.at_once = _overridden((one for one in self.all if not _takes_groups(one)), "observe")
        """The `observe` of those that get each end of a step or a run at once."""
        self.in_groups = tuple(one.observe_group for one in self.all if _takes_groups(one))
        """The `observe_group` of those that get them together, a little later."""
        self._callers = _overridden(self.all, "caller_trace")
        self._tracers = _overridden(self.all, "trace_of")
        self._broken: set[Callable[..., Any]] = set()

    @staticmethod
    def of(observers: Sequence[Observer]) -> Observers | None:
        """These observers; None if there are none."""
        return Observers(observers) if observers else None

    def open(self) -> None:
        """Open all of them. If one raises, those opened before are closed again."""
        for number, one in enumerate(self.all):
            try:
                one.open()
            except BaseException:
                self._close(self.all[:number])
                raise

    def close(self) -> None:
        """Close all of them, even if one raises."""
        self._close(self.all)

    def _close(self, observers: Iterable[Observer]) -> None:
        for one in observers:
            try:
                one.close()
            except Exception:
                self.failed(one.close)

    def tell(self, fact: Fact) -> None:
        """Give a fact to every observer that overrides `observe`."""
        for observe in self._observes:
            try:
                observe(fact)
            except Exception:
                self.failed(observe)

    def methods(self, name: Literal["hold", "enter"]) -> tuple[Callable[[Any], None], ...]:
        """The methods of that name, or their shortcuts. Call it when all observers are open."""
        found = [one for one in self.all if _overrides(one, name)]
        return tuple(
            (one.shortcut(name) if isinstance(one, GroupObserver) else None) or getattr(one, name) for one in found
        )

    def caller_trace(self) -> str | None:
        """The first caller's trace that an observer knows."""
        return self._first(self._callers)

    def trace_of(self, run: RunRecord) -> str | None:
        """The first span context of the run that an observer knows."""
        return self._first(self._tracers, run)

    def _first(self, calls: Sequence[Callable[..., str | None]], *args: RunRecord) -> str | None:
        for call in calls:
            try:
                found = call(*args)
            except Exception:
                self.failed(call)
            else:
                if found is not None:
                    return found
        return None

    def failed(self, call: Callable[..., Any]) -> None:
        """Log that an observer's method has raised."""
        # Once per method: facts come by the thousand.
        if call not in self._broken:
            self._broken.add(call)
            _log.exception("an observer raised; this is said once, and what it missed is lost: %r", call)


def checked_observers(observers: object, *, giver: str) -> tuple[Observer, ...]:
    """The given observers as a tuple. Raises DefinitionError if one of them is no observer."""
    if isinstance(observers, Observer) or not isinstance(observers, Iterable):
        raise DefinitionError(f"{giver}(observers={observers!r}) is no list; expected [{observers!r}]")
    found = tuple(observers)
    for one in found:
        if not isinstance(one, Observer):
            raise DefinitionError(
                f"{giver}(observers=[{one!r}]): expected instances of classes that derive from "
                "holdfast.observe.Observer, such as Prometheus() or Tracing()"
            )
    return found


def _takes_groups(one: Observer) -> TypeGuard[GroupObserver]:
    """Whether it gets ends in groups: not if a class derived from one of ours overrides `observe` alone."""
    definer = next(kind for kind in type(one).__mro__ if "observe" in vars(kind) or "observe_group" in vars(kind))
    return "observe_group" in vars(definer)


def _overridden(observers: Iterable[Observer], name: str) -> tuple[Callable[..., Any], ...]:
    """The methods of that name, of the observers that override it."""
    return tuple(getattr(one, name) for one in observers if _overrides(one, name))


def _overrides(one: Observer, name: str) -> bool:
    return getattr(type(one), name) is not getattr(Observer, name)
