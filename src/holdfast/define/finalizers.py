"""What `current_scope` holds while Python's garbage collector runs finalizers: a scope that refuses durable calls.

The collector ends generators and calls `__del__` whenever it likes, in any thread, under whatever that thread is doing:
another body, a step, or nothing at all. No finalizer says whose it is.
"""

from __future__ import annotations

from typing import Any, NoReturn

from holdfast.errors import Suspended


class Finalizers:
    """Nobody's scope. To everything but durable calls it is as if there were no run.

    Of a body's finalizer a step must not execute: no journal would know of it, and each put-away would repeat it. For a
    finalizer of other code it would be a plain call. They can't be told apart, so both are refused: a step that was not
    executed is reported by Python with its line, and one that was executed would never be found.
    """

    is_blocking = True
    """So that an `async def` step is asked for at its call: a coroutine could be awaited when the collector is done."""

    def refuse(self, what: str) -> NoReturn:
        # No Exception: what is caught and passed over in a `finally` block is mostly one.
        raise Suspended(
            f"{what} was called by a finalizer, while the garbage collector ran. It may be that of a workflow body, so "
            "it is refused; close what a body has opened in the body itself, such as generators with "
            "contextlib.closing(...). In code of no body, call the step's own function: step.fn(...)"
        )

    def ask_step(self, step: Any, args: object, kwargs: object) -> NoReturn:
        self.refuse(f"the step {step.name!r}")

    def block(self, asked: object) -> NoReturn:
        self.refuse("a durable call")


FINALIZERS = Finalizers()
