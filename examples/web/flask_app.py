"""Flask: requests start runs and send them messages; the worker is a separate process.

    SHOP_DATABASE=shop.db flask --app flask_app run
    SHOP_DATABASE=shop.db holdfast worker --url sqlite:///shop.db shop.py

The client blocks, and many threads may share it. Opening it creates Holdfast's tables.
"""

import sqlite3
from http import HTTPStatus
from typing import Any

from flask import Flask, jsonify, request
from flask.typing import ResponseReturnValue
from shop import DATABASE, URL, checkout

from holdfast import BadPayload, Client, HoldfastError, HookExpired, HookNotFound, HookUsed, RunNotFound

app = Flask(__name__)
client = Client(URL).__enter__()
with sqlite3.connect(DATABASE) as db:
    db.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, item TEXT NOT NULL)")
db.close()

STATUS: dict[type[HoldfastError], int] = {
    RunNotFound: 404,
    HookNotFound: 404,
    HookUsed: 409,
    HookExpired: 410,
    BadPayload: 422,
}


@app.errorhandler(HoldfastError)
def refused(error: HoldfastError) -> ResponseReturnValue:
    return jsonify(detail=str(error)), STATUS.get(type(error), 500)


@app.post("/orders")
def order() -> ResponseReturnValue:
    new: dict[str, Any] = request.get_json()
    db = sqlite3.connect(DATABASE)
    try:
        # In one transaction: no order without its run, and no run without its order.
        with db:
            db.execute("INSERT INTO orders VALUES (?, ?)", (new["id"], new["item"]))
            client.start(checkout, new["id"], key=new["id"], connection=db)
    except sqlite3.IntegrityError:
        return jsonify(detail=f"there is an order {new['id']!r}"), HTTPStatus.CONFLICT
    finally:
        db.close()
    return jsonify(order=f"/orders/{new['id']}"), HTTPStatus.ACCEPTED


@app.get("/orders/<order_id>")
def show(order_id: str) -> ResponseReturnValue:
    run = client.get_run(checkout, key=order_id)
    found = {name: run.value(name, default=None) for name in ("pay at", "parcel")}
    return jsonify({"status": run.status, **found})


@app.post("/payments/<token>")
def paid(token: str) -> ResponseReturnValue:
    """The payment provider's webhook. It may be called twice: the second call is told that there was a first."""
    client.resume_hook(token, request.get_json())
    return "", HTTPStatus.NO_CONTENT


@app.post("/orders/<order_id>/delivered")
def delivered(order_id: str) -> ResponseReturnValue:
    """The carrier's webhook. Repeating it changes nothing, because the same message is delivered once."""
    client.get_run(checkout, key=order_id).signal("delivered", message_id=f"delivered {order_id}")
    return "", HTTPStatus.NO_CONTENT
