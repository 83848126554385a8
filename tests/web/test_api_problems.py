"""Request ids, problem details, metrics and readiness: what every path of the API has in common."""

from __future__ import annotations

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry

from holdfast import AsyncClient, errors
from holdfast.observe import Prometheus
from holdfast.web import api
from holdfast.web.problems import TABLE
from holdfast.web.service import Readiness
from tests.web.stage import Clock, reached, served


async def test_a_request_keeps_the_id_that_it_came_with(database_url):
    async with served(database_url) as made:
        answer = await made.call("GET", "/v1/runs/none", headers={"x-request-id": "my-1.2_3"})
        assert (answer.headers["x-request-id"], answer.json()["request_id"]) == ("my-1.2_3", "my-1.2_3")


@pytest.mark.parametrize("given", ["", "a b", "x" * 101, "<script>"])
async def test_an_invalid_request_id_is_replaced(database_url, given):
    async with served(database_url) as made:
        answer = await made.call("GET", "/v1/runs", headers={"x-request-id": given})
        assert answer.headers["x-request-id"] not in ("", given)


async def test_an_unknown_path_or_method_is_answered_with_problem_details(database_url):
    async with served(database_url) as made:
        missing, wrong = await made.call("GET", "/v1/nothing"), await made.call("PUT", "/v1/workflows/a/runs")
        assert (missing.status_code, missing.json()["status"]) == (404, 404)
        assert "/v1/openapi.json" in missing.json()["detail"]
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, POST")
        assert wrong.headers["content-type"] == "application/problem+json"
        for path in ("/docs", "/v1/openapi.json"):
            assert (await made.call("POST", path)).headers["allow"] == "GET, HEAD"


async def test_a_database_that_is_away_is_503_with_the_time_to_try_again():
    async with reached(api("postgresql://nobody@127.0.0.1:1/none")) as http:
        answer = await http.get("/v1/runs")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert answer.json()["type"] == "urn:holdfast:problem:store-away"


async def test_an_unexpected_exception_is_logged_and_not_shown_to_the_caller(database_url, caplog):
    def broken() -> str:
        raise RuntimeError("the password is hunter2")

    async with served(database_url, metrics=broken) as made:
        made.http._transport.raise_app_exceptions = False  # type: ignore[attr-defined]  # as a real server would
        with caplog.at_level(logging.ERROR, "holdfast.web"):
            answer = await made.call("GET", "/metrics", headers={"x-request-id": "r-9"})
    assert (answer.status_code, answer.json()["request_id"]) == (500, "r-9")
    assert "hunter2" not in answer.text
    assert "r-9" in caplog.text
    assert (answer.headers["x-request-id"], answer.headers["x-content-type-options"]) == ("r-9", "nosniff")


async def test_a_web_page_may_read_the_answer_to_an_unexpected_exception(database_url):
    def broken() -> str:
        raise RuntimeError("no numbers")

    page = {"origin": "https://app.example.com"}
    async with served(database_url, metrics=broken, cors=[page["origin"]]) as made:
        made.http._transport.raise_app_exceptions = False  # type: ignore[attr-defined]  # as a real server would
        answer = await made.call("GET", "/metrics", headers=page)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (500, page["origin"])


async def test_the_metrics_path_serves_the_metrics_that_were_given(database_url):
    async with served(database_url, metrics=lambda: "runs_total 1\n") as made:
        answer = await made.call("GET", "/metrics")
        assert (answer.status_code, answer.text) == (200, "runs_total 1\n")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


async def test_the_metrics_path_shows_what_a_measured_client_has_counted(database_url):
    metrics = Prometheus(registry=CollectorRegistry())
    async with AsyncClient(database_url, observers=[metrics]) as client, reached(api(client)) as http:
        answer = await http.get("/metrics")
        assert (answer.status_code, answer.headers["content-type"]) == (200, metrics.render()[1])
        assert "holdfast" in answer.text


async def test_readiness_asks_the_database_at_most_once_a_second(database_url):
    asked = 0

    class Counting(AsyncClient):
        async def workers(self):
            nonlocal asked
            asked += 1
            return await super().workers()

    clock = Clock()
    async with Counting(database_url) as client:
        readiness = Readiness(client, clock=clock)
        assert await asyncio.gather(*(readiness.reason() for _ in range(20))) == [None] * 20
        assert asked == 1
        clock.now += 1
        assert await readiness.reason() is None
        assert asked == 2


def test_readiness_may_be_asked_by_many_at_once_in_one_event_loop_after_another(database_url):
    clock = Clock()
    client = AsyncClient(database_url)
    readiness = Readiness(client, clock=clock)

    async def ask() -> list[str | None]:
        clock.now += 1
        return await asyncio.gather(*(readiness.reason() for _ in range(3)))

    assert [asyncio.run(ask()) for _ in range(2)] == [[None] * 3] * 2
    asyncio.run(client.close())


async def test_the_metrics_path_is_unknown_without_metrics(database_url):
    async with served(database_url) as made:
        assert (await made.call("GET", "/metrics")).status_code == 404


def test_every_error_that_a_client_raises_has_a_status():
    named = [one for name, one in vars(errors).items() if isinstance(one, type) and not name.startswith("_")]
    found = [one for one in named if issubclass(one, errors.HoldfastError)]
    without = {one.__name__ for one in found if not any(issubclass(one, kind) for kind, _, _ in TABLE)}
    in_bodies_and_steps = {
        "MisplacedCall",
        "NotInRun",
        "NotInBody",
        "IOInBody",
        "NeverAwaited",
        "FatalError",
        "RetryAfter",
    }
    what_runs_come_to = {
        *("RunFailed", "RunCancelled", "JournalDiverged", "JournalLimitReached", "DeadlineExceeded", "RunCrashed"),
        *("StepFailed", "StepTimeout", "WaitTimeout", "NotCompensated"),
    }
    assert without == {"HoldfastError"} | in_bodies_and_steps | what_runs_come_to
