"""Retry policies: when to try again, and after how long. Pure: the caller passes the time and a random number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, TypeVar

from holdfast.errors import DefinitionError, FatalError, RetryAfter

from .durations import Duration, microseconds
from .entries import StoredRetry

E = TypeVar("E", bound=BaseException)
Kind = Literal["fixed", "linear", "exponential"]
FINAL_MARK = "__holdfast_final__"


class _Default(str):
    """A default that shows as what it means, and is told from the same text given: that always bounds."""

    __slots__ = ()


_MAX = _Default("60s")


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and how long after an error, a step or a whole workflow is tried again.

        @step(retry=Retry(attempts=5, initial="1s", max="5m", unless=(CardDeclined,)))

    `attempts` counts all tries, the first included: `Retry(attempts=1)` is no retry, and None means no end. `within`
    ends the tries when so much time has passed since the first one began. `initial`, `max` and `within` are durations.

    A step without a policy, or with `retry=None`, has `Retry()`: three attempts. A workflow without one is not retried.

    `kind` says how the delay before attempt n+1 grows: it is `initial` ("fixed"), `initial * n` ("linear") or
    `initial * factor ** (n - 1)` ("exponential", the default). It is never more than `max`. If no `max` is given, that
    is a minute, or `initial` if that is longer. It is then spread by up to `jitter` of itself to either side.

    `on` lists the exception classes that are worth another try, `unless` those that are not. `RetryAfter` brings its
    own delay. Three kinds of failures are never retried, neither by the step's policy nor by that of its workflow or of
    a parent: a `FatalError`, a result that can't be stored, and an exception that is no Exception. Crashes of the
    worker are not errors and do not count here.

    An invalid policy raises DefinitionError where it is written.
    """

    attempts: int | None = 3
    initial: Duration = "1s"
    factor: float = 2
    max: Duration = _MAX
    jitter: float = 0.2
    kind: Kind = "exponential"
    on: Sequence[type[BaseException]] = (Exception,)
    unless: Sequence[type[BaseException]] = ()
    within: Duration | None = None
    _initial: int = field(init=False, repr=False, compare=False, default=0)
    _max: int = field(init=False, repr=False, default=0)
    _within: int | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if self.attempts is not None and (
            isinstance(self.attempts, bool) or not isinstance(self.attempts, int) or self.attempts < 1
        ):
            raise DefinitionError(
                f"Retry(attempts={self.attempts!r}): expected a whole number from 1, or None for no end"
            )
        if self.kind not in ("fixed", "linear", "exponential"):
            raise DefinitionError(f"Retry(kind={self.kind!r}): expected 'fixed', 'linear' or 'exponential'")
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise DefinitionError(f"Retry(jitter={self.jitter!r}): expected a share from 0 to 1")
        if not _is_number(self.factor) or self.factor < 1:
            raise DefinitionError(f"Retry(factor={self.factor!r}): expected 1 or more")
        set_ = object.__setattr__
        set_(self, "on", _classes(self.on, "on"))
        set_(self, "unless", _classes(self.unless, "unless"))
        set_(self, "_initial", microseconds(self.initial, what="Retry(initial=)"))
        longest = microseconds(self.max, what="Retry(max=)")
        set_(self, "_max", max(longest, self._initial) if isinstance(self.max, _Default) else longest)
        set_(self, "_within", None if self.within is None else microseconds(self.within, what="Retry(within=)"))

    def delay(self, error: BaseException, attempt: int, spent: int, dice: float) -> int | None:
        """Microseconds to wait after `attempt` failed with `error`, or None to give up.

        `spent` is the time since the first attempt began, `dice` a number from 0 to 1.
        """
        if is_final(error) or not isinstance(error, Exception):
            return None
        if self.attempts is not None and attempt >= self.attempts:
            return None
        if isinstance(error, RetryAfter):
            pause = microseconds(error.delay, what="RetryAfter")
        elif isinstance(error, _kept(self.unless)) or not isinstance(error, _kept(self.on)):
            return None
        else:
            pause = self._pause(attempt, dice)
        if self._within is not None and spent + pause > self._within:
            return None
        return pause

    def _pause(self, attempt: int, dice: float) -> int:
        if self.kind == "fixed":
            pause: float = self._initial
        elif self.kind == "linear":
            pause = self._initial * attempt
        else:
            try:
                # The exponent is bounded: the ten-thousandth power of a whole number takes long to compute.
                pause = self._initial * self.factor ** min(attempt - 1, 64)
            except OverflowError:
                pause = self._max
        pause = min(pause, self._max)
        return round(pause * (1 + self.jitter * (2 * dice - 1)))


def as_final(error: E) -> E:
    """The same error, marked as final: no policy tries again after it, whatever its class."""
    # Not by setattr, for the exception may be a frozen dataclass.
    object.__setattr__(error, FINAL_MARK, True)
    return error


def is_final(error: BaseException) -> bool:
    """Whether the error is final: it is a FatalError or marked, or a group that holds such an error."""
    # By the types, here and below: `isinstance` asks for `__class__`, which may be a property that raises.
    if issubclass(type(error), BaseExceptionGroup):
        return error.subgroup(_is_final) is not None  # type: ignore[attr-defined]  # it is one
    return _is_final(error)


def _is_final(error: BaseException) -> bool:
    try:
        # Without the class's own `__getattr__`, which may fail where `__init__` never ran.
        return issubclass(type(error), FatalError) or bool(object.__getattribute__(error, FINAL_MARK))
    except AttributeError:
        return False


def stored_retry(retry: Retry) -> StoredRetry:
    """A policy in the form in which a journal keeps it."""
    on, unless = (
        tuple((one.__module__, one.__qualname__) for one in _kept(classes)) for classes in (retry.on, retry.unless)
    )
    return StoredRetry(
        retry.attempts, retry._initial, retry.factor, retry._max, retry.jitter, retry.kind, on, unless, retry._within
    )


def restored_retry(stored: StoredRetry, find: Callable[[str, str], type | None]) -> Retry | None:
    """The policy that was stored. `find` looks its exception classes up by module and name; None if one is not
    there."""
    on, unless = ([find(*name) for name in names] for names in (stored.on, stored.unless))
    classes = [one for one in (*on, *unless) if one is not None and issubclass(one, BaseException)]
    if len(classes) < len(on) + len(unless):
        return None
    return Retry(
        attempts=stored.attempts,
        initial=timedelta(microseconds=stored.initial),
        factor=stored.factor,
        max=timedelta(microseconds=stored.max),
        jitter=stored.jitter,
        kind=stored.kind,
        on=tuple(classes[: len(on)]),
        unless=tuple(classes[len(on) :]),
        within=None if stored.within is None else timedelta(microseconds=stored.within),
    )


def _is_number(given: object) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given)


def _kept(classes: Sequence[type[BaseException]]) -> tuple[type[BaseException], ...]:
    # A policy keeps them as a tuple, as `isinstance` takes them, however they were given.
    assert isinstance(classes, tuple), classes
    return classes


def _classes(given: object, what: str) -> tuple[type[BaseException], ...]:
    classes = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    for one in classes:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise DefinitionError(f"Retry({what}={one!r}): expected exception classes")
    return classes


NO_RETRY = Retry(attempts=1)
