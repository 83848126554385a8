"""What a journal means: from which entries a body is rebuilt, and where a run that is tried again is cut. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, count
from typing import NamedTuple, TypeAlias

from .entries import (
    ASKS,
    MESSAGES,
    Blocked,
    Cancel,
    Checkpoint,
    ChildAsked,
    ChildEnded,
    Claimed,
    Delivered,
    Ended,
    Entry,
    Inherited,
    Relived,
    Reopened,
    Reseeded,
    Result,
    RunRetrying,
    SetAside,
    StepAsked,
    StepCompleted,
    StepFailed,
    StepRetrying,
    TimerFired,
)

Carried: TypeAlias = Result | TimerFired | Delivered


class History(NamedTuple):
    """What a journal means for the body that is rebuilt from it.

    `entries` are delivered in order, and the asks on the way are compared. After that `carried` is taken in anew, as
    inputs whose asks are not known yet: results that were recorded while the body was blocked, and messages that the
    run before this one in its chain has left unread. If the last entry is a retry of the whole run, that entry is
    `retrying`, and `carried` also holds results that came after the cut for steps asked for before it.
    """

    entries: list[Entry]
    carried: list[Carried]
    retrying: RunRetrying | None
    lives: tuple[tuple[int, RunRetrying], ...] = ()
    """Where in `entries` each new try of the run begins: replay shows the body its attempt as it was there."""
    is_cut: bool = False
    """The run goes on from a cut, and what was open there was not asked for anew yet."""
    called_off: frozenset[str] = frozenset()
    """The keys of children that a retried run had asked for: its end has called off those that had not ended."""


def history_of(entries: Iterable[Entry]) -> History:
    """The history that counts: claims are left out, and it is cut wherever the run was tried again."""
    kept: list[Entry] = []
    carried: dict[str | int, Carried] = {}
    coming = 0
    retrying: RunRetrying | None = None
    lives: list[tuple[int, RunRetrying]] = []
    is_cut = False
    called_off: frozenset[str] = frozenset()
    # Messages among those carried have no name. They get negative numbers, since timers count up from zero.
    places = count(-1, -1)
    for entry in entries:
        if coming:
            coming -= 1
            if isinstance(entry, MESSAGES):
                carried[next(places)] = entry
            elif isinstance(entry, (StepCompleted, StepFailed, StepRetrying, TimerFired, ChildEnded)):
                carried[_name(entry)] = entry
        elif isinstance(entry, Checkpoint):
            # The checkpoint contains everything before it.
            kept, carried, lives, retrying, is_cut = [entry.started, entry], {}, [], None, False
        elif not isinstance(entry, (RunRetrying, Blocked, Claimed, Reopened, Ended)):
            kept.append(entry)
            retrying, is_cut = None, False
            if carried:
                _delivered(carried, entry)
            if isinstance(entry, Inherited):
                carried |= zip(places, entry.mail, strict=False)
        elif isinstance(entry, RunRetrying):
            if not isinstance(entry, Relived):
                if entry.former is not None:
                    asked = {one.key for one in kept if isinstance(one, ChildAsked)}
                    called_off |= asked.difference(entry.joined)
                kept, carried = _cut(kept, carried, places, entry.is_whole)
            retrying, is_cut = entry, True
            lives.append((len(kept), entry))
        elif isinstance(entry, Blocked):
            coming = entry.results
        elif isinstance(entry, Reopened):
            retrying, is_cut = None if entry.done else retrying, not entry.done
    return History(kept, [*carried.values()], retrying, _left_of(lives), is_cut, called_off)


def _left_of(lives: list[tuple[int, RunRetrying]]) -> tuple[tuple[int, RunRetrying], ...]:
    """Move lives that began in a part which a later life has cut off to that cut: they still matter, for children had
    other ids in each."""
    if not lives:
        return ()
    # In one pass, from the last one on: there may be thousands of them.
    places = [*accumulate((place for place, _ in reversed(lives)), min)]
    return tuple((place, life) for place, (_, life) in zip(reversed(places), lives, strict=True))


def open_steps(entries: Iterable[Entry]) -> list[str]:
    """The keys of the open steps, in the order of asking.

    A retry of the whole run has opened the failed step again, and no entry of its own says so.
    """
    history = history_of(entries)
    asked = dict.fromkeys(entry.key for entry in history.entries if isinstance(entry, StepAsked))
    for entry in (*history.entries, *history.carried):
        if isinstance(entry, (StepCompleted, StepFailed)):
            asked.pop(entry.key, None)
    return list(asked)


_LASTING = (Inherited, Reseeded)
"""What a run was begun with: no cut takes it away."""


def _name(entry: StepCompleted | StepFailed | StepRetrying | ChildEnded | TimerFired) -> str | int:
    """The key or number of the step, child or timer whose end this is."""
    return entry.timer if isinstance(entry, TimerFired) else entry.key


def _delivered(carried: dict[str | int, Carried], entry: Entry) -> None:
    """The body has got one of the carried inputs: remove it. A result is found by its name, a message by its
    content."""
    if isinstance(entry, (*MESSAGES, SetAside)):
        for name, one in carried.items():
            is_same = entry.__class__ is SetAside or entry.__class__ is one.__class__
            if is_same and isinstance(one, MESSAGES) and (one.name, one.payload) == (entry.name, entry.payload):
                del carried[name]
                return
    elif isinstance(entry, (StepCompleted, StepFailed, StepRetrying, TimerFired, ChildEnded)):
        carried.pop(_name(entry), None)


def _is_failure(entry: Entry) -> bool:
    return isinstance(entry, StepFailed) or (isinstance(entry, ChildEnded) and entry.status != "completed")


def _cut(
    entries: list[Entry], undelivered: dict[str | int, Carried], places: Iterator[int], is_whole: bool
) -> tuple[list[Entry], dict[str | int, Carried]]:
    """Cut at the cancel, else at the last failure delivered, else before the last input, which is then taken in anew.

    If a run was ended by force (`is_whole`), nothing is cut off, unless a cancel came before that. The failed step is
    open again and its attempts are counted from one; a failed child is asked for anew. A result that the body never got
    counts as one that came after the cut. Messages that were taken after the cut are there for the next try: nobody
    sends them twice. A machine is cut behind its checkpoint at the earliest.
    """
    at = next((i for i, entry in enumerate(entries) if isinstance(entry, Cancel)), None)
    if at is None and is_whole:
        at = len(entries)
    elif at is None:
        at = max((i for i, entry in enumerate(entries) if _is_failure(entry)), default=None)
    carried: dict[str | int, Carried] = {}
    if at is None:
        # The body failed by itself: everything that it does after its last input is open again.
        first = len(entries) if any(isinstance(entry, Checkpoint) for entry in entries[1:2]) else 0
        asks = (*ASKS, *_LASTING)
        inputs = (i for i, entry in enumerate(entries) if not isinstance(entry, asks) and (i or not first))
        at = max(inputs, default=first)
        before = entries[:at]
        after: list[Entry] = entries[at : at + 1]
        for entry in after:
            # A timer is not carried: the rebuilt body sets it, and it fires again when it is due.
            if isinstance(entry, (StepCompleted, ChildEnded)):
                carried[entry.key] = entry
        asked = {entry.key for entry in before if isinstance(entry, (StepAsked, ChildAsked))}
    else:
        before, cause, after = entries[:at], entries[at] if at < len(entries) else None, entries[at + 1 :]
        asked = {entry.key for entry in before if isinstance(entry, (StepAsked, ChildAsked))}
        if isinstance(cause, StepFailed):
            asked.discard(cause.key)
            before = [entry for entry in before if not (isinstance(entry, StepRetrying) and entry.key == cause.key)]
    for entry in (*after, *undelivered.values()):
        if isinstance(entry, (StepCompleted, ChildEnded)) and entry.key in asked and not _is_failure(entry):
            carried[entry.key] = entry
    before += [entry for entry in entries[at:] if isinstance(entry, _LASTING)]
    messages = [entry for entry in (*undelivered.values(), *after) if isinstance(entry, MESSAGES)]
    carried |= zip(places, sorted(messages, key=lambda message: message.at), strict=False)
    return before, carried
