"""What a trip books and what undoes it, with a note of everything undone."""

from __future__ import annotations

import holdfast
from holdfast import Retry, step

undone: dict[str, str] = {}
"""What was undone, by the idempotency key of the step that did it: an effect outside the store."""


@step
async def cancel_room(room: str) -> None:
    undone[holdfast.current_step().idempotency_key] = room


@step(compensate=cancel_room)
async def book_room(name: str) -> str:
    return f"room of {name}"


@step
async def cancel_flight(flight: str, fee: int = 0) -> None:
    undone[holdfast.current_step().idempotency_key] = f"{flight} {fee}"


@step(retry=Retry(attempts=1))
async def fail() -> None:
    raise ValueError("sold out")
