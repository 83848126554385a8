"""Changing code under live runs, and beginning afresh: `patched`, `continue_as_new`."""

from __future__ import annotations

from typing import Any, NoReturn

from .scope import body_for
from .steps import checked_name


def patched(change_id: str) -> bool:
    """Whether this run goes the new way of a change.

        if holdfast.patched("bill-before-shipping"):
            await bill(order)
            await ship(order)
        else:
            await ship(order)
            await bill(order)

    False for a run that had already passed this point with the old code, True for all others, and recorded: the
    answer is the same for this id as long as the run lives. A run has passed it if its journal holds anything behind
    it. One that the old code has only brought to its next wait goes the new way; signals, events and items that it sent
    before that wait are sent again, so ask behind them. Only in a body: NotInRun outside any run, NotInBody in a step.
    """
    return body_for("holdfast.patched()").patched(checked_name(change_id))


def continue_as_new(*args: Any, **kwargs: Any) -> NoReturn:
    """End this run and begin a fresh one of the same workflow with these arguments and an empty journal.

        @workflow
        async def subscription(customer: str, month: int) -> None:
            await bill(customer, month)
            await holdfast.sleep("30d")
            holdfast.continue_as_new(customer, month + 1)

    The new run has the same key, tags, deadline and parent, and gets the messages that this one has not read; a
    client that waits for the result gets the last one's. It never returns, and what it raises is to be let through
    (`except Exception` does). Only the body itself may call it: in a task of it that is a MisplacedCall. BadArguments
    if the arguments don't fit. `subscription.continue_as_new(...)` is the same with arguments that the type checker
    knows.
    """
    body_for("holdfast.continue_as_new()").continue_as_new(None, args, kwargs)
