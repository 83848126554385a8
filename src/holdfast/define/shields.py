"""Cleaning up: blocks that a cancel does not interrupt, and compensations that run when a run fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, cast

from holdfast.errors import DefinitionError

from .scope import Body, body_for
from .steps import Step, make_step


class shield:  # used like a function: `with shield():`
    """A block that a cancel does not interrupt.

        with holdfast.shield():
            await withdraw(account, cents)
            await deposit(other, cents)

    A cancel that comes while any task of the run is inside waits until the last one has left. The body gets it at its
    next wait, or where it enters the next shield, and on replay in the same place. Deadlines are cancels. Only in a
    body: NotInRun outside any run, NotInBody in a step.
    """

    # The same object may be used around blocks of several runs at once.
    __slots__ = ("_inside",)

    def __init__(self) -> None:
        self._inside: list[Body] = []

    def __enter__(self) -> Self:
        body = body_for("holdfast.shield()")
        body.enter_shield()
        self._inside.append(body)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        body = body_for("holdfast.shield()")
        # A generator of another run may be closed here. That run's shield is no business of this one.
        if body in self._inside:
            self._inside.remove(body)
            body.leave_shield()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def compensate(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
    """Register a compensation: if the run fails or is cancelled, it runs as a step, last registered first.

        payment = await charge(order.card, order.cents)
        holdfast.compensate(refund, payment)

    It runs after the body has ended, also after its `finally` blocks and after the last retry of the workflow, with its
    own retry policy if `fn` is a step. One that fails for good is noted in the run's error, and the others still run.
    Nothing is undone when the run completes. The arguments are copied here: later changes to them don't count. `fn` is
    a step or any function, else DefinitionError; BadArguments or NotEncodable if it could not be called with these
    arguments. Only in a body: NotInRun outside any run, NotInBody in a step.
    """
    body = body_for("holdfast.compensate()")
    if not callable(fn):
        raise DefinitionError(f"compensate({fn!r}): expected a step or a function")
    body.compensate(fn if isinstance(fn, Step) else make_step(fn), args, kwargs)


def rollback() -> Coroutine[object, None, None]:
    """Run the compensations registered so far, last first, now; none of them runs again. Raises the first failure.

        if not await in_stock(order):
            await holdfast.rollback()
            return "sold out"

    Each is a step of this run: one that was executed before a crash is not executed again. A run that has undone
    something can't be retried from outside: `client.retry` raises AlreadyCompensated. Only in a body: NotInRun outside
    any run, NotInBody in a step.
    """
    body = body_for("holdfast.rollback()")
    if body.is_blocking:
        return cast("Coroutine[object, None, None]", body.run_inside(body.rollback()))
    ticket = body.new_ticket()
    return body.track(_rolled_back(body, ticket), ticket, sys._getframe(1))


async def _rolled_back(body: Body, ticket: int) -> None:
    body.redeem(ticket)
    await body.rollback()
