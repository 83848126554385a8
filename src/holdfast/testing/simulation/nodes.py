"""What a random workflow is made of, as data: errands, which are the work of steps, and a tree of durable calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from holdfast.model import Retry

NAMES = ("charge", "ship", "mail", "look")
"""Few names, so that concurrent branches share them and numbering is put to the test."""

Code: TypeAlias = Literal["first", "patched", "second"]
"""The code of a program: as it was first written, changed under live runs with `patched`, or changed as another
version."""

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
    """What one step does outside."""

    number: int
    name: str
    durations: tuple[float, ...]
    """How many seconds each attempt takes; the last number counts for all further attempts."""
    fails: int = 0
    """How many attempts fail before one succeeds."""
    error: Literal["flaky", "value", "fatal", "later"] = "flaky"
    policy: int = 0
    timeout: float | None = None
    linger: float = 0.0
    """How many seconds its cleanup takes when it is cancelled."""
    is_killer: bool = False
    """It kills its process, every time."""
    beats: bool = False
    """It sends a heartbeat half-way."""
    emits: int = 0
    """How many items every attempt sends to a stream; each is set as a value, too."""

    def duration(self, attempt: int) -> float:
        return self.durations[min(attempt, len(self.durations)) - 1]


@dataclass(frozen=True, slots=True)
class Do:
    """Call a step; its argument depends on everything the body has seen so far."""

    errand: Errand
    is_pending: bool = False
    """It is called by `.start()` and awaited later."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A step that is under way while the body does something else."""

    errand: Errand
    part: Node


@dataclass(frozen=True, slots=True)
class Sleep:
    """A durable sleep, by `holdfast.sleep` or `asyncio.sleep`."""

    seconds: float
    is_asyncio: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Mix the run's own time, random numbers or ids into what the body knows."""

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
    """A part, and a second part that follows it even if it fails.

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
    """A child run: awaited; started beside a part and awaited or cancelled after it; or abandoned."""

    program: str
    how: Literal["await", "start", "cancel", "abandon"]
    part: Node
    key: str | None = None
    tells: bool = False
    """Whether it is sent a signal as soon as it is asked for."""


@dataclass(frozen=True, slots=True)
class Shielded:
    """A part that no cancel interrupts."""

    part: Node


@dataclass(frozen=True, slots=True)
class Undoable:
    """Register this errand as a compensation."""

    errand: Errand


@dataclass(frozen=True, slots=True)
class Post:
    """Send something with the turn."""

    what: Literal["event", "value", "item"]
    name: str


@dataclass(frozen=True, slots=True)
class Mapped:
    """A map: this errand's step for each item, or a child run of a program written before."""

    errand: Errand
    program: str | None
    count: int
    chunk: int
    concurrency: int
    collects: bool


@dataclass(frozen=True, slots=True)
class Booked:
    """A transactional step: its write and its result are one commit."""

    errand: Errand


@dataclass(frozen=True, slots=True)
class Patch:
    """Code that a deploy changes: another version takes the new part, and so does a run if `patched` says so.

    The old part is a step, so that a run which has taken it with the old code has an entry beyond this point.
    """

    name: str
    old: Do
    new: Node


Life: TypeAlias = Hear | Hooked | Offspring | Shielded | Undoable | Post | Mapped | Booked | Patch
Node: TypeAlias = Do | Beside | Sleep | Look | Series | Together | Within | Guard | Life
