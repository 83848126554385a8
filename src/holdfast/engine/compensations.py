"""What undoes what a body has done: registered by it, and run last first when it fails or says so (semantics §7.5).

What is being undone when the body ends is waited for: asked for again it would be undone by another key, twice maybe.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.codec import message_of
from holdfast.define import Reply, Step
from holdfast.errors import DefinitionError, NotDecodable
from holdfast.model import Undo

from .commands import Command
from .inheritance import inherited
from .life import Compensation
from .sends import Sends
from .shapes import shapes_of


class Compensations(Sends):
    """Registered by a body, by its steps' results, or by an earlier run of its chain."""

    __slots__ = ()

    def compensate(self, step: Step[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.is_dead:
            self.refuse()
        if self.life.is_compensating:
            raise DefinitionError("compensate() was called while the run is being compensated; it has nothing to undo")
        # Refused here if they don't fit, and copied: what the body does to its own later is not what is undone.
        arguments = shapes_of(step, self._codec).arguments
        self.life.compensations.append(Compensation(step, *arguments.unpack(arguments.pack(args, kwargs))))

    def undo_later(self, command: Command, result: bytes) -> None:
        """A step's result was taken in: if the step says how, it can be undone from here on. So can a map's items."""
        undo = command.step.compensate
        if undo is not None and (self._life is None or command.key not in self._life.undoing):
            # Read once more: what the body does to the result that it got is not what is undone.
            for one in command.step.to_undo(command.shapes.result.decode(result)):
                self.life.compensations.append(Compensation(undo, (one,), {}))

    async def _undo(self) -> None:
        """Run what is registered, last first, all of it; raise the first failure then, to a body that has asked."""
        life = self.life
        # What a task of the body was at when that ended is under way: it is waited for, and not asked for again.
        for reply, found in life.in_hand if life.is_compensating else ():
            await self._undone(found, reply)
        first: Exception | None = None
        while life.compensations:
            failure = await self._undone(life.compensations.pop())
            first = first or failure
        if first is not None and not life.is_compensating:
            raise first

    async def _undone(self, found: Compensation | Undo, reply: Reply[Any] | None = None) -> Exception | None:
        """Undo one thing, unless that has begun; returns what it failed with."""
        life = self.life
        life.has_undone = True
        try:
            if reply is None:
                reply = self._ask_inherited(found) if isinstance(found, Undo) else self.ask_undoing(*found)
                life.undoing.add(reply.key)
                life.in_hand.append((reply, found))
            await asyncio.shield(reply)
        except asyncio.CancelledError:
            if not life.is_compensating and reply is not None:
                # The body itself gives up, by a timeout, say: this was not undone, so it is still to be.
                reply.cancel()
                life.compensations.append(found)
            raise
        except Exception as error:
            # Once, also if a task's rollback() and what follows the body both wait for it.
            told = len(life.uncompensated) if reply is None else reply.key
            life.uncompensated[told] = f"{found.name}: {type(error).__name__}: {message_of(error)}"
            return error
        finally:
            if not life.is_compensating:
                life.in_hand = [one for one in life.in_hand if one[0] is not reply]
        return None

    def _ask_inherited(self, undo: Undo) -> Reply[Any]:
        step = inherited(undo, self.workflow)
        if step is None:
            # Not the body's fault, and not to be given up: the run is blocked until somebody deploys it again.
            self.stop_with(
                NotDecodable(
                    f"an earlier run of this chain has registered the compensation {undo.name!r}, and the function "
                    f"{undo.module}.{undo.qualname}, or an exception class that its Retry names, is not there: bring "
                    "it back, or refer to it in the workflow"
                )
            )
        return self.ask_undoing(step, (), {}, self._codec.open(undo.args))

    @property
    def has_to_undo(self) -> bool:
        """Whether anything is registered that a failure would undo."""
        return self._life is not None and bool(self._life.compensations)

    @property
    def has_undone(self) -> bool:
        """Whether it has begun to undo what was done."""
        return self._life is not None and self._life.has_undone
