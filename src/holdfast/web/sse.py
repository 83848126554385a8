"""Server-sent events: how one is written, and a response that sends them until they end or the client is gone.

A client that leaves is noticed at once, not at the next event, and everything that its stream holds is released. A
comment every now and then keeps proxies from closing a quiet connection, and finds clients that left without a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = 15.0
"""Seconds between two comments that keep a quiet connection open."""
HEAD = "holdfast.head"
"""Set in the scope of a request that asks only for the head of the answer."""
_BUFFER = 100
_END = {"type": "http.response.body", "body": b"", "more_body": False}
T = TypeVar("T")


def event(kind: str, data: Any, *, id: str | None = None) -> bytes:
    """Encode one event. `data` is encoded as JSON, which has no line breaks of its own."""
    lines = [f"event: {kind}"]
    if id is not None:
        lines.append(f"id: {id}")
    lines.append(f"data: {msgspec.json.encode(data).decode()}")
    return ("\n".join(lines) + "\n\n").encode()


class Ending:
    """Tells requests that stay connected that their server is about to shut down.

    An asyncio.Event belongs to the first event loop that waits for it, but an application may be called in one loop
    after another, as test clients do.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: set[asyncio.Future[None]] = set()

    def set(self) -> None:
        self._is_set = True
        for one in self._waiting:
            if not one.done():
                one.set_result(None)

    async def wait(self) -> None:
        if self._is_set:
            return
        told = asyncio.get_running_loop().create_future()
        self._waiting.add(told)
        try:
            await told
        finally:
            self._waiting.discard(told)


class EventStream(Response):
    """A response that sends events until they end or `ending` is set. `left` is called once, however it ends."""

    media_type = MEDIA_TYPE

    def __init__(self, events: AsyncGenerator[bytes, None], left: Callable[[], None], ending: Ending) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"}, media_type=MEDIA_TYPE)
        del self.headers["content-length"]
        self._events = events
        self._left = left
        self._ending = ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tasks: list[asyncio.Task[object]] = []
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope.get(HEAD):
                await send(_END)
                return
            pumping, _, ending = tasks = [
                asyncio.create_task(self._pump(send)),
                asyncio.create_task(_until_gone(receive)),
                asyncio.create_task(self._ending.wait()),
            ]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if done == {ending}:
                # End the response properly, so that the client comes back, to another server, with the last event's id.
                pumping.cancel()
                await asyncio.wait([pumping])
                await send(_END)
        except OSError:
            # The client left while something was being sent.
            pass
        finally:
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._events.aclose()
            finally:
                # Even if this is cancelled meanwhile: anyio cancels again on every turn of the loop.
                self._left()

    async def _pump(self, send: Send) -> None:
        async for chunk in with_heartbeats(self._events, HEARTBEAT):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send(_END)


async def with_heartbeats(events: AsyncIterator[bytes], pause: float) -> AsyncIterator[bytes]:
    """The events, and a comment whenever none came for `pause` seconds."""
    coming: asyncio.Future[bytes] | None = None
    try:
        while True:
            if coming is None:
                coming = asyncio.ensure_future(anext(events))
            await asyncio.wait([coming], timeout=pause)
            if not coming.done():
                yield b": still here\n\n"
                continue
            try:
                chunk = coming.result()
            except StopAsyncIteration:
                return
            coming = None
            yield chunk
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def merged(*sources: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """What several sources yield, as it comes, until all have ended. If one fails, this fails.

    Order is kept within each source, not between them.
    """
    queue: asyncio.Queue[T | Exception | None] = asyncio.Queue(_BUFFER)

    async def feed(source: AsyncIterator[T]) -> None:
        try:
            async for chunk in source:
                await queue.put(chunk)
        except Exception as error:
            await queue.put(error)
        else:
            await queue.put(None)

    feeders = [asyncio.create_task(feed(source)) for source in sources]
    try:
        left = len(feeders)
        while left:
            found = await queue.get()
            if isinstance(found, Exception):
                raise found
            if found is None:
                left -= 1
            else:
                yield found
    finally:
        for feeder in feeders:
            feeder.cancel()
        await asyncio.gather(*feeders, return_exceptions=True)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
