"""What the demo saw, and how it is drawn: a line for each event, and a chart of who executed what, and when."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from rich.table import Table
from rich.text import Text

from holdfast.client import JournalEntry

COLOURS = {"A": "cyan", "B": "green"}
SHORTEST = 7
"""The shortest time that the chart shows, in seconds."""


@dataclass
class Attempt:
    """One execution of a step, by the effects file."""

    step: str
    number: int
    worker: str
    began: float
    ended: float | None = None
    how: str = "in flight"


@dataclass
class Story:
    """Everything seen so far."""

    effects: Path
    began: float = field(default_factory=time.time)
    workers: dict[int, str] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    journal: list[JournalEntry] = field(default_factory=list)
    killed_at: float | None = None
    _read: int = 0

    def look(self, journal: list[JournalEntry]) -> list[Text]:
        """Take in what has happened since the last look, and return it as lines, in order."""
        lines = self.effects.read_text().splitlines() if self.effects.exists() else []
        told = [self._executed(json.loads(line)) for line in lines[self._read :]]
        self._read = len(lines)
        fresh, self.journal = journal[len(self.journal) :], journal
        told += [line for entry in fresh for line in self._recorded(entry)]
        return [line for _, line in sorted(told, key=lambda one: one[0])]

    def recorded(self, step: str) -> JournalEntry | None:
        """The step's result in the journal, if it is there."""
        return next((entry for entry in self.journal if (entry.kind, entry.key) == ("step_completed", step)), None)

    def of(self, step: str) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.step == step]

    def clock(self) -> float:
        return time.time()

    def kill(self) -> None:
        self.killed_at = time.time()
        for attempt in self.attempts:
            if attempt.ended is None and attempt.worker == "A":
                attempt.ended, attempt.how = self.killed_at, "killed"

    def line(self, at: float, who: str, says: str, style: str = "") -> Text:
        name = f"worker {who}" if who in COLOURS else who
        return Text.assemble(
            (f"{at - self.began:6.2f}s  ", "dim"), (f"{name:<9} ", COLOURS.get(who, "bold")), (says, style)
        )

    def _executed(self, effect: dict[str, object]) -> tuple[float, Text]:
        step, number, at = str(effect["step"]), int(str(effect["attempt"])), float(str(effect["at"]))
        worker = self.workers[int(str(effect["pid"]))]
        again = "" if number == 1 else f", attempt {number}"
        if effect["what"] == "begin":
            self.attempts.append(Attempt(step, number, worker, at))
            return at, self.line(at, worker, f"▶ executes {step}{again}")
        mine = next(one for one in reversed(self.attempts) if (one.step, one.worker) == (step, worker))
        mine.ended, mine.how = at, str(effect["what"])
        if mine.how == "fail":
            return at, self.line(at, worker, f"✗ {step} failed: the bank did not answer", "yellow")
        return at, self.line(at, worker, f"✓ {step} has ended{again}")

    def _recorded(self, entry: JournalEntry) -> Iterator[tuple[float, Text]]:
        at = entry.at.timestamp()
        if entry.kind == "step_retrying":
            yield at, self.line(at, "journal", f"{entry.key}: {entry.note}", "dim")
        elif entry.kind == "timer_fired":
            yield at, self.line(at, "journal", "the timer of 1 s is over", "dim")
        elif entry.kind == "claimed":
            yield at, self.line(at, "B", "takes the run over and replays its journal", "bold")
            for step in [one.key for one in self.journal[: entry.number] if one.kind == "step_completed"]:
                yield at, self.line(at, "B", f"↻ replays {step}: recorded, so it is not executed", "dim")
        elif entry.kind == "ended":
            yield at, self.line(at, "journal", f"the run has {entry.note}", "bold")

    def chart(self, now: float, width: int) -> Table:
        """A row for each worker and each step, over the same axis of time."""
        bars = _Bars(self.began, max(math.ceil(now - self.began + 0.5), SHORTEST), max(min(width - 36, 70), 28))
        table = Table(box=None, padding=(0, 1), pad_edge=False)
        table.add_column("", no_wrap=True, min_width=8)
        table.add_column(bars.axis(), no_wrap=True, width=bars.width)
        table.add_column("", no_wrap=True, style="dim")
        for letter in self.workers.values():
            table.add_row(Text(f"worker {letter}", COLOURS[letter]), *self._worker(letter, now, bars))
        for step in ("reserve", "invoice", "charge", "pack"):
            table.add_row(step, *self._step(step, now, bars))
        table.add_row("timer", *self._timer(now, bars))
        table.add_row("ship", *self._step("ship", now, bars))
        return table

    def _worker(self, letter: str, now: float, bars: _Bars) -> tuple[Text, str]:
        dead_at = self.killed_at if letter == "A" else None
        mine = [attempt for attempt in self.attempts if attempt.worker == letter]
        bar = bars.bar()
        if mine:
            bar.draw(mine[0].began, dead_at or now, "─", COLOURS[letter])
        if dead_at is not None:
            bar.mark(dead_at, "✗", "bold red")
        return bar.text(), "killed" if dead_at is not None else "has the run" if mine else "stands by"

    def _step(self, step: str, now: float, bars: _Bars) -> tuple[Text, str]:
        bar = bars.bar()
        told = []
        attempts = self.of(step)
        for attempt, following in zip_longest(attempts, attempts[1:]):
            end = now if attempt.ended is None else attempt.ended
            bar.draw(attempt.began, end, "━", COLOURS[attempt.worker])
            if attempt.how == "fail":
                bar.draw(end, following.began if following is not None else now, "·", "dim")
            if attempt.how in ("fail", "killed"):
                bar.mark(end, "✗", "yellow" if attempt.how == "fail" else "bold red")
            told.append(f"{attempt.worker} {_WORDS[attempt.how]}")
        result = self.recorded(step)
        is_taken_over = result is not None and any(one.kind == "claimed" for one in self.journal[result.number :])
        if is_taken_over and all(attempt.worker != "B" for attempt in attempts):
            told.append("B replayed")
        return bar.text(), ", ".join(told)

    def _timer(self, now: float, bars: _Bars) -> tuple[Text, str]:
        bar = bars.bar()
        before = [entry for entry in map(self.recorded, ("invoice", "charge", "pack")) if entry is not None]
        if len(before) < 3:
            return bar.text(), ""
        fired = next((entry for entry in self.journal if entry.kind == "timer_fired"), None)
        end = now if fired is None else fired.at.timestamp()
        bar.draw(max(entry.at.timestamp() for entry in before), end, "┄", "magenta")
        return bar.text(), "sleeps" if fired is None else "slept"


_WORDS = {"in flight": "executes", "end": "executed", "fail": "failed", "killed": "was killed"}


@dataclass
class _Bars:
    """The axis of time that all bars share."""

    began: float
    seconds: int
    width: int

    def cell(self, at: float) -> int:
        return int((at - self.began) * self.width / self.seconds)

    def bar(self) -> _Bar:
        return _Bar(self)

    def axis(self) -> Text:
        text = ""
        for second in range(self.seconds):
            text = text.ljust(self.cell(self.began + second)) + f"{second}s"
        return Text(text, "dim")


class _Bar:
    """One row of cells. Marks stay visible over whatever is drawn later."""

    def __init__(self, axis: _Bars) -> None:
        self._axis = axis
        self._cells: list[tuple[str, str]] = [(" ", "")] * axis.width
        self._marks: dict[int, tuple[str, str]] = {}

    def draw(self, start: float, end: float, cell: str, style: str) -> None:
        for index in range(self._axis.cell(start), self._axis.cell(end) + 1):
            if 0 <= index < len(self._cells):
                self._cells[index] = (cell, style)

    def mark(self, at: float, cell: str, style: str) -> None:
        self._marks[self._axis.cell(at)] = (cell, style)

    def text(self) -> Text:
        return Text.assemble(*(self._marks.get(index, cell) for index, cell in enumerate(self._cells)))
