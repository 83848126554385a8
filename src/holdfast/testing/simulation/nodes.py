"""What a random workflow is made of, as data: errands, which steps do outside, and a tree of durable calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from holdfast.model import Retry

NAMES = ("charge", "ship", "mail", "look")
"""Few names, so that concurrent branches share them and numbering is put to the test."""

Code: TypeAlias = Literal["first", "patched", "second"]
"""Of a program: as it was written, changed under live runs with `patched`, or changed as another version."""

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
    emits: int = 0
    """Items that every attempt sends to a stream, and each of them as a value, too."""

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


@dataclass(frozen=True, slots=True)
class Mapped:
    """A fan-out: this errand's step for each item, or a child run of a program written before."""

    errand: Errand
    program: str | None
    count: int
    chunk: int
    concurrency: int
    collects: bool


@dataclass(frozen=True, slots=True)
class Booked:
    """A transactional step: what it writes and its result are one commit."""

    errand: Errand


@dataclass(frozen=True, slots=True)
class Patch:
    """Code that a deploy changes: another version does the new part, and so does a run if `patched` says so.

    The old part is a step, so that a run which has come here with the old code has something beyond in its journal.
    """

    name: str
    old: Do
    new: Node


Life: TypeAlias = Hear | Hooked | Offspring | Shielded | Undoable | Post | Mapped | Booked | Patch
Node: TypeAlias = Do | Beside | Sleep | Look | Series | Together | Within | Guard | Life
