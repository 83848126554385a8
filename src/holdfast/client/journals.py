"""A run's journal for readers: entries numbered in order, with payloads decoded as far as possible without types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.codec import Codec, Shown
from holdfast.errors import CodecError
from holdfast.model import (
    ASKS,
    Cancel,
    ChildAsked,
    ChildEnded,
    Claimed,
    Ended,
    Entry,
    EventTaken,
    HookResumed,
    Inherited,
    JournalRow,
    Patched,
    Reseeded,
    RunRecord,
    RunRetrying,
    SetAside,
    Signal,
    StepAsked,
    StepCompleted,
    StepFailed,
    StepRetrying,
    Stopped,
    TimerFired,
    moment_of,
    spoken,
)

from .entries import decoded
from .failures import described, error_of, with_report

_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One entry of a run's journal. Fields that its kind doesn't have are None."""

    number: int
    """Its place in the journal, from 0."""
    seq: int
    """The turn that it belongs to."""
    epoch: int
    at: datetime
    """When it was taken in; if the body asked for something, the time of the input before it."""
    kind: str
    key: str | None = None
    """The step's key."""
    attempt: int | None = None
    value: Any = None
    """A result or payload as plain data, or its bytes if it can't be read as such; a step's arguments if recorded."""
    error: BaseException | None = None
    note: str | None = None
    """Anything else that the entry says, in words."""
    entry: Entry
    """The entry as it is stored."""

    def __str__(self) -> str:
        time = self.at.isoformat(" ", "milliseconds").replace("+00:00", "")
        parts = [f"{self.number:>4}  {time}  {self.kind:<14}"]
        if self.key is not None:
            parts.append(self.key)
        if self.attempt is not None and self.attempt > 1:
            parts.append(f"attempt {self.attempt}")
        if self.error is not None:
            parts.append(f"✗ {described(self.error)}")
        elif isinstance(self.entry, StepCompleted) or (isinstance(self.entry, Ended) and self.entry.output is not None):
            parts.append(f"→ {_shortened(self.value)}")
        if self.note is not None:
            parts.append(f"({self.note})")
        return "  ".join(parts).rstrip()

    @property
    def error_text(self) -> str | None:
        """The error's class and all that its message says."""
        return None if self.error is None else described(self.error, whole=True)

    def as_dict(self) -> dict[str, Any]:
        """The fields as plain data, without those that are None."""
        told = {
            "number": self.number,
            "seq": self.seq,
            "epoch": self.epoch,
            "at": self.at.isoformat(),
            "kind": self.kind,
        }
        error = self.error_text
        rest = {"key": self.key, "attempt": self.attempt, "value": self.value, "error": error, "note": self.note}
        return told | {name: one for name, one in rest.items() if one is not None}


class Journal(list[JournalEntry]):
    """The entries of a run in order, and the run: all that it takes to replay it."""

    def __init__(self, run: RunRecord, entries: Iterable[JournalEntry]) -> None:
        super().__init__(entries)
        self.run = run


def whole(run: RunRecord, rows: Iterable[JournalRow], codec: Codec) -> Journal:
    """A run with its entries. Raises as `read`."""
    return Journal(with_report(run, codec), read(run.id, rows, codec))


def read(run_id: str, rows: Iterable[JournalRow], codec: Codec) -> list[JournalEntry]:
    """The entries of all rows. Raises NotDecodable if a row can't be read."""
    found: list[JournalEntry] = []
    for row, entries in decoded(run_id, rows):
        at = row.at if not found else None
        for entry in entries:
            at = at if isinstance(entry, ASKS) else entry.at
            moment = moment_of(at) if at is not None else found[-1].at
            found.append(_readable(len(found), row, moment, entry, codec))
    return found


def _readable(number: int, row: JournalRow, at: datetime, entry: Entry, codec: Codec) -> JournalEntry:
    key = attempt = value = error = None
    if isinstance(entry, (StepAsked, StepRetrying, StepCompleted, StepFailed, ChildAsked, ChildEnded)):
        key = entry.key
    elif isinstance(entry, (Signal, EventTaken, HookResumed, SetAside)):
        key = entry.name
    if isinstance(entry, (StepRetrying, StepCompleted, StepFailed, RunRetrying)):
        attempt = entry.attempt
    if isinstance(entry, StepCompleted):
        value = _plain(codec, entry.result)
    elif isinstance(entry, StepAsked) and entry.args is not None:
        value = _plain(codec, entry.args)
    elif isinstance(entry, (Signal, EventTaken, HookResumed, SetAside)):
        value = _plain(codec, entry.payload)
    elif isinstance(entry, Ended) and entry.status == "continued":
        value = None if entry.output is None else entry.output.decode()
    elif isinstance(entry, (Ended, ChildEnded)):
        value = _plain(codec, entry.output)
    if isinstance(entry, (StepRetrying, StepFailed, RunRetrying, Ended, ChildEnded)):
        error = error_of(codec, entry.error)
    return JournalEntry(
        number=number, seq=row.seq, epoch=row.epoch, at=at, kind=entry.kind, key=key, attempt=attempt, value=value,
        error=error, note=_note(entry, codec), entry=entry,
    )  # fmt: skip  # one line a group reads better here


def _note(entry: Entry, codec: Codec) -> str | None:
    match entry:
        case StepRetrying() | RunRetrying():
            pause = entry.retry_at - entry.at
            return f"again after {spoken(pause)}" if pause > 0 else "again at once"
        case TimerFired():
            return f"timer {entry.timer}"
        case Cancel(deadline=True):
            return "its deadline passed"
        case Cancel():
            return entry.reason
        case Claimed():
            return f"taken over by {entry.worker_id}"
        case ChildAsked():
            return f"run {entry.run_id}"
        case ChildEnded():
            return f"run {entry.run_id} {entry.status}"
        case SetAside():
            return f"set aside: {codec.opened_text(entry.reason)}"
        case Patched():
            return entry.change_id
        case Inherited():
            return _inherited(entry)
        case Reseeded():
            return "a fork, which draws otherwise from here on"
        case Stopped():
            why = f": {entry.reason}" if entry.reason else ""
            return f"{entry.status}{why}" + (f"; skipped: {', '.join(entry.skipped)}" if entry.skipped else "")
        case Ended():
            return entry.status
        case _:
            return None


def _inherited(entry: Inherited) -> str | None:
    undo = f"to be undone: {', '.join(one.name for one in reversed(entry.undo))}" if entry.undo else ""
    mail = f"to be read: {', '.join(f'{one.kind} {one.name}' for one in entry.mail)}" if entry.mail else ""
    hooks = f"hooks open: {', '.join(one.name for one in entry.hooks)}" if entry.hooks else ""
    return "; ".join(part for part in (undo, mail, hooks) if part) or None


def _plain(codec: Codec, stored: bytes | None) -> Any:
    if stored is None:
        return None
    # As Python's own types if possible, else as JSON: for example, an enum's module may not be loaded here.
    for shape in (Any, Shown):
        try:
            return codec.value(shape).decode(stored)
        except CodecError:
            continue
    return stored


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
