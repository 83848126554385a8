"""POST …/{run_id}/execute: a run driven by requests, as a server would hand them over."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, BadDuration, Worker, step, workflow
from holdfast.web import execute_app

executed: list[str] = []


@step
async def charge(order: str) -> str:
    executed.append(order)
    await asyncio.sleep(0.2)
    return f"charged {order}"


@workflow
async def checkout(order: str) -> str:
    return await charge(order)


@workflow
async def patient(order: str) -> str:
    await holdfast.sleep("1h")
    return order


@dataclass
class Answer:
    status: int
    headers: dict[bytes, bytes]
    body: Any


async def call(app: Any, method: str, path: str, **scope: Any) -> Answer:
    """One request, as an ASGI server hands it over."""
    sent: deque[Any] = deque()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app({"type": "http", "method": method, "path": path, **scope}, receive, send)
    start, body = sent
    headers = dict(start["headers"])
    assert int(headers[b"content-length"]) == len(body["body"])
    return Answer(start["status"], headers, json.loads(body["body"]))


def worker(url: Any) -> Worker:
    return Worker(url, workflows=[checkout, patient])


async def test_a_run_is_driven_to_its_end(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(checkout, "a")
        answer = await call(execute_app(worker(client)), "POST", f"/{run.id}/execute")
        assert (answer.status, answer.body) == (
            200,
            {"done": True, "reason": "ended", "status": "completed", "due_at": None},
        )
        assert await run.result(timeout=0) == "charged a"


async def test_a_run_that_waits_is_not_done_and_says_when_to_come_again(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(patient, "b")
        answer = await call(execute_app(worker(client)), "POST", f"/{run.id}/execute")
        assert answer.status == 200
        assert (answer.body["done"], answer.body["reason"]) == (False, "waiting")
        record = (await run.refresh()).record
        assert record is not None
        assert record.due_at is not None
        assert answer.body["due_at"] == record.due_at.isoformat()


async def test_a_run_that_has_ended_is_done_however_often_it_is_asked(database_url):
    async with AsyncClient(database_url) as client:
        app = execute_app(worker(client))
        run = await client.start(checkout, "c")
        answers = [await call(app, "POST", f"/{run.id}/execute") for _ in range(2)]
        assert [answer.body["done"] for answer in answers] == [True, True]
        assert executed.count("c") == 1


async def test_two_requests_at_once_execute_each_step_once(database_url):
    async with AsyncClient(database_url) as client:
        app = execute_app(worker(client))
        run = await client.start(checkout, "d")
        answers = await asyncio.gather(*(call(app, "POST", f"/{run.id}/execute") for _ in range(2)))
        assert {answer.status for answer in answers} == {200}
        assert True in [answer.body["done"] for answer in answers]
        assert executed.count("d") == 1


async def test_a_request_that_ends_first_leaves_the_database_open_for_the_others(database_url):
    async with AsyncClient(database_url) as client:
        long, short = await client.start(checkout, "e"), await client.start(patient, "f")
        app = execute_app(worker(database_url))
        first, second = await asyncio.gather(*(call(app, "POST", f"/{run.id}/execute") for run in (long, short)))
        assert (first.body["done"], second.body["reason"]) == (True, "waiting")


async def test_an_unknown_run_is_not_found(database_url):
    async with AsyncClient(database_url) as client:
        answer = await call(execute_app(worker(client)), "POST", "/nobody/execute")
        assert (answer.status, answer.headers[b"content-type"]) == (404, b"application/problem+json")
        assert answer.body["title"] == "Not Found"
        assert "'nobody'" in answer.body["detail"]


async def test_a_run_that_the_worker_does_not_serve_is_not_found_and_says_what_it_needs(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(checkout, "4242", queue="slow")
        answer = await call(execute_app(worker(client)), "POST", f"/{run.id}/execute")
        assert answer.status == 404
        assert "on queue 'slow'" in answer.body["detail"]


@pytest.mark.parametrize("path", ["", "/", "/execute", "/a/execute/", "/a/run", "/a%00b/execute"])
async def test_a_path_without_a_run_id_is_not_found(database_url, path):
    async with AsyncClient(database_url) as client:
        answer = await call(execute_app(worker(client)), "POST", path, raw_path=path.encode())
        assert (answer.status, answer.body["detail"]) == (404, "expected a path that ends in {run_id}/execute")


async def test_another_method_is_not_allowed_and_the_right_one_is_named(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(checkout, "g")
        answer = await call(execute_app(worker(client)), "GET", f"/{run.id}/execute")
        assert (answer.status, answer.headers[b"allow"]) == (405, b"POST")
        assert answer.body["status"] == 405
        assert "g" not in executed


async def test_the_endpoint_may_have_any_prefix_and_an_id_may_hold_a_slash(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(checkout, "h", id="orders/h")
        app = execute_app(worker(client))
        raw = b"/internal/runs/orders%2Fh/execute"
        answer = await call(app, "POST", "/internal/runs/orders/h/execute", raw_path=raw)
        assert answer.body["done"] is True
        assert await run.result(timeout=0) == "charged h"


@pytest.mark.parametrize("raw", [b"/no-one/execute?from=cron", b"/no-\xff/execute"])
async def test_a_raw_path_may_hold_a_query_and_bytes_that_are_no_text(database_url, raw):
    async with AsyncClient(database_url) as client:
        answer = await call(execute_app(worker(client)), "POST", "/no-one/execute", raw_path=raw)
        assert (answer.status, "there is no run 'no-" in answer.body["detail"]) == (404, True)


async def test_a_database_that_is_away_is_for_the_caller_to_try_again(tmp_path):
    app = execute_app(worker("postgresql://nobody@127.0.0.1:1/none"))
    answer = await call(app, "POST", "/a/execute")
    assert (answer.status, answer.headers[b"retry-after"]) == (503, b"5")
    assert answer.headers[b"content-type"] == b"application/problem+json"


async def test_lifespan_events_of_the_server_are_answered(database_url):
    asked = deque([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent = []

    async def receive() -> Any:
        return asked.popleft()

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await execute_app(worker(database_url))({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_websocket_is_refused(database_url):
    sent = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await execute_app(worker(database_url))({"type": "websocket"}, None, send)  # type: ignore[arg-type]  # unused
    assert sent == ["websocket.close"]


def test_an_invalid_budget_is_refused_when_the_endpoint_is_made(database_url):
    with pytest.raises(BadDuration):
        execute_app(worker(database_url), budget="soon")
