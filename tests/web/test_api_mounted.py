"""The API as a part of something else: mounted, served, and without FastAPI."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import anyio
import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from holdfast import AsyncClient, DefinitionError
from holdfast.web import AuditRecord, api, execute_app, new_key
from tests.web.stage import HEADERS, KEY, listening, reached, served


async def test_the_api_may_be_mounted_anywhere_and_ids_may_hold_slashes(database_url):
    async with served(database_url) as made:
        mine = FastAPI()
        mine.mount("/internal/holdfast", made.app)
        await made.client.start("checkout", "4711", id="a/b")
        async with reached(mine) as http:
            answer = await http.get("/internal/holdfast/v1/runs/a%2Fb")
            assert (answer.status_code, answer.json()["id"]) == (200, "a/b")
            assert (await http.get("/internal/holdfast/healthz")).status_code == 200
            wrong = await http.put("/internal/holdfast/v1/workflows/a/runs")
            assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, POST")


async def test_a_mounted_api_is_guarded_as_one_that_stands_alone(database_url):
    async with served(database_url, keys=[KEY]) as made:
        mine = FastAPI()
        mine.mount("/h", made.app)
        async with reached(mine) as http:
            got = [(await http.get(path)).status_code for path in ("/h/v1/runs", "/h/healthz", "/h/docs")]
            assert got == [401, 200, 401]
            assert (await http.get("/h/v1/runs", headers=HEADERS)).status_code == 200


async def test_a_parameter_in_the_mount_path_is_not_taken_for_one_of_the_api(database_url):
    records: list[AuditRecord] = []
    async with served(database_url, audit=records.append) as made:
        mine = FastAPI()
        mine.mount("/of/{workflow}/in/{run_id}", made.app)
        await made.client.start("checkout", "4711", id="a")
        async with reached(mine) as http:
            assert (await http.get("/of/shop/in/berlin/v1/runs/a")).status_code == 200
            await http.post("/of/shop/in/berlin/v1/events/paid")
    assert (records[-1].workflow, records[-1].run_id, records[-1].name) == (None, None, "paid")


@pytest.mark.parametrize("root", ["/", "/h", "/api"])
async def test_health_needs_no_key_behind_a_proxy_that_strips_the_prefix(database_url, root):
    async with served(database_url, keys=[KEY]) as made:
        transport = httpx.ASGITransport(made.app, root_path=root, client=("127.0.0.1", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            got = [(await http.get(path)).status_code for path in ("/healthz", "/v1/runs")]
            assert got == [200, 401]


async def test_an_api_made_with_a_url_opens_and_closes_its_own_client(database_url):
    app = api(database_url)
    async with listening(app) as address, httpx.AsyncClient(timeout=60) as http:
        assert (await http.get(f"{address}/v1/runs")).json() == {"runs": [], "next": None}
    with pytest.raises(Exception, match="closed"):
        await app.state.holdfast.client.workers()


async def test_an_api_that_was_served_and_is_no_longer_referenced_is_freed(database_url):
    async with served(database_url) as made:
        for path in ("/docs", "/v1/runs"):
            assert (await made.http.get(path)).status_code == 200
        kept = weakref.ref(made.app)
    del made
    gc.collect()
    assert kept() is None


async def test_an_api_leaves_a_given_client_open(database_url):
    async with AsyncClient(database_url) as client:
        async with listening(api(client)):
            pass
        assert await client.workers() == []


async def test_the_openapi_description_is_served_to_keys_that_may_read(database_url):
    async with served(database_url) as made:
        assert (await made.call("GET", "/docs")).status_code == 200
        described = (await made.call("GET", "/v1/openapi.json")).json()
        assert "securitySchemes" not in described["components"]
    secured = api("sqlite:///:memory:", keys=[new_key("a")[1]]).openapi()
    assert secured["security"] == [{"key": []}]
    assert secured["paths"]["/healthz"]["get"]["security"] == []


def test_no_parameter_of_the_openapi_description_may_be_null():
    paths = api("sqlite:///:memory:").openapi()["paths"]
    parameters = [
        one for path in paths.values() for operation in path.values() for one in operation.get("parameters", ())
    ]
    assert {one["in"] for one in parameters} == {"path", "query", "header"}
    assert not [one["name"] for one in parameters if "null" in str(one["schema"])]


def test_every_operation_has_a_name_of_its_own_a_summary_and_a_tag():
    paths = api("sqlite:///:memory:").openapi()["paths"]
    operations = [operation for path in paths.values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert all(operation["summary"] and operation["tags"] for operation in operations)


def test_every_operation_below_v1_declares_what_the_edge_may_answer():
    paths = api("sqlite:///:memory:").openapi()["paths"]
    for path, operations in paths.items():
        for operation in operations.values():
            if path.startswith("/v1"):
                assert {"401", "403", "413", "422", "429", "503"} <= set(operation["responses"]), path


@pytest.mark.parametrize(
    "options",
    [
        {"max_body": 0},
        {"max_body": "1"},
        {"streams": -1},
        {"keys": str(KEY)},
        {"cors": "https://a.example"},
        {"cors": ["https://a.example/"]},
        {"allow_remote": "false"},
        {"open_hooks": "no"},
        {"keys": [b"ci:read"]},
    ],
)
def test_an_invalid_option_of_the_api_is_refused_when_it_is_made(options):
    with pytest.raises(DefinitionError):
        api("sqlite:///:memory:", **options)


def test_without_fastapi_the_error_names_the_extra_and_the_rest_works():
    program = (
        "import sys; sys.modules['fastapi'] = None\n"
        "import holdfast, holdfast.web\n"
        "assert holdfast.web.execute_app\n"
        "try: holdfast.web.api()\n"
        "except holdfast.DefinitionError as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'holdfast[web]'" in ran.stdout


def test_importing_the_room_imports_no_framework():
    program = "import sys, holdfast.web; print([n for n in ('fastapi', 'starlette', 'pydantic') if n in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
    assert execute_app


async def test_a_stream_that_a_middleware_around_it_cuts_off_gives_its_place_back(database_url):
    """As anyio cancels, which Starlette's middleware goes by: on every turn of the loop, also what cleans up."""

    async def cut_off(scope: Scope, receive: Receive, send: Send) -> None:
        with anyio.CancelScope() as cut:

            async def heard(message: Message) -> None:
                await send(message)
                if message.get("body"):
                    cut.cancel()

            await made.app(scope, receive, heard)
        await send({"type": "http.response.body", "body": b""})

    async with served(database_url, streams=1) as made, reached(cut_off) as http:
        assert [(await http.get("/v1/live")).status_code for _ in range(2)] == [200, 200]


async def test_a_stream_ends_whole_when_its_server_is_about_to_end(database_url):
    async def about_to_end(scope: Scope, receive: Receive, send: Send) -> None:
        async def heard(message: Message) -> None:
            await send(message)
            if message.get("body"):
                made.app.state.holdfast.ending.set()

        await made.app(scope, receive, heard)

    async with served(database_url) as made, reached(about_to_end) as http:
        assert (await http.get("/v1/live")).text.startswith("event: ready")
