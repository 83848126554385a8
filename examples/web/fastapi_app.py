"""FastAPI: requests start runs and send them messages, and the worker lives in the application's lifespan.

    pip install holdfast fastapi uvicorn 'sqlalchemy[asyncio]' aiosqlite
    SHOP_DATABASE=shop.db uvicorn fastapi_app:app

Here one process does everything. With more load, take the worker out of the lifespan and run `holdfast worker` instead:
the two meet only in the database. Many processes of either kind may share one database.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from shop import DATABASE, URL, Payment, checkout
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine

from holdfast import AsyncClient, BadPayload, HoldfastError, HookExpired, HookNotFound, HookUsed, RunNotFound, Worker

engine = create_async_engine(f"sqlite+aiosqlite:///{DATABASE}")


class NewOrder(BaseModel):
    id: str
    item: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncClient(URL) as client:
        async with engine.begin() as db:
            await db.execute(text("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, item TEXT NOT NULL)"))
        async with Worker(client, workflows=[checkout]):
            app.state.client = client
            yield
        # By now the worker has let its steps end, and has handed its runs back.
    await engine.dispose()


app = FastAPI(lifespan=lifespan)
STATUS: dict[type[HoldfastError], int] = {
    RunNotFound: 404,
    HookNotFound: 404,
    HookUsed: 409,
    HookExpired: 410,
    BadPayload: 422,
}


@app.exception_handler(HoldfastError)
async def refused(_: Request, error: HoldfastError) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, STATUS.get(type(error), 500))


@app.post("/orders", status_code=202)
async def order(new: NewOrder, request: Request) -> dict[str, str]:
    try:
        # In one transaction: no order without its run, and no run without its order.
        async with engine.begin() as db:
            await db.execute(text("INSERT INTO orders VALUES (:id, :item)"), new.model_dump())
            await request.app.state.client.start(checkout, new.id, key=new.id, connection=db)
    except IntegrityError:
        raise HTTPException(409, f"there is an order {new.id!r}") from None
    return {"order": f"/orders/{new.id}"}


@app.get("/orders/{order_id}")
async def show(order_id: str, request: Request) -> dict[str, str | None]:
    run = await request.app.state.client.get_run(checkout, key=order_id)
    return {
        "status": run.status,
        "pay at": await run.value("pay at", default=None),
        "parcel": await run.value("parcel", default=None),
    }


@app.post("/payments/{token}", status_code=204)
async def paid(token: str, payment: Payment, request: Request) -> None:
    """The payment provider's webhook. It may be called twice: the second call is told that there was a first."""
    await request.app.state.client.resume_hook(token, payment)


@app.post("/orders/{order_id}/delivered", status_code=204)
async def delivered(order_id: str, request: Request) -> None:
    """The carrier's webhook. Repeating it changes nothing, because the same message is delivered once."""
    run = await request.app.state.client.get_run(checkout, key=order_id)
    await run.signal("delivered", message_id=f"delivered {order_id}")
