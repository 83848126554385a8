"""Compensations: registered by a body, and run last first when the body fails or calls rollback() (semantics §7.5).

A compensation that is under way when the body ends is waited for. If it were asked for again it would have another key,
and could take effect twice.
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
    """The part of an execution that undoes. Compensations are registered by the body, by the results of its steps, or
    by an earlier run of the chain."""

    __slots__ = ()

    def compensate(self, step: Step[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.is_dead:
            self.refuse()
        if self.life.is_compensating:
            raise DefinitionError("compensate() was called while the run is being compensated; it has nothing to undo")
        # Arguments that don't fit are refused here. The others are copied: the body may change its own objects later.
        arguments = shapes_of(step, self._codec).arguments
        self.life.compensations.append(Compensation(step, *arguments.unpack(arguments.pack(args, kwargs))))

    def undo_later(self, command: Command, result: bytes) -> None:
        """A step's result was taken in: register the compensation that the step declares. A map has one for each
        item."""
        undo = command.step.compensate
        if undo is not None and (self._life is None or command.key not in self._life.undoing):
            # Decoded a second time: the body may change its own copy.
            for one in command.step.to_undo(command.shapes.result.decode(result)):
                self.life.compensations.append(Compensation(undo, (one,), {}))

    async def _undo(self) -> None:
        """Run everything that is registered, last first. In a rollback() that the body called, raise the first failure
        after that."""
        life = self.life
        # Compensations that a task of the body had begun when the body ended: wait for them, and don't ask for them
        # again.
        for reply, found in life.in_hand if life.is_compensating else ():
            await self._undone(found, reply)
        first: Exception | None = None
        while life.compensations:
            failure = await self._undone(life.compensations.pop())
            first = first or failure
        if first is not None and not life.is_compensating:
            raise first

    async def _undone(self, found: Compensation | Undo, reply: Reply[Any] | None = None) -> Exception | None:
        """Undo one thing, or wait for `reply` if that has begun. Returns the error if it fails."""
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
                # The body itself gave up waiting, by a timeout, say. This was not undone, so it stays registered.
                reply.cancel()
                life.compensations.append(found)
            raise
        except Exception as error:
            # By the key, so that it is noted once if both a task's rollback() and the cleanup after the body wait for
            # it.
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
            # The run is blocked, not failed, until somebody deploys the function again: it must still be undone.
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
        """Whether anything is registered that a failure of the run would undo."""
        return self._life is not None and bool(self._life.compensations)

    @property
    def has_undone(self) -> bool:
        """Whether any compensation has begun."""
        return self._life is not None and self._life.has_undone
