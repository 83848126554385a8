"""Steps that many tests use."""

from __future__ import annotations

from holdfast import step


class Declined(Exception):
    """An error of the user's own, with a field and a signature that nobody can guess."""

    def __init__(self, card: str, *, cents: int) -> None:
        super().__init__(f"{card} was declined")
        self.card = card
        self.cents = cents


@step
async def double(n: int) -> int:
    return 2 * n


@step
def triple(n: int) -> int:
    return 3 * n


@step
async def echo(value: object) -> object:
    return value


@step
async def refuse(card: str) -> str:
    raise Declined(card, cents=5)


@step
async def clean_up() -> None:
    pass
