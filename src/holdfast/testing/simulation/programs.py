"""Random workflows as data: a tree of durable calls that a body interprets. Which tree it is, the dice decide."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Literal, TypeAlias

from holdfast.model import Retry

NAMES = ("charge", "ship", "mail", "look")
"""Few names, so that concurrent branches share them and numbering is put to the test."""

POLICIES = (
    Retry(attempts=1),
    Retry(attempts=2, initial="200ms", kind="fixed", jitter=0.0),
    Retry(attempts=3, initial="500ms", jitter=0.2),
    Retry(attempts=4, initial="1s", factor=3, max="12s", jitter=0.5),
    Retry(attempts=3, initial="100ms", kind="linear", unless=(ValueError,)),
    Retry(attempts=None, initial="300ms", max="2s"),
)


@dataclass(frozen=True, slots=True)
class Errand:
    """What one step does in the world outside."""

    number: int
    name: str
    durations: tuple[float, ...]
    """Seconds that each attempt takes; the last one counts for all that follow."""
    fails: int = 0
    """Attempts that fail before one succeeds."""
    error: Literal["flaky", "value", "fatal", "later"] = "flaky"
    policy: int = 0
    timeout: float | None = None
    linger: float = 0.0
    """Seconds of cleanup when it is cancelled."""
    is_killer: bool = False
    """It takes its process down, every time."""
    beats: bool = False
    """It says half-way that it is alive."""

    def duration(self, attempt: int) -> float:
        return self.durations[min(attempt, len(self.durations)) - 1]


@dataclass(frozen=True, slots=True)
class Do:
    """Call a step; its argument depends on everything the body has seen so far."""

    errand: Errand
    is_pending: bool = False
    """Asked by `.start()` and looked at later."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A step under way while the body does something else."""

    errand: Errand
    part: Node


@dataclass(frozen=True, slots=True)
class Sleep:
    """A durable sleep, by either name."""

    seconds: float
    is_asyncio: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Mix the run's own time, dice or ids into what the body knows."""

    what: Literal["now", "rng", "uuid4"]


@dataclass(frozen=True, slots=True)
class Series:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """All at once: gather, a TaskGroup, or a race whose losers are cancelled."""

    how: Literal["gather", "group", "race"]
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Within:
    """A timeout around a part."""

    seconds: float
    part: Node


@dataclass(frozen=True, slots=True)
class Guard:
    """A part and what follows whatever becomes of it.

    "except" catches errors, "finally" runs steps on the way out, "swallow" catches even what must not be caught.
    """

    how: Literal["except", "finally", "swallow"]
    part: Node
    after: Node


@dataclass(frozen=True, slots=True)
class Hear:
    """Wait for a signal or an event; without seconds, for as long as it takes."""

    what: Literal["signal", "event"]
    name: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Hooked:
    """Make a hook, tell the world its token, and wait for it."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class Offspring:
    """A child run: awaited, started beside a part and awaited or called off after it, or left alone."""

    program: str
    how: Literal["await", "start", "cancel", "abandon"]
    part: Node
    key: str | None = None
    tells: bool = False
    """It is sent a signal as soon as it is asked for."""


@dataclass(frozen=True, slots=True)
class Shielded:
    """A part that no cancel interrupts."""

    part: Node


@dataclass(frozen=True, slots=True)
class Undoable:
    """From here on this errand is done if the run fails or is cancelled."""

    errand: Errand


@dataclass(frozen=True, slots=True)
class Post:
    """Send something with the turn."""

    what: Literal["event", "value", "item"]
    name: str


Life: TypeAlias = Hear | Hooked | Offspring | Shielded | Undoable | Post
Node: TypeAlias = Do | Beside | Sleep | Look | Series | Together | Within | Guard | Life


@dataclass(frozen=True, slots=True)
class Program:
    """One workflow: its body's colour, its tree and its policies."""

    name: str
    is_async: bool
    root: Node
    retry: int | None = None
    max_crashes: int = 5
    is_killer: bool = False
    again: int = 0
    """How often it continues as new."""
    errands: dict[int, Errand] = field(default_factory=dict)
    seconds: float = 0.0
    """More than it can take if nothing goes wrong."""


class Author:
    """Writes programs."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._children: tuple[str, ...] = ()
        self._has_life = False
        self._errands: dict[int, Errand] = {}
        self._numbers = 0
        self._seconds = 0.0

    def program(self, name: str, *, is_killer: bool = False, children: tuple[str, ...] = ()) -> Program:
        """One of its own; it may call those that were written before it."""
        dice = self._dice
        self._errands = {}
        self._seconds = 0.0
        self._children = children
        is_async = dice.random() < 0.7
        size = dice.choice((3, 5, 7, 9, 12, 16))
        self._has_life = is_async and not is_killer and dice.random() < 0.7
        again = dice.choice((0, 0, 1, 2)) if self._has_life else 0
        if is_killer:
            kill = Do(self._errand(is_killer=True))
            root: Node = Series((self._tree(2, is_async), kill)) if dice.random() < 0.5 else kill
        else:
            root = self._tree(size, is_async)
        return Program(
            name=name,
            is_async=is_async,
            root=root,
            retry=dice.choice((1, 2, 4)) if dice.random() < 0.25 else None,
            max_crashes=dice.choice((1, 2, 3)) if is_killer else 5,
            is_killer=is_killer,
            again=again,
            errands=self._errands,
            seconds=self._seconds * (again + 1),
        )

    def _tree(self, size: int, is_async: bool) -> Node:
        """A tree of about so many calls."""
        dice = self._dice
        if size <= 1:
            return self._leaf()
        roll = dice.random()
        if roll < 0.48:
            cut = dice.randint(1, size - 1)
            return Series((self._tree(cut, is_async), self._tree(size - cut, is_async)))
        if roll < 0.74:
            return self._together(size, is_async)
        if roll < 0.82:
            return Within(self._span(), self._tree(size, is_async) if is_async else self._leaf())
        if roll < 0.88:
            return Beside(self._errand(), self._tree(size - 1, is_async))
        how: Literal["except", "finally", "swallow"] = dice.choice(("except", "except", "finally", "swallow"))
        return Guard(how, self._tree(size - 1, is_async), self._leaf())

    def _together(self, size: int, is_async: bool) -> Node:
        dice = self._dice
        how: Literal["gather", "group", "race"] = dice.choice(("gather", "group", "race"))
        count = min(size, dice.choice((2, 2, 3, 4)))
        if not is_async:
            # A def body has no tasks of its own: what runs at once there is steps.
            return Together(how, tuple(Do(self._errand()) for _ in range(count)))
        parts = [self._tree(max(size // count, 1), is_async) for _ in range(count)]
        return Together(how, tuple(parts))

    def _leaf(self) -> Node:
        dice = self._dice
        if self._has_life and dice.random() < 0.4:
            return self._life()
        roll = dice.random()
        if roll < 0.66:
            return Do(self._errand(), is_pending=dice.random() < 0.15)
        if roll < 0.86:
            return Sleep(self._span(), is_asyncio=dice.random() < 0.3)
        return Look(dice.choice(("now", "rng", "uuid4")))

    def _life(self) -> Node:
        """Something that only a body with tasks of its own does here."""
        dice = self._dice
        roll = dice.random()
        if roll < 0.4:
            what: Literal["signal", "event"] = dice.choice(("signal", "signal", "event"))
            name = dice.choice(("a", "b") if what == "signal" else ("e", "f"))
            return Hear(what, name, self._patience())
        if roll < 0.5:
            return Hooked(self._patience())
        if roll < 0.6:
            return Undoable(self._errand(name="undo"))
        if roll < 0.7:
            kind: Literal["event", "value", "item"] = dice.choice(("event", "value", "item"))
            return Post(kind, dice.choice(("e", "f")))
        if roll < 0.78 or not self._children:
            return Shielded(Do(self._errand()))
        how: Literal["await", "start", "cancel", "abandon"] = dice.choice(
            ("await", "await", "start", "cancel", "abandon")
        )
        key = f"key-{dice.randrange(3)}" if dice.random() < 0.1 else None
        self._seconds += 60.0
        return Offspring(dice.choice(self._children), how, self._leaf(), key, tells=dice.random() < 0.5)

    def _patience(self) -> float | None:
        if self._dice.random() < 0.5:
            return self._span()
        self._seconds += 15.0
        return None

    def _span(self) -> float:
        dice = self._dice
        found = dice.choice((0.0, 0.01, 0.3, 1.0, 1.0, 2.5, 2.5, 7.0, 12.0, 25.0)) + dice.choice((0.0, 0.1))
        self._seconds += found
        return found

    def _errand(self, *, is_killer: bool = False, name: str | None = None) -> Errand:
        dice = self._dice
        self._numbers += 1
        fails = dice.choice((0,) * 9 + (1, 1, 1, 1, 2, 2, 9))
        errand = Errand(
            number=self._numbers,
            name=name or dice.choice(NAMES),
            durations=tuple(
                dice.choice((0.0, 0.001, 0.05, 0.05, 0.4, 0.8, 1.5, 4.0)) for _ in range(dice.choice((1, 1, 2)))
            ),
            fails=0 if is_killer else fails,
            error=dice.choice(("flaky", "flaky", "flaky", "flaky", "value", "fatal", "later")),
            policy=dice.choice((2, 2, 3, 3, 4, 5, 5, 0, 1)) if fails < 9 else dice.choice((0, 1, 2)),
            timeout=dice.choice((None,) * 8 + (0.2, 2.0, 2.0)) if not is_killer else None,
            linger=dice.choice((0.0, 0.0, 0.0, 0.3)),
            is_killer=is_killer,
            beats=not is_killer and dice.random() < 0.1,
        )
        if errand.timeout is not None and errand.policy == len(POLICIES) - 1:
            # Every attempt may time out, and this policy never gives up.
            errand = Errand(errand.number, errand.name, errand.durations, errand.fails, errand.error)
        self._errands[errand.number] = errand
        self._seconds += sum(errand.duration(n + 1) for n in range(fails + 1)) + 40.0 * bool(fails) + errand.linger
        return errand
