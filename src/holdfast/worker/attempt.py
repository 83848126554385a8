"""One try of one step in a worker's hands, and what it sends. Who executes it is in attempts.py."""

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
    """One try of one step of one run. It is what the step itself sees of it, and what this worker knows beside that."""

    __slots__ = (
        "_attempts", "alarm", "command", "details", "epoch", "first_at", "has_sent", "held", "is_holding", "is_left",
        "is_settled", "is_timed_out", "kept", "loan", "streams", "task", "timeout", "turn",
    )  # fmt: skip  # a name a line would be a page

    def __init__(self, attempts: Executing, held: Held, command: Command) -> None:
        super().__init__(command.step.name, command.key, command.attempt, held.info, attempts.resources)
        self._attempts = attempts
        self.held = held
        self.epoch = held.epoch
        """Of the claim that it began in: what it sends after another one is late."""
        self.command = command
        self.first_at: Instant = 0
        """When the first attempt of the step began; of one that stands in line that is not known yet."""
        self.details = command.details
        """What the step has said of itself last, in this attempt or before it."""
        self.task: asyncio.Task[None] | None = None
        self.alarm: Alarm | None = None
        self.is_settled = False
        self.is_timed_out = False
        self.is_left = False
        """It went on although nobody waited for it any more, and what it does goes nowhere."""
        self.has_sent = False
        self.streams = _NO_ITEMS
        """How many items it has sent to each."""
        self.timeout = command.step.timeout
        self.loan: Loan | None = None
        """Of a transactional step: see inside.py."""
        self.is_holding = False
        """Its transaction keeps the run's other turns waiting."""
        self.kept: list[Item] | None = None
        """What it sends while nothing but its transaction can be written."""
        self.turn: tuple[Turn, Told] | None = None
        """What its transaction is to commit."""

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
    """How many items the sender has sent to the stream before."""
