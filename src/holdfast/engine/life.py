"""What only some bodies need: waits and the mail for them, children, things to send, shields, compensations.

Made when it is first needed, so that a run that only calls steps and sleeps carries none of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import msgspec

from holdfast.define import ChildRun, Reply, Step, Workflow
from holdfast.errors import Continued
from holdfast.model import (
    FIRST_HOOK,
    NAMELESS,
    ChildEnded,
    Duration,
    Entry,
    EventTaken,
    Former,
    HookResumed,
    Instant,
    MadeHook,
    NewRun,
    Out,
    OutEvent,
    OutSignal,
    RunRetrying,
    Signal,
    Undo,
    bounded_id,
    instant_of,
    microseconds,
)

from .mail import ENTRIES, Mailbox
from .waits import Wait

Lived: TypeAlias = tuple[int, RunRetrying, Former | None]
"""Where a new try of the run begins, the entry that says so, and who the body is told to be until there."""

_NO_HOOKS: dict[str, deque[int]] = {}
_SUFFIX = len("+") + 16
"""Characters that a run which goes on has more in its id."""


class Child:
    """A child run that was asked for and has not ended."""

    __slots__ = ("first", "former", "is_cancelled", "is_kept", "key", "new", "reply", "told", "workflow")

    def __init__(self, key: str, workflow: Workflow[Any, Any], new: NewRun, reply: Reply[Any], first: str) -> None:
        self.key = key
        self.workflow = workflow
        self.new = new
        self.reply = reply
        self.first = first
        """The id that this run gives it first. A run that repeats another one knows it by the other one's."""
        self.told: list[OutSignal] = []
        """Signals that it was sent before what is known of it ends."""
        self.is_cancelled = False
        """It was asked to end."""
        self.is_kept = False
        """The run is tried again, and this one is still what it was."""
        self.former: tuple[str, ...] = ()
        """Ids of runs that it had before the run was tried again: they were called off, and their ends mean nothing."""

    def is_former(self, run_id: str) -> bool:
        """Whether a run, or the one that it goes on from, is one that was called off.

        One that has a key was not: while it lives it is what the next try asks for by that key, too.
        """
        return self.new.key is None and any(is_of(run_id, one) for one in self.former)

    @property
    def is_ours(self) -> bool:
        """Whether it ends with this run and nobody else can mean it: it was given neither a key nor an id."""
        new = self.new
        return new.on_parent_end == "cancel" and new.key is None and self.workflow.start_options.id is None

    def begins_anew(self, retrying: RunRetrying) -> None:
        """The run is tried again. Another run is meant from here on if that is ours to call off, has failed, or was
        called off by the end of the run that is retried; any other does what it does once, and is waited for."""
        is_ended = retrying.former is not None and self.new.on_parent_end == "cancel"
        is_called_off = is_ended and self.key not in retrying.joined
        self.is_kept = not (self.is_ours or is_called_off or self.key in retrying.failed)
        if not self.is_kept:
            other = bounded_id(f"{self.first}~{retrying.attempt + 1}")
            # One with an id of its own may have been retried by hand before.
            is_taken = other == self.new.id or other in self.former
            self.become(bounded_id(f"{self.new.id}~{retrying.attempt + 1}") if is_taken else other)
        if self.new.key is not None:
            # Whoever holds its key by then is joined if it lives or has completed.
            self.new = msgspec.structs.replace(self.new, on_conflict="restart")

    def become(self, run_id: str) -> None:
        """From here on it is this run that is meant."""
        if run_id == self.new.id:
            return
        self.former += (self.new.id,)
        self.new = msgspec.structs.replace(self.new, id=run_id, seed=seed_of_child(run_id, self.new.seed))
        if isinstance(self.reply, ChildRun):
            self.reply.id = run_id


class Compensation(NamedTuple):
    """What undoes something: a step and its arguments."""

    step: Step[Any, Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        return self.step.name


class Life:
    """One body's share of the outside."""

    __slots__ = (
        "called_off", "cancels", "children", "closed", "compensations", "continued", "events", "failed", "failed_at",
        "has_keys", "has_undone", "hook", "hooks", "hooks_before", "hooks_due", "in_hand", "is_cancel_held",
        "is_compensating", "is_exempt", "is_reopened", "items", "left_hooks", "mailbox", "markers", "marks",
        "new_children", "numbers", "patches", "resumed", "shields", "signals", "successor", "taken", "traces",
        "truncate", "uncompensated", "undoing", "values", "waits",
    )  # fmt: skip  # a name a line would be a page

    def __init__(self) -> None:
        self.waits: dict[int, Wait] = {}
        self.numbers = 0
        self.mailbox: Mailbox | None = None
        """Messages that came and that no wait has taken yet. Most bodies have none."""
        self.taken: list[int] = []
        """Ids of messages that this advance has taken."""
        self.traces: tuple[tuple[Entry, str], ...] = ()
        """What came of those whose senders are in a trace, each with that."""
        self.children: dict[str, Child] = {}
        self.failed: list[str] = []
        """Keys of children whose failure the body was told."""
        self.called_off: frozenset[str] = frozenset()
        """Keys of children that a run which this one retries has asked for (see model.History)."""
        self.has_keys = False
        """A child was asked for by a key of its own, so it may have joined another run."""
        self.hook = 0
        """Which of the run's hooks the last one is that the body has made."""
        self.hooks: list[str] = []
        """Their names, in the order in which they were first made, be it by an earlier try of the run."""
        self.hooks_due: dict[str, deque[int]] = _NO_HOOKS
        """By name, if that is known, those of earlier tries that this one has not made yet."""
        self.hooks_before = 0
        """Those that earlier runs of the chain have made."""
        self.left_hooks: Sequence[MadeHook] = ()
        """Hooks of theirs that are open, and that this body has not come to yet."""
        self.resumed: list[tuple[Wait, HookResumed]] = []
        """Hooks that have their payload, read or not."""
        self.new_children: dict[str, NewRun] = {}
        """Children that this advance asks for, by their keys."""
        self.closed: list[int] = []
        self.signals: list[OutSignal] = []
        self.events: list[OutEvent] = []
        self.cancels: list[str] = []
        self.values: list[tuple[str, bytes]] = []
        self.items: list[tuple[str, bytes]] = []
        self.successor: NewRun | None = None
        self.truncate = False
        self.shields = 0
        self.is_cancel_held = False
        self.compensations: list[Compensation | Undo] = []
        self.is_compensating = False
        self.failed_at = 0
        """When the body ended, by the run's own time, if something is undone after it."""
        self.has_undone = False
        """A compensation has begun, so the run can't be tried again as if nothing had been undone."""
        self.undoing: set[str] = set()
        """Keys of compensations under way."""
        self.in_hand: list[tuple[Reply[Any], Compensation | Undo]] = []
        """What rollbacks are at; once the body has ended, what they were at."""
        self.is_exempt = False
        """The cancel came when the body had ended and was being compensated: it changes nothing any more."""
        self.continued: Continued | None = None
        """What continue_as_new has thrown: it holds, whatever the body catches."""
        self.is_reopened = False
        """What was open at a cut was asked for anew."""
        self.uncompensated: dict[str | int, str] = {}
        """What could not be undone, by the key of its step if it got one."""
        self.patches: dict[str, bool] = {}
        self.markers: frozenset[str] | None = None
        """All changes that the journal knows of."""
        self.marks: list[Entry] = []
        """Entries of a body that went beyond its journal while it was rebuilt: written with the next turn."""

    @property
    def to_undo(self) -> list[Compensation | Undo]:
        """What a successor may have to undo, with what a task is undoing: that is withdrawn when the run ends."""
        return [*self.compensations, *(found for _, found in self.in_hand)]

    @property
    def is_cancel_due(self) -> bool:
        """A cancel was kept back, and nothing is shielded any more."""
        return self.is_cancel_held and not self.shields

    def next_hook(self, name: str, seed: bytes) -> MadeHook:
        """The hook that the body makes: the first of this name that an earlier run has left open, or a new one.

        Its place is that of the first of this name which an earlier try has made, and this one has not: somebody may
        have the token of that.
        """
        if due := self.hooks_due.get(name) or self.hooks_due.get(NAMELESS):
            self.hook = due.popleft()
            self.hooks[self.hook - 1] = name
        else:
            self.hooks.append(name)
            self.hook = len(self.hooks)
        for found in self.left_hooks:
            if found.name == name:
                self.left_hooks = [one for one in self.left_hooks if one is not found]
                return found
        return MadeHook(name, FIRST_HOOK + self.hooks_before + self.hook, seed, self.hook)

    def expect_hooks(self, names: Sequence[str]) -> None:
        """An earlier try of the run has made hooks of these names, in this order; see RunRetrying."""
        self.hooks, self.hooks_due = [*names], {}
        for place, name in enumerate(names, 1):
            self.hooks_due.setdefault(name, deque()).append(place)

    def hooks_to_leave(self, now: Instant) -> tuple[MadeHook, ...]:
        """Those that the chain's next run takes over: whoever has a token of theirs may still come, or has come."""
        left = [one for one in self.left_hooks if one.expires_at is None or one.expires_at > now]
        waits = (*self.waits.values(), *(wait for wait, _ in self.resumed if not wait.is_read))
        left += [wait.made for wait in waits if wait.made is not None]
        return tuple(sorted(left, key=lambda one: one.number))

    def mail_to_leave(self) -> tuple[Signal | EventTaken | HookResumed, ...]:
        """Messages that are in the journal only, and that no line of the body has got: the next run may.

        Of waits it knows hooks alone, by their numbers. What a retry has put back is for one that was not made again.
        """
        left = [
            ENTRIES[one.kind](
                one.sent_at,
                one.wait or 0 if one.kind == "hook" and not one.hook else 0,
                one.name,
                one.payload,
                one.sent_at,
            )
            for one in self.mailbox or ()
            if one.id < 0
        ]
        for wait, entry in self.resumed:
            if not wait.is_read:
                number = 0 if wait.made is None else wait.made.number
                left.append(msgspec.structs.replace(entry, wait=number, hook=0))
        return tuple(left)

    def is_over(self, wait: Wait) -> None:
        """The wait has taken something, timed out or was cancelled."""
        if self.waits.pop(wait.number, None) is not None and wait.is_registered and wait.row is not None:
            self.closed.append(wait.row.number)
        if self.mailbox is not None:
            self.mailbox.forget(wait)

    def out(self) -> Out | None:
        """What this advance gives out; from here on it counts as given."""
        waits = []
        for wait in self.waits.values():
            if wait.row is not None and (wait.is_stale or not wait.is_registered):
                wait.is_registered, wait.is_stale = True, False
                waits.append(wait.row)
        found = Out(
            children=tuple(self.new_children.values()),
            waits=tuple(waits),
            closed=tuple(self.closed),
            signals=tuple(self.signals),
            events=tuple(self.events),
            cancels=tuple(self.cancels),
            values=tuple(self.values),
            items=tuple(self.items),
            truncate=self.truncate,
            successor=self.successor,
        )
        self.forget_out()
        return None if found == _NOTHING else found

    def forget_out(self) -> None:
        """What was asked for on replay was given out long ago."""
        self.truncate = False
        for what in (self.new_children, self.closed, self.signals, self.events, self.cancels, self.values, self.items):
            if what:
                what.clear()

    def registered(self) -> None:
        """Everything that is open was registered by the turns in the journal."""
        for wait in self.waits.values():
            wait.is_registered = True

    def begins_anew(self, retrying: RunRetrying, ends: Sequence[ChildEnded]) -> None:
        """The run is tried again from here: what open children become, but those whose end is known."""
        ended = {end.key: end.run_id for end in ends}
        for child in self.children.values():
            if not is_of(ended.get(child.key, ""), child.new.id):
                child.begins_anew(retrying)

    def ask_anew(self, ended: set[str], now: Instant, latest: Instant | None) -> None:
        """What is open is asked for anew, and what was there before is called off. `latest`: the run's own deadline."""
        for wait in self.waits.values():
            if wait.row is not None:
                wait.is_registered, self.is_reopened = False, True
        asked = {id(new) for new in self.new_children.values()}
        for child in self.children.values():
            if child.key in ended or id(child.new) in asked:
                continue
            if child.former and not child.is_kept and child.new.on_parent_end == "cancel" and child.new.key is None:
                self.cancels.append(child.former[-1])
            # Its time counts from here, or it would be over before the child begins.
            child.new = msgspec.structs.replace(child.new, deadline_at=deadline_of_child(child.workflow, now, latest))
            self.new_children[child.key] = child.new
            if not child.is_kept:
                self.signals += [msgspec.structs.replace(signal, run_id=child.new.id) for signal in child.told]
            if child.is_cancelled:
                self.cancels.append(child.new.id)
            self.is_reopened = True


def lived(lives: Sequence[tuple[int, RunRetrying]]) -> list[Lived]:
    """The new tries of a run (see model.History), the first of them last."""
    found: list[Lived] = []
    former = None
    for place, retrying in reversed(lives):
        former = former if retrying.former is None else retrying.former
        found.append((place, retrying, former))
    return found


def seed_of_child(run_id: str, seed: bytes) -> bytes:
    """By its id: one that takes another's place, when its parent is tried again, has hooks with tokens of their own."""
    return blake2b(run_id.encode(), key=seed, person=b"holdfast child", digest_size=16).digest()


def deadline_of_child(workflow: Workflow[Any, Any], now: Instant, latest: Instant | None) -> Instant | None:
    """By when it has to end if it is asked for now: at `latest` when its parent has to."""
    deadlines = [] if latest is None else [latest]
    if workflow.start_options.deadline is not None:
        deadlines.append(instant_from(now, workflow.start_options.deadline, "deadline"))
    elif workflow.deadline is not None:
        deadlines.append(now + workflow.deadline)
    return min(deadlines, default=None)


def instant_from(now: Instant, asked: Duration | datetime, what: str) -> Instant:
    """A duration from now, or a moment, as it was given in options."""
    return instant_of(asked, what=what) if isinstance(asked, datetime) else now + microseconds(asked, what=what)


def id_after(chain_id: str, drawn: bytes) -> str:
    """The id of a run that goes on in a chain, by the eight bytes that were drawn for it."""
    return f"{bounded_id(chain_id, _SUFFIX)}+{drawn.hex()}"


def is_of(run_id: str, first_id: str) -> bool:
    """Whether a run is that one, or goes on from it."""
    # In full even where that is too long: earlier versions have made such ids.
    return run_id == first_id or run_id.startswith((f"{first_id}+", f"{bounded_id(first_id, _SUFFIX)}+"))


_NOTHING = Out()
