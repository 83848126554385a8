"""The workflow that the web examples share: an order is paid at a provider that calls back, shipped, and delivered.

What a web application needs of it are its name, its steps' outside and where it keeps its data: here a SQLite file, in
which Holdfast's tables stand beside the shop's own. So an order and its run can be written in one transaction. With
Postgres DATABASE would be a url, and nothing in the workflow would change.

The worker for it, beside whatever serves the requests: holdfast worker --url sqlite:///shop.db shop.py
"""

import os
from dataclasses import dataclass

import holdfast
from holdfast import step, workflow

DATABASE = os.environ.get("SHOP_DATABASE", "shop.db")
URL = f"sqlite:///{DATABASE}"


@dataclass
class Payment:
    cents: int


@step
def ship(order_id: str, cents: int) -> str:
    # A carrier would be told here, with current_step().idempotency_key, so that one order is one parcel.
    return f"parcel of {order_id}, paid with {cents} cents"


@workflow
async def checkout(order_id: str) -> str:
    payment = holdfast.hook(name="payment", type=Payment, expires="3d")
    # The address that the provider calls when the money is there. The token is the secret: it is good for one call.
    holdfast.set_value("pay at", f"/payments/{payment.token}")
    paid = await payment.wait()
    parcel = ship(order_id, paid.cents)
    holdfast.set_value("parcel", parcel)
    await holdfast.wait_for_signal("delivered", timeout="30d")
    return f"{parcel}, delivered"
