"""How often a caller may ask, how large and how deep a body may be, and how many streams may be open at once."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest

import holdfast
from holdfast import DefinitionError, workflow
from holdfast.web import AuditRecord, api, new_key
from holdfast.web.limits import Buckets, Slots, is_too_deep
from tests.web.stage import WORKFLOWS, Clock, reached, served

SELDOM = 0.001
"""One request at once, and no other however slow the machine is: real time fills the buckets of a server."""

TOO_LARGE = "x" * (4 * 1024 * 1024 + 10)


@workflow
async def told_by_a_hook() -> str:
    hook = holdfast.hook(name="told", type=str)
    holdfast.set_value("token", hook.token)
    return await hook.wait()


def test_a_bucket_gives_twice_its_rate_at_once_and_then_its_rate():
    clock = Clock()
    buckets = Buckets(10, clock=clock)
    assert [buckets.take("a") for _ in range(20)] == [0.0] * 20
    assert buckets.take("a") == pytest.approx(0.1)
    clock.now += 0.1
    assert buckets.take("a") == 0.0
    assert buckets.take("a") > 0


def test_each_caller_has_a_bucket_of_its_own():
    buckets = Buckets(0.5, clock=Clock())
    assert [buckets.take(caller) > 0 for caller in "aabb"] == [False, True, False, True]


def test_a_refused_request_takes_no_token():
    clock = Clock()
    buckets = Buckets(1, clock=clock)
    for _ in range(50):
        buckets.take("a")
    clock.now += 1
    assert buckets.take("a") == 0.0


def test_buckets_are_kept_for_the_callers_seen_last_only():
    buckets = Buckets(1, most=10, clock=Clock())
    for number in range(1000):
        buckets.take(str(number))
    assert len(buckets) == 10


@pytest.mark.parametrize("rate", [0, -1, True, "fast", float("nan")])
def test_an_invalid_rate_is_refused_when_the_api_is_made(rate):
    with pytest.raises(DefinitionError, match="rate="):
        api("sqlite:///:memory:", rate=rate)


async def test_a_caller_over_its_rate_is_told_when_to_retry(database_url):
    async with served(database_url, rate=SELDOM) as made:
        assert (await made.call("GET", "/v1/runs")).status_code == 200
        answer = await made.call("GET", "/v1/runs")
        assert answer.status_code == 429
        assert 900 < int(answer.headers["retry-after"]) <= 1000
        assert (await made.call("GET", "/healthz")).status_code == 200
        async with reached(made.app, address="127.0.0.2") as http:
            assert (await http.get("/v1/runs")).status_code == 200


@pytest.mark.parametrize(("wait", "told"), [(0.001, "1"), (1.0, "1"), (1.5, "2"), (2.5, "3")])
async def test_a_caller_that_retries_at_the_time_it_was_told_is_served(monkeypatch, wait, told):
    monkeypatch.setattr(Buckets, "take", lambda *_: wait)
    async with reached(api("sqlite:///:memory:", rate=1)) as http:
        assert (await http.get("/v1/runs")).headers["retry-after"] == told


async def test_requests_over_the_rate_do_not_fill_the_audit_log(database_url):
    records: list[AuditRecord] = []
    async with served(database_url, rate=SELDOM, audit=records.append) as made:
        got = [(await made.call("POST", "/v1/events/paid")).status_code for _ in range(3)]
    assert (got, [one.status for one in records]) == ([202, 429, 429], [202])


async def test_a_key_is_one_caller_wherever_it_is_used(database_url):
    secrets = [new_key("a", "admin"), new_key("b", "admin")]
    async with served(database_url, rate=SELDOM, keys=[key for _, key in secrets]) as made:
        got = []
        for (secret, _), address in ((secrets[0], "1.1.1.1"), (secrets[0], "2.2.2.2"), (secrets[1], "1.1.1.1")):
            async with reached(made.app, address=address, Authorization=f"Bearer {secret}") as http:
                got.append((await http.get("/v1/runs")).status_code)
        assert got == [200, 429, 200]


async def test_requests_with_wrong_keys_are_limited_too(database_url):
    async with served(database_url, rate=SELDOM, keys=[new_key("a")[1]]) as made:
        got = [(await made.call("GET", "/v1/runs")).status_code for _ in range(2)]
        assert got == [401, 429]


async def test_refused_requests_from_other_hosts_are_limited_and_do_not_fill_the_audit_log(database_url):
    records: list[AuditRecord] = []
    limits = {"rate": SELDOM, "audit": records.append}
    async with served(database_url, **limits) as made, reached(made.app, address="10.0.0.1") as http:
        got = [(await http.post("/v1/events/paid")).status_code for _ in range(3)]
    assert (got, [one.status for one in records]) == ([403, 429, 429], [403])


async def test_what_a_web_page_sends_to_this_host_uses_up_nothing_of_its_user_s_rate(database_url):
    async with served(database_url, rate=SELDOM) as made:
        page = {"origin": "https://evil.example"}
        got = [(await made.call("POST", "/v1/events/paid", headers=page)).status_code for _ in range(2)]
        assert got == [403, 429]
        assert (await made.call("GET", "/v1/runs")).status_code == 200


async def test_refused_requests_of_a_key_without_the_right_count_against_its_rate(database_url):
    secret, key = new_key("a", "read")
    async with served(database_url, rate=SELDOM, keys=[key]) as made:
        async with reached(made.app, Authorization=f"Bearer {secret}") as http:
            got = [(await http.delete("/v1/runs/x")).status_code for _ in range(2)]
        assert got == [403, 429]


async def test_a_body_that_is_too_large_is_refused_by_its_length(database_url):
    async with served(database_url, max_body=100) as made:
        answer = await made.call("POST", "/v1/events/e", "x" * 200)
        assert (answer.status_code, answer.json()["errors"][0]["place"]) == (413, "body")
        assert (await made.call("POST", "/v1/events/e", "x" * 50)).status_code == 202


async def test_a_length_alone_is_enough_to_refuse_a_body(database_url):
    async with served(database_url, max_body=100) as made:
        answer = await made.call("POST", "/v1/events/e", "x", headers={"content-length": "9" * 19})
        assert answer.status_code == 413


@pytest.mark.parametrize("length", ["9" * 5_000, "-1", "many", "1e3", "0x10", "+5", ""])
async def test_an_invalid_content_length_is_not_relied_on(database_url, length):
    async with served(database_url, max_body=100) as made:
        got = [
            (await made.call("POST", "/v1/events/e", body, headers={"content-length": length})).status_code
            for body in ("x" * 200, "x" * 50)
        ]
    assert got == [413, 202]


async def test_a_body_that_comes_in_pieces_is_counted_as_it_comes(database_url):
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 100
            yield b"x" * 100

    async with served(database_url, max_body=1000) as made:
        headers = {"content-type": "application/json"}
        answer = await made.http.post("/v1/events/e", content=endless(), headers=headers)
        assert answer.status_code == 413
        assert sent <= 1200


async def test_a_body_that_was_cut_off_changes_nothing(database_url):
    async with served(database_url) as made:
        run = await made.client.start("approval", "ann")
        await made.stage.until_waiting(run)
        coming = iter([{"type": "http.request", "body": b"", "more_body": True}, {"type": "http.disconnect"}])
        sent = []

        async def receive() -> Any:
            return next(coming)

        async def send(message: Any) -> None:
            sent.append(message.get("status"))

        scope = {"type": "http", "method": "POST", "headers": [], "query_string": b"", "client": ("127.0.0.1", 1)}
        await made.app({**scope, "path": f"/v1/runs/{run.id}/cancel"}, receive, send)
        assert sent[0] == 400
        assert [entry.kind for entry in await made.client.journal(run.id)][-1] != "cancel"
        assert (await run.refresh()).status == "waiting"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("workflows/checkout/runs", {"input": [TOO_LARGE]}, "input"),
        ("runs/done/fork", {"input": [TOO_LARGE]}, "input"),
        ("runs/done/fork", {"at": "charge", "result": TOO_LARGE}, "result"),
        ("runs/waiting/signals/answer", TOO_LARGE, "payload"),
        ("events/paid", TOO_LARGE, "payload"),
        ("hooks/{token}", TOO_LARGE, "payload"),
    ],
    ids=["start", "fork", "fork with a result", "signal", "event", "hook"],
)
async def test_a_value_that_is_too_large_for_the_database_is_413_and_named(database_url, path, body, field):
    async with served(database_url, *WORKFLOWS, told_by_a_hook) as made:
        await made.client.start("approval", "ann", id="waiting")
        await (await made.client.start("checkout", "a", id="done")).result("60s")
        run = await made.client.start("told_by_a_hook")
        await made.stage.until_waiting(run)
        answer = await made.call("POST", f"/v1/{path.format(token=await run.value('token'))}", body)
        assert (answer.status_code, answer.json()["type"]) == (413, "urn:holdfast:problem:payload-too-large")
        assert [(one["place"], one["field"]) for one in answer.json()["errors"]] == [("body", field)]
        assert len(answer.text) < 2000


@pytest.mark.parametrize(
    ("body", "is_deep"),
    [
        (b"[" * 4 + b"]" * 4, True),
        (b"[" * 3 + b"]" * 3, False),
        (b'{"a":[{"b":1}]}', False),
        (b'"[[[[[["', False),
        (rb'"\"[[[[[["', False),
        (rb'["\\",[[[]]]]', True),
        (b"[[],[],[],[]]", False),
        (b'"[[[[', False),
    ],
)
def test_depth_is_counted_outside_of_texts(body, is_deep):
    assert is_too_deep(body, 3) is is_deep


def test_an_unclosed_string_is_scanned_once():
    # From each of the quotes in it, looking for its end took hours.
    assert not is_too_deep(b"[" + b"[]," * 65 + b'"' + rb"\"" * 1_000_000)


async def test_a_body_that_is_too_deep_or_invalid_json_is_400(database_url):
    async with served(database_url) as made:
        headers = {"content-type": "application/json"}
        for content in (b"[" * 100 + b"]" * 100, b"{", b"nope", b"NaN", b'"\xff"', b'"\\ud800"'):
            answer = await made.http.post("/v1/events/e", content=content, headers=headers)
            assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, "body"), content


@pytest.mark.parametrize("content", [b'["\\ud800"]', b'{"\\udc00": 1}', b'"\\ud800x"'])
async def test_a_truncated_character_in_a_body_is_reported_as_such(database_url, content):
    async with served(database_url) as made:
        answer = await made.http.post("/v1/events/e", content=content, headers={"content-type": "application/json"})
        assert (answer.status_code, "half a character" in answer.json()["detail"]) == (400, True)


async def test_a_compressed_body_is_reported_as_compressed_and_not_as_bad_json(database_url):
    async with served(database_url) as made:
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        answer = await made.http.post("/v1/events/e", content=gzip.compress(b"{}"), headers=headers)
        assert answer.status_code == 415
        assert answer.json()["errors"][0]["field"] == "content-encoding"
        headers["content-encoding"] = "identity"
        assert (await made.http.post("/v1/events/e", content=b"{}", headers=headers)).status_code == 202


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
async def test_a_body_that_is_not_said_to_be_json_is_415(database_url, kind):
    async with served(database_url) as made:
        headers = {} if kind is None else {"content-type": kind}
        answer = await made.http.post("/v1/events/e", content=b"{}", headers=headers)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (415, "content-type")


def test_places_for_open_streams_are_given_back():
    slots = Slots(1)
    assert (slots.take(), slots.take()) == (True, False)
    slots.give()
    assert slots.take()


async def test_a_stream_or_waiting_request_is_refused_when_all_places_are_taken(database_url):
    async with served(database_url, streams=0) as made:
        run = await made.client.start("approval", "ann")
        for path in (f"/v1/runs/{run.id}/stream", "/v1/live", f"/v1/runs/{run.id}/result?wait=1s"):
            answer = await made.call("GET", path)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert (await made.call("GET", f"/v1/runs/{run.id}/result")).status_code == 202
