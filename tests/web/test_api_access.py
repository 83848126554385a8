"""Who may call: keys and their rights, callers on this host, and what those without a right learn, which is nothing."""

from __future__ import annotations

import hashlib

import httpx
import pytest

import holdfast
from holdfast import DefinitionError, workflow
from holdfast.web import ApiKey, AuditRecord, api, new_key
from tests.web.stage import Served, bearer, listening, reached, served

READ, READ_KEY = new_key("reader")
OPERATE, OPERATE_KEY = new_key("operator", "operate")
ADMIN, ADMIN_KEY = new_key("admin", "admin", payloads=True)
KEYS = [READ_KEY, OPERATE_KEY, str(ADMIN_KEY)]


@workflow
async def forgetful() -> None:
    holdfast.sleep("1s")


def test_a_key_is_kept_as_its_hash():
    secret, key = new_key("ci", "operate", payloads=True)
    assert secret.startswith("hf_ci_")
    assert key.digest == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in str(key)
    assert secret.removeprefix("hf_ci_") not in repr(key)


def test_two_keys_are_never_alike():
    assert new_key("ci")[0] != new_key("ci")[0]
    assert len(new_key("ci")[0]) > 40


@pytest.mark.parametrize("right", ["read", "operate", "admin"])
@pytest.mark.parametrize("payloads", [False, True])
def test_a_key_is_written_and_read_as_a_line(right, payloads):
    _, key = new_key("ci-2", right, payloads=payloads)
    assert ApiKey.parse(str(key)) == key


@pytest.mark.parametrize(
    "line", ["", "ci", "ci:read", "ci:root:" + "0" * 64, "ci:read+all:" + "0" * 64, "a_b:read:" + "0" * 64, "ci:read:0"]
)
def test_an_invalid_line_of_a_key_file_is_refused(line):
    with pytest.raises(DefinitionError):
        ApiKey.parse(line)


@pytest.mark.parametrize(
    "line",
    ["{key}", "{key}:read:{hash}", "ci:{key}:{hash}", "ci:read+{key}:{hash}", "{key}:read+all:{hash}", "ci:read:{key}"],
)
def test_a_key_in_the_wrong_place_is_refused_and_not_repeated(line):
    with pytest.raises(DefinitionError) as refused:
        ApiKey.parse(line.format(key=READ, hash="0" * 64))
    assert READ not in str(refused.value)


def test_a_key_that_can_t_be_read_is_named_by_its_id():
    with pytest.raises(DefinitionError, match="the API key 'ci': expected one of the rights read, operate, admin"):
        ApiKey.parse("ci:root:" + "0" * 64)


def test_two_keys_of_one_id_are_refused():
    with pytest.raises(DefinitionError, match="same id"):
        api("sqlite:///:memory:", keys=[READ_KEY, READ_KEY])


@pytest.mark.parametrize(
    ("secret", "expected"),
    [(READ, (200, 403, 403)), (OPERATE, (200, 202, 403)), (ADMIN, (200, 202, 404))],
    ids=["read", "operate", "admin"],
)
async def test_a_right_includes_those_before_it(database_url, secret, expected):
    async with served(database_url, keys=KEYS) as made:
        got = [
            (await made.call(method, path, headers=bearer(secret))).status_code
            for method, path in (("GET", "/v1/runs"), ("POST", "/v1/events/e"), ("DELETE", "/v1/runs/none"))
        ]
        assert tuple(got) == expected


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {READ}"},
        {"Authorization": READ},
        bearer(READ[:-1]),
        bearer(READ + "x"),
        bearer(READ.replace("hf_", "")),
        bearer(READ.replace("reader", "admin")),
        bearer("hf_nobody_" + "x" * 43),
        bearer(READ_KEY.digest),
        bearer(str(READ_KEY)),
    ],
    ids=range(11),
)
async def test_every_path_answers_the_same_401_without_a_valid_key(database_url, headers):
    async with served(database_url, keys=KEYS) as made:
        run = await made.client.start("checkout", "4711")
        texts = set()
        for method, path in (
            ("GET", f"/v1/runs/{run.id}"),
            ("GET", "/v1/runs/nobody"),
            ("GET", "/v1/nothing"),
            ("GET", "/v1/runs?cursor=nonsense"),
            ("DELETE", f"/v1/runs/{run.id}"),
            ("POST", "/v1/workflows/checkout/runs"),
            ("POST", "/v1/hooks/token"),
            ("PATCH", "/v1/runs"),
            ("OPTIONS", f"/v1/runs/{run.id}"),
            ("GET", f"/v1/runs/{run.id}/stream"),
            ("GET", f"/v1/runs/{run.id}/values"),
            ("GET", "/v1/runs/nobody/stream"),
            ("GET", "/healthz/../v1/runs"),
            ("GET", "/openapi.json"),
            ("GET", "/v1/openapi.json"),
            ("GET", "/docs"),
            ("GET", "/metrics"),
            ("GET", "/v1/live"),
            ("GET", "/"),
        ):
            answer = await made.call(method, path, headers={**headers, "x-request-id": "same"})
            texts.add((answer.status_code, answer.text, answer.headers["www-authenticate"]))
        assert len(texts) == 1
        assert texts.pop()[0] == 401


async def test_a_refusal_for_a_missing_right_tells_nothing_about_runs(database_url):
    async with served(database_url, keys=KEYS) as made:
        run = await made.client.start("checkout", "4711")
        answers = [
            await made.call("DELETE", f"/v1/runs/{one}", headers={**bearer(READ), "x-request-id": "same"})
            for one in (run.id, "nobody")
        ]
        assert answers[0].status_code == 403
        assert answers[0].text == answers[1].text


async def test_a_head_request_without_a_key_tells_nothing(database_url):
    async with served(database_url, keys=KEYS) as made, listening(made.app) as address:
        run = await made.client.start("checkout", "4711")
        async with httpx.AsyncClient(base_url=address, timeout=60) as http:
            told = set()
            for path in (f"/v1/runs/{run.id}", "/v1/runs/nobody", "/v1/nothing", "/docs", "/v1/live", "/metrics"):
                answer = await http.head(path, headers={"x-request-id": "same"})
                headers = {name: text for name, text in answer.headers.items() if name != "date"}
                told.add((answer.status_code, answer.content, tuple(sorted(headers.items()))))
        assert [one[:2] for one in told] == [(401, b"")]


async def test_health_needs_no_key_and_tells_nothing(database_url):
    async with served(database_url, keys=KEYS) as made:
        for path in ("/healthz", "/readyz"):
            answer = await made.call("GET", path)
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
            assert (await made.call("HEAD", path)).status_code == 200


async def test_readiness_does_not_name_the_database():
    async with reached(api("postgresql://someone:secret@127.0.0.1:1/none", keys=KEYS)) as http:
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "127.0.0.1" not in answer.text
        assert "someone" not in answer.text


def everything(made: Served, *run_ids: str) -> list[str]:
    below = ("", "/result", "/journal", "/steps", "/explain", "/stream?name=log")
    paths = [f"/v1/runs/{run_id}{path}" for run_id in run_ids for path in below]
    return ["/v1/runs", "/v1/workflows", *paths]


async def test_payloads_are_hidden_from_a_key_without_the_right(database_url):
    async with served(database_url, keys=KEYS) as made:
        done = await made.client.start("checkout", "4711-secret")
        failed = await made.client.start("checkout", "stolen")
        said = await made.client.start("approval", "ann-secret")
        await said.signal("answer", "yes-secret")
        for run in (done, failed, said):
            await run.wait("60s")
        hidden = [
            await made.call("GET", path, headers=bearer(READ)) for path in everything(made, done.id, failed.id, said.id)
        ]
        shown = [
            await made.call("GET", path, headers=bearer(ADMIN))
            for path in everything(made, done.id, failed.id, said.id)
        ]
        assert {answer.status_code for answer in (*hidden, *shown)} == {200}
        told = "".join(answer.text for answer in hidden)
        # No digits: ids and times may hold any of them.
        for secret in ("-secret", "this card is stolen"):
            assert secret not in told
            assert secret in "".join(answer.text for answer in shown)
        run = (await made.call("GET", f"/v1/runs/{failed.id}", headers=bearer(READ))).json()
        assert (run["hidden"], run["error"], run["input_size"]) == (
            True,
            {"type": "FatalError", "message": None, "traceback": None},
            10,
        )


async def test_no_answer_may_be_cached(database_url):
    async with served(database_url) as made:
        run_id = await made.ended("checkout", ["4711"])
        for path in ("/v1/runs", f"/v1/runs/{run_id}", f"/v1/runs/{run_id}/stream", "/v1/runs/none", "/docs", "/none"):
            answer = await made.call("GET", path)
            assert (path, answer.headers["cache-control"]) == (path, "no-store")
            assert answer.headers["x-content-type-options"] == "nosniff"


async def test_values_are_hidden_from_a_key_without_the_right_to_payloads(database_url):
    async with served(database_url, keys=KEYS) as made:
        run = await made.client.start("approval", "ann")
        await made.stage.until_waiting(run)
        path = f"/v1/runs/{run.id}/values/asked"
        assert (await made.call("GET", path, headers=bearer(READ))).json()["value"] is None
        assert (await made.call("GET", path, headers=bearer(ADMIN))).json()["value"] == "ann"


async def test_the_reason_of_a_cancel_is_hidden_from_a_key_without_the_right_to_payloads(database_url):
    async with served(database_url, keys=KEYS) as made:
        run = await made.client.start("approval", "ann")
        await made.stage.until_waiting(run)
        await run.cancel(reason="ann is ill")
        await run.wait("60s")
        for secret, is_told in ((READ, False), (ADMIN, True)):
            for path in (f"/v1/runs/{run.id}/journal", f"/v1/runs/{run.id}/result"):
                answer = await made.call("GET", path, headers=bearer(secret))
                assert (answer.status_code, "ann is ill" in answer.text) == (200, is_told)


async def test_the_reason_of_a_blocked_run_is_hidden_from_a_key_without_the_right_to_payloads(database_url):
    async with served(database_url, forgetful, keys=KEYS) as made:
        run = await made.client.start("forgetful")
        await made.stage.until_blocked(run)
        for secret, is_told in ((READ, False), (ADMIN, True)):
            found = (await made.call("GET", f"/v1/runs/{run.id}", headers=bearer(secret))).json()
            assert (found["is_blocked"], found["blocked"] is not None) == (True, is_told)


async def test_a_key_that_sees_no_payloads_can_not_guess_them(database_url):
    async with served(database_url, keys=KEYS) as made:
        answer = await made.call("GET", "/v1/runs?input.card=4711", headers=bearer(OPERATE))
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (403, "input.card")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
async def test_requests_from_this_host_are_served_without_keys(database_url, address):
    async with served(database_url) as made, reached(made.app, address=address) as http:
        assert (await http.get("/v1/runs")).status_code == 200


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.2", "8.8.8.8", "2001:db8::1", "testclient", ""])
async def test_requests_from_other_hosts_are_refused_without_keys(database_url, address):
    async with served(database_url) as made, reached(made.app, address=address) as http:
        for path in ("/v1/runs", "/docs", "/v1/openapi.json", "/v1/none"):
            answer = await http.get(path)
            assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:problem:not-local")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", "evil.example"),
        ("host", "localhost.evil.example:8000"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("x-forwarded-for", "8.8.8.8"),
        ("forwarded", "for=8.8.8.8"),
        ("via", "1.1 proxy.example"),
        ("x-forwarded-host", "shop.example"),
        ("x-forwarded-proto", "https"),
        ("x-original-forwarded-for", "8.8.8.8"),
        ("x-envoy-external-address", "8.8.8.8"),
        ("x-client-ip", "8.8.8.8"),
        ("x-cluster-client-ip", "8.8.8.8"),
        ("cf-connecting-ip", "8.8.8.8"),
        ("cf-connecting-ipv6", "2001:db8::1"),
        ("true-client-ip", "8.8.8.8"),
        ("fastly-client-ip", "8.8.8.8"),
    ],
)
async def test_requests_through_a_proxy_or_from_a_web_page_do_not_count_as_this_host(database_url, name, value):
    async with served(database_url) as made:
        answer = await made.call("POST", "/v1/events/e", headers={name: value})
        assert answer.status_code == 403


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000", "[::1]:8000", "localhost", "LocalHost:8000"])
async def test_this_host_is_served_under_each_of_its_names(database_url, host):
    async with served(database_url) as made:
        headers = {"host": host, "origin": f"http://{host}"}
        assert (await made.call("GET", "/v1/runs", headers=headers)).status_code == 200


async def test_everybody_is_served_if_access_is_guarded_elsewhere(database_url):
    async with served(database_url, allow_remote=True) as made, reached(made.app, address="8.8.8.8") as http:
        assert (await http.get("/v1/runs", headers={"x-forwarded-for": "1.1.1.1"})).status_code == 200


async def test_a_caller_with_a_key_may_be_on_any_host(database_url):
    async with served(database_url, keys=KEYS) as made, reached(made.app, address="8.8.8.8") as http:
        assert (await http.get("/v1/runs", headers=bearer(READ))).status_code == 200


@pytest.mark.parametrize("keys", [(), KEYS])
async def test_a_hook_s_token_is_enough_where_hooks_are_open(database_url, keys):
    async with (
        served(database_url, keys=keys, open_hooks=True) as made,
        reached(made.app, address="8.8.8.8", host="pay.example") as http,
    ):
        run = await made.client.start("hooked")
        await made.stage.until_waiting(run)
        token = await run.value("token")
        assert (await http.post(f"/v1/hooks/{token}", json=42)).status_code == 202
        assert await run.result("60s") == "paid 42"
        assert (await http.post("/v1/events/e")).status_code in (401, 403)
        assert (await http.get(f"/v1/hooks/{token}")).status_code in (401, 403)


async def test_a_key_that_may_only_read_takes_nothing_away_from_an_open_hook_s_token(database_url):
    told: list[AuditRecord] = []
    async with served(database_url, keys=KEYS, open_hooks=True, audit=told.append) as made:
        run = await made.client.start("hooked")
        await made.stage.until_waiting(run)
        token = await run.value("token")
        assert (await made.call("POST", f"/v1/hooks/{token}", 42, headers=bearer(READ))).status_code == 202
        assert await run.result("60s") == "paid 42"
        assert (await made.call("POST", "/v1/events/e", headers=bearer(READ))).status_code == 403
    assert [(one.who, one.what, one.outcome) for one in told] == [
        ("reader", "resume_hook", "done"),
        ("reader", "publish_event", "refused"),
    ]


async def test_no_page_of_another_origin_may_read_an_answer(database_url):
    async with served(database_url, keys=KEYS) as made:
        headers = {"origin": "https://app.example", **bearer(READ)}
        assert "access-control-allow-origin" not in (await made.call("GET", "/v1/runs", headers=headers)).headers
        asked = {"origin": "https://app.example", "access-control-request-method": "GET"}
        assert (await made.call("OPTIONS", "/v1/runs", headers=asked)).status_code == 401


async def test_pages_of_the_named_origins_may_read_answers(database_url):
    async with served(database_url, keys=KEYS, cors=["https://app.example"]) as made:
        asked = {"origin": "https://app.example", "access-control-request-method": "DELETE"}
        asked["access-control-request-headers"] = "authorization,content-type,idempotency-key,traceparent,tracestate"
        assert (await made.call("OPTIONS", "/v1/runs/a", headers=asked)).status_code == 200
        for origin, is_told in (("https://app.example", True), ("https://evil.example", False)):
            answer = await made.call("GET", "/v1/runs", headers={"origin": origin, **bearer(READ)})
            assert ("access-control-allow-origin" in answer.headers) is is_told
            # What a page may read of an answer's head.
            assert answer.headers["access-control-expose-headers"] == "X-Request-Id, Retry-After"


async def test_a_star_lets_pages_of_all_origins_read_answers(database_url):
    async with served(database_url, cors=["*"]) as made:
        answer = await made.call("GET", "/v1/runs", headers={"origin": "https://app.example.com"})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")
