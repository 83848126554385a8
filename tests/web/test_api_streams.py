"""Event streams over a real server: they resume, end with the run, show life, and let everything go with the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest

import holdfast
from holdfast import AsyncClient, workflow
from holdfast.web import api
from holdfast.web.sse import Ending, EventStream, event, merged, with_heartbeats
from tests.web.events import followed
from tests.web.stage import listening, reached, served
from tests.worker.stage import until


@workflow
async def counting() -> int:
    for number in range(3):
        holdfast.emit("numbers", number)
        holdfast.emit("words", f"word {number}")
        await holdfast.wait_for_signal("go")
    return 3


@workflow
async def going_on(left: int) -> None:
    if left:
        going_on.continue_as_new(left - 1)


@workflow
async def chatting() -> None:
    for number in range(1_000):
        holdfast.emit("a", number)
        holdfast.emit("b", number)


async def test_a_run_is_followed_to_its_end(database_url):
    async with served(database_url, counting) as made, listening(made.app) as address:
        run = await made.client.start("counting")
        seen: list[tuple[str, Any]] = []
        async with followed(address, f"/v1/runs/{run.id}/stream?name=numbers") as events:
            async for one in events:
                if one.kind == "item":
                    seen.append((one.data["value"], one.id))
                    await run.signal("go")
                last = one
        assert seen == [(0, "numbers=1"), (1, "numbers=2"), (2, "numbers=3")]
        assert (last.kind, last.data) == ("end", {"id": run.id, "status": "completed"})


async def test_streams_tell_proxies_neither_to_cache_nor_to_buffer(database_url):
    async with served(database_url, going_on) as made:
        run = await made.client.start("going_on", 0)
        await run.wait("60s")
        answer = await made.call("GET", f"/v1/runs/{run.id}/stream")
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")


async def test_a_followed_run_that_has_continued_ends_with_the_status_of_the_last_run_of_its_chain(database_url):
    async with served(database_url, going_on) as made, listening(made.app) as address:
        run = await made.client.start("going_on", 1)
        await run.wait("60s")
        async with followed(address, f"/v1/runs/{run.id}/stream") as events:
            last = [one async for one in events][-1]
        assert (last.kind, last.data) == ("end", {"id": run.id, "status": "completed"})


def test_streams_are_followed_in_one_event_loop_after_another(database_url):
    holdfast.run(going_on, 0, key="k", url=database_url)
    client = AsyncClient(database_url)
    app = api(client)

    async def last(*, is_last: bool) -> str:
        async with reached(app) as http:
            run = await client.get_run(going_on, key="k")
            answer = await http.get(f"/v1/runs/{run.id}/stream")
        if is_last:
            await client.close()
        return answer.text

    told = [asyncio.run(last(is_last=is_last)) for is_last in (False, True)]
    assert told[0] == told[1]
    assert "event: end" in told[0]


async def test_several_streams_followed_at_once_resume_where_they_were(database_url):
    async with served(database_url, counting) as made, listening(made.app) as address:
        run = await made.client.start("counting")
        for _ in range(3):
            await run.signal("go")
        await run.wait("60s")
        path = f"/v1/workflows/counting/runs/{run.id}/stream?name=numbers&name=words"
        async with followed(address, path) as events:
            all_of_it = [one async for one in events if one.kind == "item"]
        middle = all_of_it[2].id
        assert middle is not None
        async with followed(address, path, **{"Last-Event-ID": middle}) as events:
            rest = [one async for one in events if one.kind == "item"]
        assert len(all_of_it) == 6
        assert {(one.data["stream"], one.data["offset"]) for one in rest} == {
            (one.data["stream"], one.data["offset"]) for one in all_of_it[3:]
        }


async def test_without_a_name_the_status_is_followed(database_url):
    async with served(database_url) as made, listening(made.app) as address:
        run = await made.client.start("approval", "ann")
        kinds = []
        async with followed(address, f"/v1/runs/{run.id}/stream") as events:
            async for one in events:
                kinds.append((one.kind, one.data["status"]))
                if one.data["status"] == "waiting":
                    await run.signal("answer", "yes")
        assert ("status", "waiting") in kinds
        assert kinds[-2:] == [("status", "completed"), ("end", "completed")]


@pytest.mark.parametrize(
    "id",
    ["1", "numbers", "numbers=x", "numbers=-1", "other=1", "numbers=99999999999999999999", "%", "=1", "numbers=1&b"],
)
async def test_an_invalid_last_event_id_is_400(database_url, id):
    async with served(database_url, counting) as made:
        run = await made.client.start("counting")
        headers = {"Last-Event-ID": id}
        answer = await made.call("GET", f"/v1/runs/{run.id}/stream?name=numbers", headers=headers)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "last-event-id")


async def test_a_client_that_leaves_ends_all_that_its_stream_has_opened(database_url):
    async with served(database_url) as made, listening(made.app) as address:
        run = await made.client.start("approval", "ann")
        await made.stage.until_waiting(run)
        before = len(asyncio.all_tasks())
        service = made.app.state.holdfast
        async with followed(address, f"/v1/runs/{run.id}/stream?name=log") as events:
            assert (await anext(events)).kind in ("status", "item")
            assert service.slots.taken == 1
        await until(lambda: service.slots.taken == 0)
        await until(lambda: len(asyncio.all_tasks()) <= before)


async def test_a_place_is_free_again_when_its_stream_has_ended(database_url):
    async with served(database_url, streams=1) as made, listening(made.app) as address:
        run = await made.client.start("checkout", "4711")
        await run.wait("60s")
        for _ in range(3):
            async with followed(address, f"/v1/runs/{run.id}/stream") as events:
                assert [one.kind async for one in events][-1] == "end"


async def test_a_place_is_free_again_when_somebody_who_waits_has_left(database_url):
    asks = httpx.AsyncClient(timeout=60)
    async with served(database_url, streams=1) as made, listening(made.app) as address, asks as http:
        run = await made.client.start("approval", "ann")
        service = made.app.state.holdfast
        asking = asyncio.create_task(http.get(f"{address}/v1/runs/{run.id}/result?wait=60s"))
        await until(lambda: service.slots.taken == 1)
        asking.cancel()
        await until(lambda: service.slots.taken == 0)
        answer = await http.get(f"{address}/v1/runs/{run.id}/result?wait=1ms")
        assert answer.status_code == 202


async def test_a_quiet_stream_shows_that_it_is_alive():
    now = asyncio.Event()

    async def quiet() -> AsyncIterator[bytes]:
        await now.wait()
        yield event("late", {})

    found = []
    async for chunk in with_heartbeats(quiet(), 0.001):
        found.append(chunk)
        if len(found) == 3:
            now.set()
    assert found[:3] == [b": still here\n\n"] * 3
    assert found[-1] == b"event: late\ndata: {}\n\n"


async def test_line_breaks_in_data_stay_within_their_event():
    assert event("e", {"text": "a\nevent: fake\r\n\u2028"}, id="1").count(b"\n") == 4


async def test_a_client_that_can_t_be_written_to_counts_as_gone():
    is_closed = False
    left = []

    async def endless() -> AsyncIterator[bytes]:
        nonlocal is_closed
        try:
            while True:
                yield b"x"
        finally:
            is_closed = True

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise OSError("gone")

    async def receive() -> Any:
        await asyncio.Event().wait()

    stream = EventStream(endless(), lambda: left.append(True), Ending())  # type: ignore[arg-type]
    await stream({"type": "http"}, receive, send)
    assert (is_closed, left) == (True, [True])


async def test_a_failure_of_one_source_ends_all():
    is_closed = []

    async def waits() -> AsyncIterator[bytes]:
        try:
            await asyncio.Event().wait()
            yield b""
        finally:
            is_closed.append(True)

    async def breaks() -> AsyncIterator[bytes]:
        yield b"one"
        raise RuntimeError("broken")

    together = merged(waits(), breaks())
    assert await anext(together) == b"one"
    with pytest.raises(RuntimeError, match="broken"):
        await anext(together)
    assert is_closed == [True]


async def test_an_event_id_never_covers_more_than_was_sent(database_url):
    # More items than are read ahead: what waits to be sent would be lost to whoever comes back.
    async with served(database_url, chatting) as made, listening(made.app) as address:
        run = await made.client.start("chatting")
        await run.wait("60s")
        sent = {"a": 0, "b": 0}
        async with followed(address, f"/v1/runs/{run.id}/stream?name=a&name=b") as events:
            async for one in events:
                if one.kind == "item":
                    sent[one.data["stream"]] = one.data["offset"]
                    assert dict(parse_qsl(one.id)) == {name: str(offset) for name, offset in sent.items()}
        assert sent == {"a": 1_000, "b": 1_000}
