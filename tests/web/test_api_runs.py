"""Runs over HTTP: started, listed, read, waited for and deleted, below their workflow and without it."""

from __future__ import annotations

import asyncio

import httpx
import pytest

import holdfast
from holdfast import workflow
from holdfast.model import RunStatus, microseconds
from tests.web.stage import Served, listening, served


@workflow
async def asking_again(left: int) -> str:
    answer: str = await holdfast.wait_for_signal("answer", type=str)
    if left:
        asking_again.continue_as_new(left - 1)
    return answer


async def test_a_run_is_started_and_its_result_is_waited_for(database_url):
    async with served(database_url) as api:
        answer = await api.call("POST", "/v1/workflows/checkout/runs", {"input": ["4711"]})
        assert answer.status_code == 201
        assert (answer.json()["workflow"], answer.json()["created"]) == ("checkout", True)
        result = await api.call("GET", f"/v1/runs/{answer.json()['id']}/result?wait=20s")
        assert (result.status_code, result.json()["done"]) == (200, True)
        assert result.json()["result"] == {"payment": "charged 4711", "id": ""}


async def test_an_object_is_arguments_by_name_and_none_of_them_is_an_option(database_url):
    async with served(database_url) as api:
        run_id = await api.ended("checkout", {"card": "4711", "id": "o-1"})
        run = (await api.call("GET", f"/v1/runs/{run_id}")).json()
        assert (run["result"]["id"], run["input"]) == ("o-1", {"args": ["4711", "o-1"], "kwargs": {}})


async def test_all_options_of_a_start_reach_the_run(database_url):
    async with served(database_url) as api:
        body = {
            "input": ["4711"], "key": "order-1", "id": "my-run", "delay": "1h", "deadline": "2126-01-01T00:00:00Z",
            "retention": "2d", "priority": 7, "tags": {"customer": "acme"}, "queue": "slow", "version": "1",
        }  # fmt: skip
        run = (await api.call("POST", "/v1/workflows/checkout/runs", body)).json()
        assert (run["id"], run["key"], run["queue"], run["priority"]) == ("my-run", "order-1", "slow", 7)
        assert (run["tags"], run["version"]) == ({"customer": "acme"}, "1")
        assert (run["status"], run["deadline_at"]) == ("pending", "2126-01-01T00:00:00Z")
        record = (await api.client.get_run("my-run")).record
        assert record is not None
        assert record.retention == microseconds("2d")
        assert record.due_at is not None
        assert (record.due_at - record.created_at).total_seconds() == 3600


async def test_a_retention_of_null_is_for_ever_and_none_is_the_workflow_s_own(database_url):
    async with served(database_url) as api:
        ever, own = await api.start("checkout", ["a"], retention=None), await api.start("checkout", ["b"])
        kept = [(await api.client.get_run(run_id)).record.retention for run_id in (ever, own)]
        assert kept == [None, microseconds("30d")]


async def test_a_second_start_with_a_key_is_ok_and_not_created(database_url):
    async with served(database_url) as api:
        first = await api.call("POST", "/v1/workflows/checkout/runs", {"input": ["a"], "key": "k"})
        second = await api.call("POST", "/v1/workflows/checkout/runs", {"input": ["a"], "key": "k"})
        assert [first.status_code, second.status_code] == [201, 200]
        assert (second.json()["id"], second.json()["created"]) == (first.json()["id"], False)


async def test_a_taken_key_is_a_conflict_if_the_start_asks_for_that(database_url):
    async with served(database_url) as api:
        await api.start("checkout", ["a"], key="k")
        answer = await api.call(
            "POST", "/v1/workflows/checkout/runs", {"input": ["a"], "key": "k", "on_conflict": "raise"}
        )
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:holdfast:problem:key-taken")


async def test_a_workflow_or_version_that_no_worker_has_is_not_found(database_url):
    async with served(database_url) as api:
        unknown = await api.call("POST", "/v1/workflows/chekout/runs", {"input": []})
        version = await api.call("POST", "/v1/workflows/checkout/runs", {"input": ["a"], "version": "9"})
        assert [unknown.status_code, version.status_code] == [404, 404]
        assert "checkout" in unknown.json()["detail"]


async def test_arguments_that_do_not_fit_are_refused_and_the_field_is_named(database_url):
    async with served(database_url) as api:
        answer = await api.call("POST", "/v1/workflows/checkout/runs", {"input": {"crad": "4711"}})
        assert answer.status_code == 422
        assert [(one["place"], one["field"]) for one in answer.json()["errors"]] == [("body", "input")]
        assert [run async for run in api.client.runs()] == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("delay", "soon"),
        ("delay", "2026-13-01T00:00:00Z"),
        ("deadline", -1),
        ("priority", 10),
        ("priority", "5"),
        ("tags", {"a": 1}),
        ("key", ""),
        ("id", "x" * 501),
        ("queue", "x" * 201),
        ("on_conflict", "panic"),
        ("colour", "blue"),
        ("input", "4711"),
    ],
)
async def test_an_invalid_field_of_a_start_is_named(database_url, field, value):
    async with served(database_url) as api:
        answer = await api.call("POST", "/v1/workflows/checkout/runs", {"input": ["4711"], field: value})
        assert answer.status_code == 422
        assert {one["field"].partition(".")[0] for one in answer.json()["errors"]} == {field}


async def test_an_invalid_duration_is_one_fault_that_says_what_was_expected(database_url):
    async with served(database_url) as api:
        answer = await api.call("POST", "/v1/workflows/checkout/runs", {"input": ["4711"], "retention": "long"})
        reason = "expected a duration, as 1h30m, or seconds as a number"
        assert answer.json()["errors"] == [{"place": "body", "field": "retention", "reason": reason}]
        assert answer.json()["detail"] == f"body: retention: {reason}"


async def test_an_id_with_a_slash_is_found_everywhere(database_url):
    async with served(database_url) as api:
        await api.ended("checkout", ["4711"], id="orders/2026/1")
        quoted = "orders%2F2026%2F1"
        for path in (f"/v1/runs/{quoted}", f"/v1/workflows/checkout/runs/{quoted}/steps"):
            assert (await api.call("GET", path)).status_code == 200


async def test_a_run_is_found_below_its_own_workflow_only(database_url):
    async with served(database_url) as api:
        run_id = await api.start("checkout", ["4711"])
        assert (await api.call("GET", f"/v1/workflows/checkout/runs/{run_id}")).status_code == 200
        assert (await api.call("GET", f"/v1/workflows/approval/runs/{run_id}")).status_code == 404


async def test_an_unknown_run_is_not_found(database_url):
    async with served(database_url) as api:
        answer = await api.call("GET", "/v1/runs/nobody")
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:holdfast:problem:run-not-found")
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_result_that_is_not_there_yet_is_202_and_leaves_the_run_alone(database_url):
    async with served(database_url) as api:
        run_id = await api.start("approval", ["ann"])
        answer = await api.call("GET", f"/v1/runs/{run_id}/result")
        assert (answer.status_code, answer.json()["done"]) == (202, False)
        assert (await api.call("GET", f"/v1/runs/{run_id}/result?wait=0.05")).status_code == 202


async def test_a_server_that_ends_answers_those_who_wait_for_a_result(database_url):
    async with served(database_url) as api:
        run = await api.client.start("approval", "ann")
        await api.stage.until_waiting(run)
        api.app.state.holdfast.ending.set()
        async with asyncio.timeout(30):
            answer = await api.call("GET", f"/v1/runs/{run.id}/result?wait=60s")
        assert (answer.status_code, answer.json()["status"]) == (202, "waiting")


async def test_a_wait_that_is_too_long_is_refused(database_url):
    async with served(database_url) as api:
        run_id = await api.start("approval", ["ann"])
        answer = await api.call("GET", f"/v1/runs/{run_id}/result?wait=61s")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "wait")


async def test_a_failed_run_tells_its_error(database_url):
    async with served(database_url) as api:
        run_id = await api.ended("checkout", ["stolen"])
        answer = await api.call("GET", f"/v1/runs/{run_id}/result")
        assert (answer.status_code, answer.json()["status"], answer.json()["result"]) == (200, "failed", None)
        error = answer.json()["error"]
        assert (error["type"], error["message"]) == ("FatalError", "this card is stolen")


async def test_an_ended_run_is_deleted_and_a_live_one_is_not(database_url):
    async with served(database_url) as api:
        ended, live = await api.ended("checkout", ["4711"]), await api.start("approval", ["ann"])
        assert (await api.call("DELETE", f"/v1/workflows/checkout/runs/{ended}")).status_code == 204
        refused = await api.call("DELETE", f"/v1/runs/{live}")
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:holdfast:problem:run-not-ended")
        assert [run.id async for run in api.client.runs()] == [live]


async def listed(api: Served, query: str, path: str = "/v1/runs") -> list[str]:
    answer = await api.call("GET", f"{path}?{query}")
    assert answer.status_code == 200, answer.text
    return [run["id"] for run in answer.json()["runs"]]


async def test_pages_list_every_run_once_though_others_are_started_meanwhile(database_url):
    async with served(database_url) as api:
        there = [await api.start("checkout", [str(number)]) for number in range(5)]
        seen, cursor = [], ""
        while True:
            page = (await api.call("GET", f"/v1/workflows/checkout/runs?limit=2{cursor}")).json()
            seen += [run["id"] for run in page["runs"]]
            await api.start("checkout", ["new"])
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        assert seen == there[::-1]


async def test_runs_are_filtered_by_status_tag_key_and_workflow(database_url):
    async with served(database_url) as api:
        done = await api.ended("checkout", ["4711"], tags={"a": "x=y"}, key="k")
        failed = await api.ended("checkout", ["stolen"])
        live = await api.start("approval", ["ann"])
        assert await listed(api, "status=completed&status=failed") == [failed, done]
        assert await listed(api, "tag=a%3Dx%3Dy") == [done]
        assert await listed(api, "key=k") == [done]
        assert await listed(api, "workflow=approval") == [live]
        assert await listed(api, "status=failed", "/v1/workflows/checkout/runs") == [failed]


async def test_runs_are_filtered_by_what_they_were_given(database_url):
    async with served(database_url) as api:
        first = await api.ended("checkout", {"card": "a", "id": "1"})
        await api.ended("checkout", {"card": "b", "id": "1"})
        assert await listed(api, "input.card=a") == [first]
        # JSON if it is some: a number is no text.
        assert await listed(api, "input.id=1") == []
        assert await listed(api, 'input.card=a&input.id="1"') == [first]


async def test_runs_are_filtered_by_when_they_were_created(database_url):
    async with served(database_url) as api:
        early = await api.start("checkout", ["a"])
        api.stage.skip("1h")
        late = await api.start("checkout", ["b"])
        at = (await api.client.get_run(late)).record.created_at.isoformat().replace("+00:00", "Z")
        assert await listed(api, f"since={at}") == [late]
        assert await listed(api, f"until={at}") == [early]


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("cursor=nonsense", 400, "cursor"),
        ("cursor=", 400, "cursor"),
        ("limit=0", 422, "limit"),
        ("limit=many", 422, "limit"),
        ("status=done", 422, "status"),
        ("tag=a", 422, "tag"),
        ("tag=a%3D1&tag=a%3D2", 422, "tag"),
        ("since=yesterday", 422, "since"),
        ("since=2026-01-01T00:00:00", 422, "since"),
        ("since=0001-01-01T00:00:00%2B14:00", 422, "since"),
        ("stauts=failed", 422, "stauts"),
        ("input.=1", 422, "input."),
        ("input.a=1&input.a.b=2", 422, "input.a.b"),
        ("key=%00", 422, "key"),
        (r'input.text="\ud800"', 422, "input.text"),
        (r'input.text={"a":["\u0000"]}', 422, "input.text"),
        (r'input.text={"\udc00":1}', 422, "input.text"),
        (f"input.text={'[' * 600}{']' * 600}", 422, "input.text"),
    ],
)
async def test_an_invalid_filter_is_named(database_url, query, status, field):
    async with served(database_url) as api:
        answer = await api.call("GET", f"/v1/runs?{query}")
        assert answer.status_code == status
        assert "RunFilter" not in answer.text
        assert answer.json()["errors"][0]["field"].partition(".0")[0] == field


async def test_a_request_that_waits_hears_of_the_end(database_url):
    async with served(database_url) as api:
        run_id = await api.start("approval", ["ann"])
        waiting = asyncio.create_task(api.call("GET", f"/v1/runs/{run_id}/result?wait=20s"))
        await api.stage.until_waiting(await api.client.get_run(run_id))
        await api.client.signal(run_id, "answer", "yes")
        assert (await waiting).json()["result"] == "yes"


async def test_a_request_that_waits_for_a_run_that_has_continued_hears_of_the_end_of_its_chain(database_url):
    async with served(database_url, asking_again) as api:
        run = await api.client.start("asking_again", 1)
        await run.signal("answer", "maybe")
        while (await run.refresh()).status is not RunStatus.CONTINUED:
            await asyncio.sleep(0)
        waiting = asyncio.create_task(api.call("GET", f"/v1/runs/{run.id}/result?wait=60s"))
        assert run.record is not None
        await api.stage.until_waiting(await api.client.get_run(run.record.successor_id or ""))
        await run.signal("answer", "yes")
        answer = await waiting
        assert (answer.status_code, answer.json()["status"], answer.json()["result"]) == (200, "completed", "yes")


async def test_the_result_of_a_chain_that_has_ended_needs_no_place_among_those_who_wait(database_url):
    async with served(database_url, asking_again, streams=0) as api:
        run = await api.client.start("asking_again", 1)
        for answer in ("maybe", "yes"):
            await run.signal("answer", answer)
        await run.wait("60s")
        answer = await api.call("GET", f"/v1/runs/{run.id}/result?wait=60s")
        assert (answer.status_code, answer.json()["result"]) == (200, "yes")


async def test_workflows_are_listed_with_their_runs_by_status(database_url):
    async with served(database_url) as api:
        await api.ended("checkout", ["4711"])
        found = {one["name"]: one for one in (await api.call("GET", "/v1/workflows")).json()["workflows"]}
        assert found["checkout"]["counts"] == {RunStatus.COMPLETED: 1}
        assert found["approval"] == {"name": "approval", "versions": ["1"], "counts": {}}


async def test_workers_are_listed_with_what_they_know(database_url):
    async with served(database_url) as api:
        [worker] = (await api.call("GET", "/v1/workers")).json()["workers"]
        assert {"workflow": "checkout", "version": "1", "queue": "default"} in worker["lanes"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/runs?stauts=failed",
        "/v1/workflows/checkout/runs?stauts=failed",
        "/v1/runs/nobody?x=1",
        "/v1/runs/nobody/stream?naem=log",
        "/v1/workflows/checkout/runs/nobody/journal?=0",
        "/v1/live?x=1",
        "/v1/workers?x=1",
    ],
)
async def test_an_unknown_parameter_is_refused_by_its_name(database_url, path):
    async with served(database_url) as api:
        answer = await api.call("GET", path)
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:holdfast:problem:unknown-parameter")
        assert answer.json()["errors"][0]["field"] == path.partition("?")[2].partition("=")[0]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/runs?workflow=checkout&workflow=approval",
        "/v1/workflows/checkout/runs?key=a&key=a",
        "/v1/runs/nobody/result?wait=1s&wait=2s",
        "/v1/live?workflow=checkout&workflow=approval",
    ],
)
async def test_a_repeated_parameter_that_may_be_given_once_is_refused_by_its_name(database_url, path):
    """One of the two would be passed over in silence, and it might be the one that was meant."""
    async with served(database_url) as api:
        answer = await api.call("GET", path)
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:holdfast:problem:repeated-parameter")
        assert answer.json()["errors"][0]["field"] == path.partition("?")[2].partition("=")[0]


async def test_a_parameter_that_may_be_repeated_is_taken_as_often_as_it_is_given(database_url):
    async with served(database_url) as api:
        await api.ended("checkout", ["4711"], tags={"a": "1", "b": "2"})
        found = await api.call("GET", "/v1/runs?status=failed&status=completed&tag=a=1&tag=b=2")
        assert len(found.json()["runs"]) == 1


async def test_a_probe_of_health_may_say_what_it_likes(database_url):
    async with served(database_url) as api:
        assert (await api.call("GET", "/healthz?verbose")).status_code == 200


async def test_a_head_request_is_answered_as_a_get_without_its_body(database_url):
    async with served(database_url) as made, listening(made.app) as address:
        run_id = await made.ended("checkout", ["4711"])
        below = ("", "/result", "/steps", "/journal", "/explain", "/values", "/streams", "/values/none")
        paths = [f"/v1/runs/{run_id}{path}" for path in below]
        paths += ["/v1/runs", "/v1/runs?limit=x", "/v1/workflows", "/docs", "/v1/openapi.json", "/nothing"]
        async with httpx.AsyncClient(base_url=address, timeout=60, headers={"x-request-id": "same"}) as http:
            for path in paths:
                got, head = await http.get(path), await http.head(path)
                assert (head.status_code, head.content) == (got.status_code, b""), path
                assert head.headers.get("content-length") == got.headers.get("content-length"), path
                assert head.headers["content-type"] == got.headers["content-type"], path
        assert (await made.call("HEAD", "/v1/events/paid")).headers["allow"] == "POST"


async def test_the_head_of_a_stream_ends_at_once_and_gives_its_place_back(database_url):
    async with served(database_url) as made:
        run_id = await made.start("approval", ["ann"])
        for path in ("/v1/live", f"/v1/runs/{run_id}/stream"):
            answer = await made.call("HEAD", path)
            assert (answer.status_code, answer.content) == (200, b"")
            assert answer.headers["content-type"].startswith("text/event-stream")
        assert made.app.state.holdfast.slots.taken == 0
