"""A run's journal as a timeline: what took how long, beside what. Pure: entries in, lines out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from holdfast.client import JournalEntry
from holdfast.model import open_steps, spoken

_BEGINS = frozenset({"step_asked", "child_asked"})
_ENDS = frozenset({"step_completed", "step_failed", "child_ended"})
_POINTS = frozenset(
    {"timer_fired", "signal", "event", "hook", "cancel", "claimed", "patched", "run_retrying", "blocked"}
)
_LAST = frozenset({"ended", "stopped"})
_NARROWEST = 10


@dataclass(slots=True)
class Row:
    """Something that happened, or goes on."""

    label: str
    began: datetime
    ended: datetime | None = None
    is_failed: bool = False
    is_point: bool = False
    attempts: list[datetime] = field(default_factory=list)
    """When attempts failed that were followed by another one."""


def rows_of(entries: Sequence[JournalEntry]) -> list[Row]:
    """What happened, in the order of its beginning."""
    rows: list[Row] = []
    going: dict[str, Row] = {}

    def begin(label: str, key: str, at: datetime) -> None:
        going[key] = Row(label, at)
        rows.append(going[key])

    for number, entry in enumerate(entries, 1):
        key = entry.key or ""
        if entry.kind in _BEGINS:
            begin(f"{'child ' if entry.kind == 'child_asked' else ''}{key}", key, entry.at)
        elif entry.kind == "step_retrying" and key in going:
            going[key].attempts.append(entry.at)
        elif entry.kind in _ENDS and key in going:
            row = going.pop(key)
            row.ended, row.is_failed = entry.at, entry.error is not None
        elif entry.kind in _POINTS:
            what = f"{_word(entry.kind)} {entry.key or entry.note or ''}".strip()
            label = entry.note or what if entry.kind == "timer_fired" else what
            rows.append(Row(label, entry.at, entry.at, is_point=True))
            if entry.kind == "run_retrying":
                for again in open_steps(one.entry for one in entries[:number]):
                    if again not in going:
                        begin(again, again, entry.at)
    return rows


def timeline(entries: Sequence[JournalEntry], *, until: datetime, width: int = 80) -> list[str]:
    """The lines of a timeline from the first entry to `until`, at most `width` wide if possible."""
    rows = rows_of(entries)
    if not rows or not entries:
        return []
    began, ended = entries[0].at, max(until, entries[-1].at)
    whole = max(ended - began, timedelta(microseconds=1))
    labels = [_shortened(row.label, 32) for row in rows]
    wide = max(map(len, labels))
    is_over = entries[-1].kind in _LAST
    times = [_took(row, ended, is_over) for row in rows]
    room = max(_NARROWEST, width - wide - max(map(len, times)) - 4)
    lines = []
    for row, label, took in zip(rows, labels, times, strict=True):
        lines.append(f"{label:<{wide}}  {_bar(row, began, ended, whole, room)}  {took}".rstrip())
    start, end = began.strftime("%H:%M:%S"), ended.strftime("%H:%M:%S")
    lines.append(f"{'':<{wide}}  {start}{end:>{max(room - len(start), len(end) + 1)}}")
    return lines


def _bar(row: Row, began: datetime, now: datetime, whole: timedelta, room: int) -> str:
    def column(at: datetime) -> int:
        return min(room - 1, max(0, int((at - began) / whole * room)))

    first = column(row.began)
    if row.is_point:
        return f"{' ' * first}◆{' ' * (room - first - 1)}"
    last = max(first, column(row.ended or now))
    cells = [" "] * first + ["━"] * (last - first + 1) + [" "] * (room - last - 1)
    for at in row.attempts:
        cells[column(at)] = "↻"
    if row.ended is None:
        cells[last] = "…"
    elif row.is_failed:
        cells[last] = "✗"
    return "".join(cells)


def _took(row: Row, now: datetime, is_over: bool) -> str:
    if row.is_point:
        return ""
    text = spoken(((row.ended or now) - row.began) // timedelta(microseconds=1)) or "0s"
    if row.ended is not None:
        return text
    # The run has ended without it, as by force, and will never know its end.
    return f"{text}, unfinished" if is_over else f"{text} so far"


def _word(kind: str) -> str:
    return kind.removesuffix("_fired").replace("_", " ")


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
