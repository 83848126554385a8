"""Event streams over a real server: they resume, end with the run, show life, and let everything go with the client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import AsyncClient, ClientClosed, DefinitionError, RunEnded, RunNotFound, workflow
from holdfast.web.live import LiveRuns
from holdfast.web.sse import EventStream, event, merged, with_heartbeats
from tests.web.stage import checkout, listening, served
from tests.worker.stage import until


@dataclass
class Told:
    """One event, as a browser's EventSource would read it."""

    kind: str
    id: str | None
    data: Any


async def read(lines: AsyncIterator[str]) -> AsyncIterator[Told]:
    fields: dict[str, str] = {}
    async for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and fields:
            yield Told(fields["event"], fields.get("id"), json.loads(fields["data"]))
            fields = {}


@asynccontextmanager
async def followed(address: str, path: str, **headers: str) -> AsyncIterator[AsyncIterator[Told]]:
    async with httpx.AsyncClient(timeout=30) as http, http.stream("GET", address + path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield read(answer.aiter_lines())


@workflow
async def counting() -> int:
    for number in range(3):
        holdfast.emit("numbers", number)
        holdfast.emit("words", f"word {number}")
        await holdfast.wait_for_signal("go")
    return 3


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


async def test_several_streams_resume_where_they_were(database_url):
    async with served(database_url, counting) as made, listening(made.app) as address:
        run = await made.client.start("counting")
        for _ in range(3):
            await run.signal("go")
        await run.wait("20s")
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
async def test_an_id_that_is_none_is_400(database_url, id):
    async with served(database_url, counting) as made:
        run = await made.client.start("counting")
        headers = {"Last-Event-ID": id}
        answer = await made.call("GET", f"/v1/runs/{run.id}/stream?name=numbers", headers=headers)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "last-event-id")


async def test_a_client_that_leaves_takes_everything_with_it(database_url):
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
        await run.wait("20s")
        for _ in range(3):
            async with followed(address, f"/v1/runs/{run.id}/stream") as events:
                assert [one.kind async for one in events][-1] == "end"


async def test_a_place_is_free_again_when_somebody_who_waits_has_left(database_url):
    async with served(database_url) as made, listening(made.app) as address, httpx.AsyncClient() as http:
        run = await made.client.start("approval", "ann")
        service = made.app.state.holdfast
        asking = asyncio.create_task(http.get(f"{address}/v1/runs/{run.id}/result?wait=60s"))
        await until(lambda: service.slots.taken == 1)
        asking.cancel()
        await until(lambda: service.slots.taken == 0)


# -- the answer itself -------------------------------------------------------------------------------------------------


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


async def test_no_line_break_gets_out_of_its_data():
    assert event("e", {"text": "a\nevent: fake\r\n\u2028"}, id="1").count(b"\n") == 4


async def test_a_client_that_can_not_be_written_to_is_gone():
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

    stream = EventStream(endless(), lambda: left.append(True))  # type: ignore[arg-type]
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


# -- all runs ----------------------------------------------------------------------------------------------------------


async def test_changes_of_runs_are_followed(database_url):
    async with served(database_url) as made, listening(made.app) as address:
        await made.client.start("checkout", "before")
        async with followed(address, "/v1/live?workflow=approval") as events:
            assert (await anext(events)).kind == "ready"
            run = await made.client.start("approval", "ann")
            seen = []
            async for one in events:
                seen.append((one.kind, one.data["id"], one.data["status"]))
                if one.data["status"] == "waiting":
                    await run.signal("answer", "yes")
                elif one.data["status"] == "completed":
                    break
        assert {one[:2] for one in seen} == {("run", run.id)}
        assert seen[-1][2] == "completed"


async def test_whoever_left_and_comes_back_gets_what_it_missed(database_url):
    async with served(database_url) as made, listening(made.app) as address:
        async with followed(address, "/v1/live") as events:
            place = (await anext(events)).id
        assert place is not None
        await until(lambda: made.app.state.holdfast.live.followers == 0)
        run = await made.client.start("checkout", "4711")
        await run.wait("20s")
        async with followed(address, "/v1/live", **{"Last-Event-ID": place}) as events:
            first, second = await anext(events), await anext(events)
        assert (first.kind, second.kind) == ("ready", "run")
        assert (second.data["id"], second.data["status"]) == (run.id, "completed")


@pytest.mark.parametrize("id", ["nonsense", "00000000-1", "-", "٣"])
async def test_whoever_comes_back_to_another_server_is_told_to_list_again(database_url, id):
    async with served(database_url) as made:
        live = LiveRuns(made.client, pause=0.01)
        changes = live.follow(id)
        assert (await anext(changes)).kind == "reset"
        await changes.aclose()  # type: ignore[attr-defined]


async def test_whoever_missed_more_than_is_kept_is_told_to_list_again(database_url):
    async with served(database_url) as made:
        live = LiveRuns(made.client, pause=0.01, kept=3)
        changes = live.follow(None)
        place = live.id_of((await anext(changes)).number)
        await changes.aclose()  # type: ignore[attr-defined]
        for number in range(8):
            await made.client.start("checkout", str(number), id=str(number))
        changes = live.follow(place)
        assert (await anext(changes)).kind == "reset"
        await changes.aclose()  # type: ignore[attr-defined]


async def test_followers_that_come_at_once_are_told_each_change_once(database_url):
    async with served(database_url) as made:
        live = LiveRuns(made.client, pause=0.01)
        first = live.follow(None)
        place = live.id_of((await anext(first)).number)
        await first.aclose()  # type: ignore[attr-defined]
        run = await made.client.start("checkout", "4711")
        await run.wait("20s")
        several = [live.follow(place) for _ in range(3)]
        await asyncio.gather(*(anext(one) for one in several))
        seen = [await anext(one) for one in several]
        assert [change.run_id for change in seen] == [run.id] * 3
        assert {change.number for change in seen} == {1}
        later = await made.client.start("approval", "ann")
        assert (await anext(several[0])).run_id == later.id
        for one in several:
            await one.aclose()  # type: ignore[attr-defined]


async def test_nobody_looks_while_nobody_follows(database_url):
    async with served(database_url) as made:
        live = LiveRuns(made.client, pause=0.01)
        names = {task.get_name() for task in asyncio.all_tasks()}
        changes = live.follow(None)
        await anext(changes)
        following = asyncio.ensure_future(anext(changes))
        await until(lambda: "holdfast: look at runs" in {task.get_name() for task in asyncio.all_tasks()})
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await changes.aclose()  # type: ignore[attr-defined]
        await until(lambda: {task.get_name() for task in asyncio.all_tasks()} <= names)
        assert live.followers == 0


async def test_a_run_that_newer_ones_crowd_out_has_not_changed(database_url):
    async with served(database_url) as made:
        first = await made.client.start("approval", "first", delay="1h")
        await (await made.client.start("checkout", "4711")).wait("20s")
        live = LiveRuns(made.client, pause=0.01, newest=1, live=1)
        changes = live.follow(None)
        assert (await anext(changes)).kind == "ready"
        for who in ("second", "third"):
            run = await made.client.start("approval", who, delay="1h")
            assert (await anext(changes)).run_id == run.id != first.id
        await changes.aclose()  # type: ignore[attr-defined]


async def test_followers_end_with_the_client(database_url):
    async with AsyncClient(database_url) as client:
        live = LiveRuns(client, pause=0.01)
        changes = live.follow(None)
        assert (await anext(changes)).kind == "ready"
        following = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClientClosed):
            await following


async def test_a_run_that_was_deleted_is_told(database_url):
    async with served(database_url) as made:
        run = await made.client.start("approval", "ann")
        await made.stage.until_waiting(run)
        live = LiveRuns(made.client, pause=0.01)
        changes = live.follow(None)
        assert (await anext(changes)).kind == "ready"
        await run.cancel(force=True)
        await made.client.delete(run.id)
        change = await anext(changes)
        assert (change.kind, change.run_id) == ("deleted", run.id)
        await changes.aclose()  # type: ignore[attr-defined]


async def test_runs_that_many_newer_ones_have_crowded_out_are_told_when_they_end(database_url):
    async with served(database_url) as made:
        runs = [await made.client.start("approval", str(number)) for number in range(12)]
        for run in runs:
            await made.stage.until_waiting(run)
        live = LiveRuns(made.client, pause=0.01, newest=1, live=2, others=3)
        changes = live.follow(None)
        assert (await anext(changes)).kind == "ready"
        for run in runs:
            await run.signal("answer", "yes")
        ended: set[str] = set()
        async for change in changes:
            if change.run is not None and change.run.status == "completed":
                ended.add(change.run_id)
            if len(ended) == len(runs):
                break
        assert ended == {run.id for run in runs}
        await changes.aclose()  # type: ignore[attr-defined]


async def test_of_more_live_runs_than_are_followed_the_oldest_are_forgotten(database_url):
    async with AsyncClient(database_url) as client:
        for _ in range(4):
            await client.start(checkout, "a", delay="1h")
        live = LiveRuns(client, newest=1, live=2, others=2, followed=6)
        await live.look()
        for _ in range(20):
            await client.start(checkout, "a", delay="1h")
        for _ in range(12):
            await live.look()
        assert live.followed == 6


DEEDS = st.lists(
    st.tuples(st.sampled_from(["start", "pause", "resume", "cancel", "delete", "look"]), st.integers(0, 30)),
    max_size=40,
)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(DEEDS, st.sampled_from([1, 2, 5]), st.sampled_from([1, 3]))
def test_whatever_happens_the_last_that_is_told_of_a_run_is_how_it_is(deeds, live_page, others):
    async def play() -> None:
        async with AsyncClient("sqlite:///:memory:") as client:
            ids = [(await client.start(checkout, "a", delay="1h")).id for _ in range(5)]
            live = LiveRuns(client, newest=2, live=live_page, others=others)
            await live.look()
            told = await listed(client)
            for deed, number in deeds:
                run_id = ids[number % len(ids)]
                if deed == "start":
                    # All of one moment.
                    ids += [run.id for run in await client.start_many(checkout, [("a",)] * (number % 4), delay="1h")]
                elif deed == "look":
                    await live.look()
                else:
                    with suppress(RunEnded, RunNotFound, DefinitionError):
                        await getattr(client, deed)(run_id)
            # So many looks are two rounds of all there are.
            for _ in range(2 * len(ids) + 2):
                await live.look()
            for change in live.changes:
                if change.kind == "reset":
                    told = await listed(client)
                elif change.run is None:
                    told.pop(change.run_id, None)
                else:
                    told[change.run_id] = (change.run.status, change.run.paused)
            now = await listed(client)
            assert {run_id: told[run_id] for run_id in now} == now

    asyncio.run(play())


async def listed(client: AsyncClient) -> dict[str, tuple[str, bool]]:
    runs = [run.record async for run in client.runs()]
    return {record.id: (record.status.value, record.paused) for record in runs if record is not None}
