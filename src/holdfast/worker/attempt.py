"""One attempt in a worker's hands, and the items that it sends. attempts.py executes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from holdfast.define import StepInfo
from holdfast.engine import Command
from holdfast.model import Instant, Turn
from holdfast.store import Loan

from .clock import Alarm
from .commits import Verdict
from .held import Held

Told = Callable[[Held, Turn, Verdict], None]
_NO_ITEMS: dict[str, int] = {}


class Executing(Protocol):
    """What an attempt needs of those who execute it."""

    @property
    def resources(self) -> Mapping[object, Any]: ...

    def send(self, attempt: Attempt, name: str, value: Any, *, is_value: bool) -> None: ...

    def beaten(self, attempt: Attempt, details: Any) -> None: ...


class Attempt(StepInfo):
    """One attempt of one step of one run: what the step itself can see of it, and what only this worker knows."""

    __slots__ = (
        "_attempts", "alarm", "command", "details", "epoch", "first_at", "has_sent", "held", "is_holding", "is_left",
        "is_settled", "is_timed_out", "kept", "loan", "streams", "task", "timeout", "turn",
    )  # fmt: skip  # a name a line would be a page

    def __init__(self, attempts: Executing, held: Held, command: Command) -> None:
        super().__init__(command.step.name, command.key, command.attempt, held.info, attempts.resources)
        self._attempts = attempts
        self.held = held
        self.epoch = held.epoch
        """The epoch of the claim in which it began. What it sends after a later claim comes too late."""
        self.command = command
        self.first_at: Instant = 0
        """When the first attempt of the step began. Not known yet while this one stands in line."""
        self.details = command.details
        """The heartbeat details that the step gave last, in this attempt or an earlier one."""
        self.task: asyncio.Task[None] | None = None
        self.alarm: Alarm | None = None
        self.is_settled = False
        self.is_timed_out = False
        self.is_left = False
        """It was left behind: it went on although nobody waited for it any more, and its result goes nowhere."""
        self.has_sent = False
        self.streams = _NO_ITEMS
        """How many items it has sent to each stream."""
        self.timeout = command.step.timeout
        self.loan: Loan | None = None
        """The loan of a transactional step; see inside.py."""
        self.is_holding = False
        """Whether its transaction keeps the run's other turns waiting."""
        self.kept: list[Item] | None = None
        """What it has sent while only its transaction can write."""
        self.turn: tuple[Turn, Told] | None = None
        """The turn that its transaction is to commit."""

    @property
    def kind(self) -> str:
        return self.command.step.kind

    def items_anew(self) -> list[Any]:
        args, _ = self.command.shapes.arguments.unpack(self.command.args)
        items: list[Any] = args[0]
        return items

    def send_value(self, name: str, value: Any) -> None:
        self._attempts.send(self, name, value, is_value=True)

    def send_item(self, name: str, item: Any) -> None:
        self._attempts.send(self, name, item, is_value=False)

    def heartbeat(self, details: Any = None) -> None:
        self._attempts.beaten(self, details)


class Item(NamedTuple):
    """A value, or an item of a stream."""

    sender: Attempt
    name: str
    data: bytes
    is_value: bool
    number: int = 0
    """How many items the sender had sent to this stream before."""
