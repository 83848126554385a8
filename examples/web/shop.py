"""The workflow of the web examples: an order is paid at a provider that calls back, then shipped and delivered.

The web applications need its name, its hook and its database: a SQLite file, in which Holdfast's tables are next to the
shop's own, so that an order and its run can be written in one transaction. With Postgres DATABASE would be a url, and
nothing in the workflow would change.

Its worker, beside whatever serves the requests: holdfast worker --url sqlite:///shop.db shop.py
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
    # A real carrier would get current_step().idempotency_key, so that an order is never two parcels.
    return f"parcel of {order_id}, paid with {cents} cents"


@workflow
async def checkout(order_id: str) -> str:
    payment = holdfast.hook(name="payment", type=Payment, expires="3d")
    # The provider calls this address when the money has come. The token is secret, and good for one call.
    holdfast.set_value("pay at", f"/payments/{payment.token}")
    paid = await payment.wait()
    parcel = ship(order_id, paid.cents)
    holdfast.set_value("parcel", parcel)
    await holdfast.wait_for_signal("delivered", timeout="30d")
    return f"{parcel}, delivered"
