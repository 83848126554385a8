"""Observer: who is told. Observers: all of those that one worker or client was given.

An observer never changes what happens. One that raises is logged, and the others and the run don't notice.
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

    Everything here is called on the path that runs take, most of it on the worker's event loop: be quick, never block.
    A client calls from whatever thread it is used in.
    """

    def open(self) -> None:
        """A worker is about to begin. May raise: then the worker does not begin."""

    def close(self) -> None:
        """The worker has stopped."""

    def observe(self, fact: Fact) -> None:
        """Something has happened."""

    def hold(self, run: RunInfo) -> None:
        """A run has come into this worker's hands, and nothing of it has executed here yet."""

    def enter(self, step: StepInfo) -> None:
        """An attempt is about to execute, and this is its own context: what is set in a contextvar here is seen by the
        step, also in its thread, and by nobody else."""

    def caller_trace(self) -> str | None:
        """The trace that the caller of a client is in, as W3C writes it: a `traceparent`, and after a space a
        `tracestate` if there is one."""
        return None

    def trace_of(self, run: RunRecord) -> str | None:
        """Where a run stands in its trace, as W3C writes it: what retries it, or forks from it, is put below that."""
        return None


class GroupObserver(Observer):
    """One of ours, who need not hear of each end at once, and pays less for hearing of many in one call."""

    @abstractmethod
    def observe_group(self, steps: Sequence[StepEnd], runs: Sequence[RunEnded]) -> None:
        """These have ended, in this order. Whatever comes after them is told after them.

        A step that failed has its error.
        """

    def shortcut(self, name: str) -> Callable[..., None] | None:
        """A shorter way to what the method of that name does, now that it is open; None if there is none."""
        return None


class Observers:
    """Several as one. Where there are none there is none of these either."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self.all = tuple(observers)
        self._observes = _overridden(self.all, "observe")
        self.at_once = _overridden((one for one in self.all if not _takes_groups(one)), "observe")
        """Who hears of the end of a step or a run when it has ended."""
        self.in_groups = tuple(one.observe_group for one in self.all if _takes_groups(one))
        """Who hears of them together, a little later."""
        self._callers = _overridden(self.all, "caller_trace")
        self._tracers = _overridden(self.all, "trace_of")
        self._broken: set[Callable[..., Any]] = set()

    @staticmethod
    def of(observers: Sequence[Observer]) -> Observers | None:
        """These as one; None if there are none."""
        return Observers(observers) if observers else None

    def open(self) -> None:
        """All, or none if one of them can't."""
        for number, one in enumerate(self.all):
            try:
                one.open()
            except BaseException:
                self._close(self.all[:number])
                raise

    def close(self) -> None:
        """All of them; one that raises keeps none of the others from it."""
        self._close(self.all)

    def _close(self, observers: Iterable[Observer]) -> None:
        for one in observers:
            try:
                one.close()
            except Exception:
                self.failed(one.close)

    def tell(self, fact: Fact) -> None:
        """Tell those who hear of each fact as it comes."""
        for observe in self._observes:
            try:
                observe(fact)
            except Exception:
                self.failed(observe)

    def ways(self, name: Literal["hold", "enter"]) -> tuple[Callable[[Any], None], ...]:
        """The methods of that name, or what does the same in fewer calls. Ask when all are open."""
        found = [one for one in self.all if _overrides(one, name)]
        return tuple(
            (one.shortcut(name) if isinstance(one, GroupObserver) else None) or getattr(one, name) for one in found
        )

    def caller_trace(self) -> str | None:
        """The first that an observer knows of."""
        return self._first(self._callers)

    def trace_of(self, run: RunRecord) -> str | None:
        """The same of a run."""
        return self._first(self._tracers, run)

    def _first(self, asked: Sequence[Callable[..., str | None]], *about: RunRecord) -> str | None:
        for ask in asked:
            try:
                found = ask(*about)
            except Exception:
                self.failed(ask)
            else:
                if found is not None:
                    return found
        return None

    def failed(self, call: Callable[..., Any]) -> None:
        """One has raised: say so."""
        # Once each: facts come by the thousand.
        if call not in self._broken:
            self._broken.add(call)
            _log.exception("an observer raised; this is said once, and what it missed is lost: %r", call)


def checked_observers(observers: object, *, giver: str) -> tuple[Observer, ...]:
    """What was given, if all of it are observers."""
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
    """Not a class derived from one of ours that looks at each fact itself."""
    definer = next(kind for kind in type(one).__mro__ if "observe" in vars(kind) or "observe_group" in vars(kind))
    return "observe_group" in vars(definer)


def _overridden(observers: Iterable[Observer], name: str) -> tuple[Callable[..., Any], ...]:
    """The methods of that name, without those that do nothing."""
    return tuple(getattr(one, name) for one in observers if _overrides(one, name))


def _overrides(one: Observer, name: str) -> bool:
    return getattr(type(one), name) is not getattr(Observer, name)
