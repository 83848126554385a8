"""State that only some bodies need: waits and their mail, children, things to send, shields, compensations.

Made when it is first needed, so that a run that only calls steps and sleeps carries none of it.
"""

from __future__ import annotations

import asyncio
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
    WaitRecord,
    bounded_id,
    instant_of,
    microseconds,
    next_child_id,
)

from .mail import ENTRIES, Mailbox
from .waits import Wait, compare

Lived: TypeAlias = tuple[int, RunRetrying, Former | None]
"""A try of the run: where in the history it begins, the entry that says so, and who the body was told to be before."""

_NO_HOOKS: dict[str, deque[int]] = {}
_SUFFIX = len("+") + 16
"""How many characters longer the id of a successor is than its chain's."""


class Child:
    """A child run that the body asked for and that has not ended."""

    __slots__ = ("first", "former", "is_cancelled", "is_kept", "key", "new", "reply", "told", "workflow")

    def __init__(self, key: str, workflow: Workflow[Any, Any], new: NewRun, reply: Reply[Any], first: str) -> None:
        self.key = key
        self.workflow = workflow
        self.new = new
        self.reply = reply
        self.first = first
        """The id that this run gives the child. In a retry or a fork, `new.id` may be what the earlier run gave it."""
        self.told: list[OutSignal] = []
        """Signals that the body sent it, as replay sees them: a child that replaces it is sent the same."""
        self.is_cancelled = False
        """The body has asked it to end."""
        self.is_kept = False
        """The run was tried again, and the key still means the same child run."""
        self.former: tuple[str, ...] = ()
        """Ids that the key meant in earlier tries of the run. Those runs were called off; their ends mean nothing."""

    def is_former(self, run_id: str) -> bool:
        """Whether a run, or one that it continues, was called off by an earlier try.

        A child with an idempotency key never was: while it lives, the next try asks for it by that key.
        """
        return self.new.key is None and any(is_of(run_id, one) for one in self.former)

    @property
    def has_ended(self) -> bool:
        # Not by its own method: for a ChildRun that counts as the body's look at it.
        return asyncio.Future.done(self.reply)

    @property
    def is_ours(self) -> bool:
        """Whether it ends with this run and nobody else can refer to it: it was given neither a key nor an id."""
        new = self.new
        return new.on_parent_end == "cancel" and new.key is None and self.workflow.start_options.id is None

    def restart(self, retrying: RunRetrying) -> None:
        """The run is tried again: decide whether the body's key means another child run from here on.

        It does if the old one is ours to call off, has failed, or was called off by the end of the run that this one
        retries. Any other child does its work only once, and is waited for.
        """
        is_ended = retrying.former is not None and self.new.on_parent_end == "cancel"
        is_called_off = is_ended and self.key not in retrying.joined
        self.is_kept = not (self.is_ours or is_called_off or self.key in retrying.failed)
        if not self.is_kept:
            self.replace_run(next_child_id(self.first, (*self.former, self.new.id), retrying.attempt))
        if self.new.key is not None:
            # Join the run that has the key by then, if it lives or has completed.
            self.new = msgspec.structs.replace(self.new, on_conflict="restart")

    def replace_run(self, run_id: str) -> None:
        """Let the body's key mean this run from here on."""
        if run_id == self.new.id:
            return
        self.former += (self.new.id,)
        self.new = msgspec.structs.replace(self.new, id=run_id, seed=seed_of_child(run_id, self.new.seed))
        if isinstance(self.reply, ChildRun):
            self.reply.id = run_id


class Compensation(NamedTuple):
    """A step that undoes something, and its arguments."""

    step: Step[Any, Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        return self.step.name


class Life:
    """Everything of one body that goes beyond steps and timers."""

    __slots__ = (
        "called_off", "cancels", "children", "closed", "compensations", "continued", "events", "failed", "failed_at",
        "has_keys", "has_undone", "hook", "hooks", "hooks_before", "hooks_due", "in_hand", "is_cancel_held",
        "is_compensating", "is_exempt", "is_outdated", "is_reopened", "items", "left_hooks", "mailbox", "markers",
        "marks", "new_children", "numbers", "patches", "resumed", "shields", "signals", "successor", "taken", "traces",
        "truncate", "uncompensated", "undoing", "values", "waits",
    )  # fmt: skip  # a name a line would be a page

    def __init__(self) -> None:
        self.waits: dict[int, Wait] = {}
        self.numbers = 0
        self.mailbox: Mailbox | None = None
        """Messages that came and that no wait has taken yet; None until the first of them."""
        self.taken: list[int] = []
        """Ids of the messages that this advance has taken."""
        self.traces: tuple[tuple[Entry, str], ...] = ()
        """Entries made of messages whose senders are in a trace, each with that trace."""
        self.children: dict[str, Child] = {}
        self.failed: list[str] = []
        """Keys of children whose failure the body has been told."""
        self.called_off: frozenset[str] = frozenset()
        """Keys of children that the run which this one retries had asked for (see model.History)."""
        self.has_keys = False
        """A child was asked for by an idempotency key, so it may be a run that was there before."""
        self.hook = 0
        """The place, from 1 on, of the hook that the body made last."""
        self.hooks: list[str] = []
        """The names of the run's hooks in the order in which they were first made, in this try or an earlier one."""
        self.hooks_due: dict[str, deque[int]] = _NO_HOOKS
        """By name, or NAMELESS: places of hooks that an earlier try has made and this one has not made yet."""
        self.hooks_before = 0
        """How many hooks earlier runs of the chain have made."""
        self.left_hooks: Sequence[MadeHook] = ()
        """Hooks that earlier runs of the chain left open, and that this body has not made again yet."""
        self.resumed: list[tuple[Wait, HookResumed]] = []
        """Hooks whose payload has come, read or not."""
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
        """If there are compensations: when the body ended, by the run's own time."""
        self.has_undone = False
        """A compensation has begun, so the run can't be tried again as if nothing had been undone."""
        self.undoing: set[str] = set()
        """Step keys of the compensations under way."""
        self.in_hand: list[tuple[Reply[Any], Compensation | Undo]] = []
        """Compensations that calls of rollback() wait for, or waited for when the body ended."""
        self.is_exempt = False
        """The cancel came while the ended body was being compensated, so it changes nothing."""
        self.continued: Continued | None = None
        """What continue_as_new has raised: it counts even if the body catches it."""
        self.is_reopened = False
        """What was open at a cut has been asked for anew, and no turn holds that yet."""
        self.is_outdated = False
        """The store's rows of waits are not those of this body, and no turn has mended them yet."""
        self.uncompensated: dict[str | int, str] = {}
        """What could not be undone, by its step's key, or by a number if it never became a step."""
        self.patches: dict[str, bool] = {}
        self.markers: frozenset[str] | None = None
        """All change ids that the journal has a marker of."""
        self.marks: list[Entry] = []
        """Entries of a body that went beyond its journal while it was rebuilt. The next turn writes them."""

    @property
    def to_undo(self) -> list[Compensation | Undo]:
        """What a successor may have to undo, including what is being undone now: the run's end withdraws that."""
        return [*self.compensations, *(found for _, found in self.in_hand)]

    @property
    def is_cancel_due(self) -> bool:
        """A cancel was held back by a shield, and no shield is left."""
        return self.is_cancel_held and not self.shields

    def next_hook(self, name: str, seed: bytes) -> MadeHook:
        """The hook that the body makes: the first of this name that an earlier run left open, or a new one.

        Its place is that of the first hook of this name that an earlier try has made and this one has not, for
        somebody may have that hook's token.
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
        """Earlier tries of the run have made hooks of these names, in this order; see RunRetrying."""
        self.hooks, self.hooks_due = [*names], {}
        for place, name in enumerate(names, 1):
            self.hooks_due.setdefault(name, deque()).append(place)

    def hooks_to_leave(self, now: Instant) -> tuple[MadeHook, ...]:
        """The hooks that the chain's next run takes over: a holder of their tokens may still come, or has come."""
        left = [one for one in self.left_hooks if one.expires_at is None or one.expires_at > now]
        waits = (*self.waits.values(), *(wait for wait, _ in self.resumed if not wait.is_read))
        left += [wait.made for wait in waits if wait.made is not None]
        return tuple(sorted(left, key=lambda one: one.number))

    def mail_to_leave(self) -> tuple[Signal | EventTaken | HookResumed, ...]:
        """Messages that are only in the journal and that the body has not read: the next run may.

        The next run knows no waits of this one but hooks, by their numbers. A payload that a retry put back, for a
        hook that was not made again, has lost its number.
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

    def close_wait(self, wait: Wait) -> None:
        """The wait has taken a message, timed out or was cancelled."""
        if self.waits.pop(wait.number, None) is not None and wait.is_registered and wait.row is not None:
            self.closed.append(wait.row.number)
        if self.mailbox is not None:
            self.mailbox.forget(wait)

    def out(self) -> Out | None:
        """What this advance gives out. From here on it counts as given out."""
        self.is_outdated = False
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
        """Drop what a replay has collected: it was given out long ago."""
        self.truncate = False
        for what in (self.new_children, self.closed, self.signals, self.events, self.cancels, self.values, self.items):
            if what:
                what.clear()

    def mark_registered(self) -> None:
        """The turns in the journal have registered every wait that is open."""
        for wait in self.waits.values():
            wait.is_registered = True

    def compare_waits(self, rows: Sequence[WaitRecord]) -> bool:
        """Compare the waits of a rebuilt body with the store's rows: the code may have changed since they were
        written. The next turn mends what differs. Returns whether a row is missing that may have led to a message."""
        missing, gone = compare(self.waits.values(), rows)
        self.closed += gone
        self.is_outdated = bool(missing or gone) or any(wait.is_stale for wait in self.waits.values())
        return missing

    def restart_children(self, retrying: RunRetrying, ends: Sequence[ChildEnded]) -> None:
        """The run is tried again from here: restart its open children, except those whose end is known."""
        ended = {end.key: end.run_id for end in ends}
        for child in self.children.values():
            if not is_of(ended.get(child.key, ""), child.new.id):
                child.restart(retrying)

    def ask_anew(self, ended: set[str], now: Instant, latest: Instant | None) -> None:
        """Ask anew for what is open, and call off what it replaces. `latest` is the run's own deadline."""
        for wait in self.waits.values():
            if wait.row is not None:
                wait.is_registered, self.is_reopened = False, True
        asked = {id(new) for new in self.new_children.values()}
        for child in self.children.values():
            if child.key in ended or id(child.new) in asked:
                continue
            if child.former and not child.is_kept and child.new.on_parent_end == "cancel" and child.new.key is None:
                self.cancels.append(child.former[-1])
            # Its deadline counts from here; else it might be over before the child begins.
            child.new = msgspec.structs.replace(child.new, deadline_at=deadline_of_child(child.workflow, now, latest))
            self.new_children[child.key] = child.new
            if not child.is_kept:
                self.signals += [msgspec.structs.replace(signal, run_id=child.new.id) for signal in child.told]
            if child.is_cancelled:
                self.cancels.append(child.new.id)
            self.is_reopened = True


def lived(lives: Sequence[tuple[int, RunRetrying]]) -> list[Lived]:
    """The tries of a run (see model.History), the first of them last."""
    found: list[Lived] = []
    former = None
    for place, retrying in reversed(lives):
        former = former if retrying.former is None else retrying.former
        found.append((place, retrying, former))
    return found


def seed_of_child(run_id: str, seed: bytes) -> bytes:
    """Made of the child's id, so that a child that replaces another in a retry gets other hook tokens."""
    return blake2b(run_id.encode(), key=seed, person=b"holdfast child", digest_size=16).digest()


def deadline_of_child(workflow: Workflow[Any, Any], now: Instant, latest: Instant | None) -> Instant | None:
    """The deadline of a child that is asked for now. `latest` is its parent's own, which bounds it."""
    deadlines = [] if latest is None else [latest]
    if workflow.start_options.deadline is not None:
        deadlines.append(instant_from(now, workflow.start_options.deadline, "deadline"))
    elif workflow.deadline is not None:
        deadlines.append(now + workflow.deadline)
    return min(deadlines, default=None)


def instant_from(now: Instant, asked: Duration | datetime, what: str) -> Instant:
    """The moment that an option means: a duration counts from now."""
    return instant_of(asked, what=what) if isinstance(asked, datetime) else now + microseconds(asked, what=what)


def id_after(chain_id: str, drawn: bytes) -> str:
    """The id of a run that goes on in a chain, from the eight bytes drawn for it."""
    return f"{bounded_id(chain_id, _SUFFIX)}+{drawn.hex()}"


def is_of(run_id: str, first_id: str) -> bool:
    """Whether a run is that one or a successor of it."""
    # Also by the unbounded prefix: earlier versions made ids from it.
    return run_id == first_id or run_id.startswith((f"{first_id}+", f"{bounded_id(first_id, _SUFFIX)}+"))


_NOTHING = Out()
