"""Whatever a caller sends, it gets an answer with a reason, and never a 500."""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.web.stage import HEADERS, Server

MANY = settings(max_examples=int(os.environ.get("EXAMPLES", "60")), suppress_health_check=list(HealthCheck))
# What a URL can hold: everything but a lone surrogate, which has no UTF-8.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["", "..", ".", "/", "%", "%2F", "a/b", "\0", "x" * 3000, "‮", "'; drop table runs; --", "checkout", "waiting"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(10**400) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=15,
)
# Cursors that could be some: of the right shape, and pointing anywhere.
PLACES = st.one_of(*(st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5) for _ in range(2)))
CURSORS = st.lists(PLACES, max_size=3).map(lambda place: urlsafe_b64encode(msgspec.msgpack.encode(place)).decode())
PATHS = st.sampled_from(
    [
        ("GET", "/v1/runs/{0}"),
        ("GET", "/v1/runs/{0}/journal?cursor={1}"),
        ("GET", "/v1/runs/{0}/result?wait={1}"),
        ("GET", "/v1/runs/{0}/values/{1}"),
        ("GET", "/v1/runs/{0}/steps"),
        ("GET", "/v1/runs/waiting/values/{1}"),
        ("GET", "/v1/runs/waiting/values?cursor={1}&limit={0}"),
        ("GET", "/v1/runs/completed/streams?cursor={1}"),
        ("GET", "/v1/runs/completed/stream?name={1}&name={0}"),
        ("GET", "/v1/runs/completed/journal?cursor={1}&limit={0}"),
        ("POST", "/v1/runs/completed/retry"),
        ("POST", "/v1/runs/failed/fork"),
        ("POST", "/v1/workflows/{0}/runs/{1}/cancel"),
        ("GET", "/v1/runs?cursor={1}&limit={0}"),
        ("GET", "/v1/runs?cursor={1}"),
        ("GET", "/v1/runs?since={1}"),
        ("GET", "/v1/runs?tag={1}&key={0}"),
        ("GET", "/v1/runs?input.{0}={1}"),
        ("GET", "/v1/runs?{0}={1}"),
        ("GET", "/v1/workflows/{0}/runs?parent={1}"),
        ("GET", "/v1/workflows/{0}/runs/{1}"),
        ("POST", "/v1/workflows/{0}/runs"),
        ("POST", "/v1/runs/{0}/signals/{1}"),
        ("POST", "/v1/runs/waiting/signals/{1}"),
        ("POST", "/v1/runs/{0}/cancel"),
        ("POST", "/v1/runs/{0}/fork"),
        ("POST", "/v1/events/{0}"),
        ("POST", "/v1/hooks/{0}"),
        ("DELETE", "/v1/workflows/{0}/runs/{1}x"),
        ("GET", "/{0}"),
        ("POST", "/v1/{0}/{1}"),
    ]
)
STARTS = st.fixed_dictionaries(
    {},
    optional={
        "input": JSON,
        **dict.fromkeys(("version", "key", "id", "on_conflict", "queue", "tags", "priority"), JSON | TEXTS),
        **dict.fromkeys(("delay", "deadline", "retention"), JSON | st.sampled_from(["9" * 30 + "w", "1h", 1e300])),
    },
)  # fmt: skip


@pytest.fixture(scope="module")
def caller(server: Server):
    # A result may be waited for as long as a minute.
    with httpx.Client(base_url=server.address, headers=HEADERS, timeout=90) as made:
        yield made


def check(answer: httpx.Response) -> None:
    """It was taken, or refused with a reason."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["detail"]
        assert problem["status"] == answer.status_code
        assert problem["request_id"] == answer.headers["x-request-id"]
        assert len(answer.text) < 20_000


def body(value: Any) -> bytes:
    # With its surrogates and infinities: what a sloppy client would send.
    return json.dumps(value).encode("utf-8", "surrogatepass")


@MANY
@given(PATHS, TEXTS, TEXTS, JSON)
def test_no_name_payload_or_cursor_breaks_the_api(caller, operation, first, second, payload):
    method, path = operation
    url = path.format(quote(first, safe=""), quote(second, safe=""))
    content = {"content": body(payload), "headers": {"content-type": "application/json"}} if method == "POST" else {}
    check(caller.request(method, url, **content))


@MANY
@given(CURSORS)
def test_no_position_in_a_cursor_breaks_the_api(caller, cursor):
    check(caller.get("/v1/runs", params={"cursor": cursor}))
    check(caller.get("/v1/workflows/checkout/runs", params={"cursor": cursor, "tag": "a=b"}))


@MANY
@given(STARTS)
def test_no_start_breaks_the_api(caller, start):
    headers = {"content-type": "application/json"}
    check(caller.post("/v1/workflows/checkout/runs", content=body(start), headers=headers))


@MANY
@given(st.binary(max_size=200), st.sampled_from(["application/json", "text/plain", "application/x+json", "", "json"]))
def test_no_bytes_break_the_api(caller, content, kind):
    check(caller.post("/v1/events/e", content=content, headers={"content-type": kind} if kind else {}))


@MANY
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=100).map(str.strip))
def test_no_header_breaks_the_api(caller, text):
    headers = {"idempotency-key": text, "x-request-id": text, "last-event-id": text, **HEADERS}
    check(caller.post("/v1/events/e", headers=headers))
    check(caller.get("/v1/runs/completed/stream?name=log", headers=headers))


@MANY
@given(st.binary(max_size=30))
def test_no_raw_path_breaks_the_api(caller, raw):
    quoted = "".join(f"%{byte:02x}" for byte in raw)
    check(caller.get(f"/v1/runs/{quoted}"))
    check(caller.get(f"/v1/runs?key={quoted}"))
