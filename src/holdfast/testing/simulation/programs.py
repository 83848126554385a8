"""Random workflows: trees of durable calls that a body interprets, or machines. The dice decide which."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Literal

from .nodes import (
    NAMES,
    POLICIES,
    Beside,
    Booked,
    Do,
    Errand,
    Guard,
    Hear,
    Hooked,
    Look,
    Mapped,
    Node,
    Offspring,
    Patch,
    Post,
    Series,
    Shielded,
    Sleep,
    Together,
    Undoable,
    Within,
)

TRIGGER = "g"
"""The event that begins runs. Only clients publish it: a run that did so could begin itself for ever."""


@dataclass(frozen=True, slots=True)
class Program:
    """One workflow: whether its body is async, its tree and its policies."""

    name: str
    is_async: bool
    root: Node
    retry: int | None = None
    max_crashes: int = 5
    is_killer: bool = False
    again: int = 0
    """How often it continues as new."""
    on_event: str | None = None
    """The event that begins a run of it, if any."""
    retention: float | None = None
    """How many seconds its runs are kept."""
    states: int = 0
    """For a machine: how many states it goes through. Each does what its root says."""
    errands: dict[int, Errand] = field(default_factory=dict)
    seconds: float = 0.0
    """An upper bound on how many seconds it takes if nothing goes wrong."""


CHUNK = Program("holdfast.map", True, Series(()), seconds=60.0)
"""The program of chunk runs, which stand between a run and the children of its map."""


class Author:
    """Writes programs."""

    def __init__(self, dice: Random, *, has_patches: bool) -> None:
        self._dice = dice
        self._has_patches = has_patches
        self._children: tuple[str, ...] = ()
        self._has_life = False
        self._errands: dict[int, Errand] = {}
        self._numbers = 0
        self._seconds = 0.0

    def program(self, name: str, *, is_killer: bool = False, children: tuple[str, ...] = ()) -> Program:
        """Write a program. It may call the `children`, which were written before it."""
        dice = self._dice
        self._errands = {}
        self._seconds = 0.0
        self._children = children
        is_async = dice.random() < 0.7
        size = dice.choice((3, 5, 7, 9, 12, 16))
        self._has_life = not is_killer and dice.random() < 0.8
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
            on_event=TRIGGER if not is_killer and dice.random() < 0.2 else None,
            retention=dice.choice((0.0, 5.0, 30.0)) if not is_killer and dice.random() < 0.4 else None,
            errands=self._errands,
            seconds=self._seconds * (again + 1),
        )

    def machine(self, name: str) -> Program:
        """Write a machine: each of its states is the same errand, and long machines write checkpoints."""
        dice = self._dice
        self._errands = {}
        self._seconds = 0.0
        root = Do(self._errand(may_fail=False))
        states = dice.choice((1, 3, 5, 8, 110, 110))
        if states > 8:
            quick = Errand(root.errand.number, root.errand.name, (0.0,))
            root = Do(quick)
            self._errands = {quick.number: quick}
        seconds = (self._seconds + 15.0) * (states if states <= 8 else 1) + states * 0.1
        return Program(name, True, root, states=states, errands=self._errands, seconds=seconds)

    def _tree(self, size: int, is_async: bool) -> Node:
        """A tree of about `size` calls."""
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
            # A def body has no tasks of its own: only steps can run at once in it.
            return Together(how, tuple(Do(self._errand()) for _ in range(count)))
        parts = [self._tree(max(size // count, 1), is_async) for _ in range(count)]
        return Together(how, tuple(parts))

    def _leaf(self) -> Node:
        dice = self._dice
        if self._has_patches and dice.random() < 0.25:
            return self._patch()
        if self._has_life and dice.random() < 0.6:
            return self._life()
        roll = dice.random()
        if roll < 0.66:
            return Do(self._errand(), is_pending=dice.random() < 0.15)
        if roll < 0.86:
            return Sleep(self._span(), is_asyncio=dice.random() < 0.3)
        return Look(dice.choice(("now", "rng", "uuid4")))

    def _life(self) -> Node:
        """A leaf that has to do with others, or with what a run leaves behind."""
        dice = self._dice
        roll = dice.random()
        if roll < 0.24:
            what: Literal["signal", "event"] = dice.choice(("signal", "signal", "event"))
            name = dice.choice(("a", "b") if what == "signal" else ("e", "f"))
            return Hear(what, name, self._patience())
        if roll < 0.33:
            return Hooked(self._patience())
        if roll < 0.43:
            return Undoable(self._errand(name="undo"))
        if roll < 0.52:
            kind: Literal["event", "value", "item"] = dice.choice(("event", "value", "item", "item"))
            return Post(kind, dice.choice(("e", "f")))
        if roll < 0.61:
            return Booked(self._errand(name="book"))
        if roll < 0.75:
            return self._mapped()
        if roll < 0.77:
            return self._patch()
        if roll < 0.80 or not self._children:
            return Shielded(Do(self._errand()))
        how: Literal["await", "start", "cancel", "abandon"] = dice.choice(
            ("await", "await", "start", "cancel", "abandon")
        )
        key = f"key-{dice.randrange(3)}" if dice.random() < 0.1 else None
        self._seconds += 60.0
        return Offspring(dice.choice(self._children), how, self._leaf(), key, tells=dice.random() < 0.5)

    def _patch(self) -> Node:
        self._numbers += 1
        new = Do(self._errand()) if self._dice.random() < 0.7 else Sleep(self._span())
        return Patch(f"change {self._numbers}", Do(self._errand()), new)

    def _mapped(self) -> Node:
        dice = self._dice
        program = dice.choice(self._children) if self._children and dice.random() < 0.7 else None
        count = dice.choice((0, 1, 2, 2, 2, 3) if program is not None else (0, 1, 2, 4, 4, 7))
        self._seconds += 60.0 * count if program is not None else 0.0
        before = self._seconds
        errand = self._errand(name="item")
        self._seconds += (self._seconds - before) * count
        return Mapped(
            errand, program, count, dice.choice((1, 2, 3)), dice.choice((1, 2, 10)), collects=dice.random() < 0.5
        )

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

    def _errand(self, *, is_killer: bool = False, name: str | None = None, may_fail: bool = True) -> Errand:
        dice = self._dice
        self._numbers += 1
        fails = dice.choice((0,) * 9 + (1, 1, 1, 1, 2, 2, 9 if may_fail else 2))
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
            emits=dice.choice((0, 0, 0, 0, 1, 3)) if not is_killer else 0,
        )
        if errand.timeout is not None and errand.policy == len(POLICIES) - 1:
            # Every attempt may time out, and this policy never gives up.
            errand = Errand(errand.number, errand.name, errand.durations, errand.fails, errand.error)
        self._errands[errand.number] = errand
        self._seconds += sum(errand.duration(n + 1) for n in range(fails + 1)) + 40.0 * bool(fails) + errand.linger
        return errand
