"""The README's example: charge a card, wait, and survive being killed in between.

Start it, kill it while it sleeps, and start it again: it goes on where it was, and the card is not charged again. The
state is in holdfast.db, a SQLite file in the current folder.
"""

import holdfast
from holdfast import step, workflow


@step
async def charge(card: str, cents: int) -> str:
    print(f"charging {cents} cents to {card}")
    return f"charged {cents} cents to {card}"


@workflow
async def checkout(card: str) -> str:
    payment = await charge(card, 1200)
    await holdfast.sleep("5s")
    return payment


if __name__ == "__main__":
    print(holdfast.run(checkout, "4242", key="order-1"))
