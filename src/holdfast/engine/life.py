"""What only some bodies need: waits and the mail for them, children, things to send, shields, compensations.

Made when it is first needed, so that a run that only calls steps and sleeps carries none of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast.codec import ValueCodec
from holdfast.define import Reply, Step, Workflow
from holdfast.model import Message, NewRun, NewWait, Out, OutEvent, OutSignal


class Wait:
    """A wait for a signal, an event or a hook's payload."""

    __slots__ = ("is_registered", "kind", "match", "name", "number", "reply", "row", "shape")

    def __init__(
        self, number: int, kind: str, name: str, match: Any, shape: ValueCodec, reply: Reply[Any], row: NewWait | None
    ) -> None:
        self.number = number
        self.kind = kind
        self.name = name
        self.match = match
        self.shape = shape
        self.reply = reply
        self.row = row
        """What the store is to know of it; None: nothing."""
        self.is_registered = False


class Child:
    """A child run that was asked for and has not ended."""

    __slots__ = ("key", "new", "reply", "workflow")

    def __init__(self, key: str, workflow: Workflow[Any, Any], new: NewRun, reply: Reply[Any]) -> None:
        self.key = key
        self.workflow = workflow
        self.new = new
        self.reply = reply


class Compensation(NamedTuple):
    """What undoes something: a step and its arguments."""

    step: Step[Any, Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Life:
    """One body's share of the outside."""

    __slots__ = (
        "cancels", "child_numbers", "children", "closed", "compensations", "events", "has_undone", "hooks",
        "is_cancel_held",
        "is_compensating", "items", "mailbox", "marks", "new_children", "numbers", "patches", "shields", "signals",
        "successor", "taken", "truncate", "uncompensated", "values", "waits",
    )  # fmt: skip  # a name a line would be a page

    def __init__(self) -> None:
        self.waits: dict[int, Wait] = {}
        self.numbers = 0
        self.mailbox: list[Message] = []
        """Messages that came and that no wait has taken yet, in the order in which they were sent."""
        self.taken: list[int] = []
        """Ids of messages that this advance has taken."""
        self.children: dict[str, Child] = {}
        self.hooks = 0
        self.child_numbers = 0
        self.new_children: list[NewRun] = []
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
        self.compensations: list[Compensation] = []
        self.is_compensating = False
        self.has_undone = False
        self.uncompensated: list[str] = []
        self.patches: dict[str, bool] = {}
        self.marks: list[str] = []
        """Changes decided on while nothing could be recorded: written with the next turn."""

    def is_over(self, wait: Wait) -> None:
        """The wait has taken something, timed out or was cancelled."""
        if self.waits.pop(wait.number, None) is not None and wait.is_registered:
            self.closed.append(wait.number)

    def out(self) -> Out | None:
        """What this advance gives out; from here on it counts as given."""
        waits = []
        for wait in self.waits.values():
            if wait.row is not None and not wait.is_registered:
                wait.is_registered = True
                waits.append(wait.row)
        found = Out(
            children=tuple(self.new_children),
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

    def ask_anew(self, attempt: int) -> None:
        """The run is tried again: what is open is asked for anew, and what was there before is called off."""
        for wait in self.waits.values():
            wait.is_registered = False
        for child in self.children.values():
            if child.new.on_parent_end == "cancel":
                self.cancels.append(child.new.id)
            child.new = msgspec.structs.replace(child.new, id=f"{child.new.id.partition('~')[0]}~{attempt}")
            self.new_children.append(child.new)


_NOTHING = Out()
