"""A workflow of one step that stays in flight until the test lets it go."""

from __future__ import annotations

import asyncio

from holdfast import step, workflow


class Gate:
    """A step that stays until it is let go, and says what became of it."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.go_on = asyncio.Event()

    def step(self):
        @step
        async def gate() -> str:
            self.begun += 1
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            return f"let go the {self.begun}. time"

        return gate


def body_of(gate):
    @workflow(name="gated")
    async def gated() -> str:
        return await gate()

    return gated
