"""The workflow that these files deploy. Put yours in its place."""

import holdfast
from holdfast import step, workflow


@step
def charge(card: str, cents: int) -> str:
    return f"{cents} cents from {card}"


@workflow
async def checkout(card: str, cents: int) -> str:
    receipt = charge(card, cents)
    await holdfast.sleep("2s")
    return receipt
