"""The web examples serve a customer, a payment provider and a carrier, each in its framework, with a worker beside."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    # Newer versions ask for a successor of httpx, older ones don't know it; the test client is the same.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

ROOT = Path(__file__).parents[2]
WEB = ROOT / "examples" / "web"
Send = Callable[..., tuple[int, Any]]


def test_what_the_fastapi_program_needs_beside_holdfast_is_said_in_it_and_on_the_page():
    for text in ((WEB / "fastapi_app.py").read_text(), (ROOT / "docs" / "web_frameworks.md").read_text()):
        assert "fastapi uvicorn 'sqlalchemy[asyncio]' aiosqlite" in text


def environment(database: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    paths = os.pathsep.join([str(ROOT / "src"), str(WEB)])
    return {**own, "PYTHONPATH": paths, "SHOP_DATABASE": str(database), "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def process(database: Path, *words: str, until: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process that has said so when it is ready, and is told to end."""
    started = subprocess.Popen(
        [sys.executable, *words],
        cwd=database.parent,
        env=environment(database),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert started.stdout is not None
        assert until in started.stdout.readline()
        yield started
    finally:
        started.terminate()
        started.communicate(timeout=60)


def worker(database: Path) -> contextlib.AbstractContextManager[Any]:
    url = f"sqlite:///{database}"
    return process(database, "-m", "holdfast", "worker", "--url", url, str(WEB / "shop.py"), until="ready for checkout")


@contextlib.contextmanager
def loaded(name: str, database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An example's module, imported as its server would import it."""
    monkeypatch.setenv("SHOP_DATABASE", str(database))
    monkeypatch.syspath_prepend(str(WEB))
    for module in ("shop", name):
        monkeypatch.delitem(sys.modules, module, raising=False)
    try:
        yield importlib.import_module(name)
    finally:
        for module in ("shop", name):
            sys.modules.pop(module, None)


@contextlib.contextmanager
def fastapi(database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Send]:
    with loaded("fastapi_app", database, monkeypatch) as module, TestClient(module.app) as customer:

        def send(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            answer = customer.request(method, path, json=body)
            return answer.status_code, answer.json() if answer.content else None

        yield send


@contextlib.contextmanager
def flask(database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Send]:
    with loaded("flask_app", database, monkeypatch) as module, worker(database), module.app.test_client() as customer:

        def send(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            answer = customer.open(path, method=method, json=body)
            return answer.status_code, answer.get_json(silent=True)

        yield send
        module.client.close()


@contextlib.contextmanager
def django(database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Send]:
    script = str(Path(__file__).with_name("django_customer.py"))
    with process(database, "-W", "error", script, until="ready") as served, worker(database):

        def send(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            assert served.stdin is not None
            assert served.stdout is not None
            served.stdin.write(json.dumps({"method": method, "path": path, "body": body}) + "\n")
            served.stdin.flush()
            status, answer = json.loads(served.stdout.readline())
            return status, answer

        yield send


FRAMEWORKS = {"fastapi": fastapi, "flask": flask, "django": django}


@pytest.fixture(params=FRAMEWORKS)
def send(request, tmp_path, monkeypatch) -> Iterator[Send]:
    with FRAMEWORKS[request.param](tmp_path / "shop.db", monkeypatch) as send:
        yield send


def until(send: Send, order: str, name: str) -> dict[str, Any]:
    """The order, when the worker has come so far. The test's own time limit ends a wait in vain."""
    while True:
        status, shown = send("GET", f"/orders/{order}")
        assert status == 200, shown
        if shown[name] is not None and shown[name] != "waiting":
            return shown
        time.sleep(0.02)


def test_an_order_is_taken_paid_shipped_and_delivered(send):
    assert send("POST", "/orders", {"id": "o-1", "item": "tea"}) == (202, {"order": "/orders/o-1"})
    payment = until(send, "o-1", "pay at")["pay at"]

    refused, why = send("POST", payment, {"cents": "many"})
    assert refused == 422, why
    assert send("POST", payment, {"cents": 1200}) == (204, None)
    again, why = send("POST", payment, {"cents": 1200})
    assert (again, "resumed before" in why["detail"]) == (409, True)

    assert until(send, "o-1", "parcel")["parcel"] == "parcel of o-1, paid with 1200 cents"
    assert send("POST", "/orders/o-1/delivered") == (204, None)
    while send("GET", "/orders/o-1")[1]["status"] != "completed":
        time.sleep(0.02)


def test_an_order_that_there_is_is_refused_and_begins_no_second_run(send):
    send("POST", "/orders", {"id": "o-1", "item": "tea"})
    first = until(send, "o-1", "pay at")
    status, why = send("POST", "/orders", {"id": "o-1", "item": "cake"})
    assert (status, why) == (409, {"detail": "there is an order 'o-1'"})
    assert send("GET", "/orders/o-1")[1]["pay at"] == first["pay at"]


def test_what_there_is_not_is_not_found(send):
    assert (send("GET", "/orders/o-9")[0], send("POST", "/payments/guessed", {"cents": 1})[0]) == (404, 404)


def script(database: Path, *words: str) -> tuple[int, str]:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(WEB / "script.py"), *words],
        cwd=database.parent,
        env=environment(database),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return ran.returncode, (ran.stdout + ran.stderr).strip()


def test_a_plain_script_does_what_a_request_does(tmp_path):
    database = tmp_path / "shop.db"
    with worker(database):
        assert script(database, "order", "o-1") == (0, "started")
        assert script(database, "order", "o-1") == (0, "it was started before")
        while "/payments/" not in (shown := script(database, "show", "o-1")[1]):
            pass
        token = shown.rpartition("/")[2]
        assert script(database, "pay", token, "1200") == (0, "")
        assert script(database, "delivered", "o-1") == (0, "parcel of o-1, paid with 1200 cents, delivered")


def test_a_plain_script_says_in_a_line_what_is_wrong(tmp_path):
    code, said = script(tmp_path / "shop.db", "show", "o-9")
    assert (code, said.startswith("RunNotFound: "), said.count("\n")) == (1, True, 0)


def test_every_web_example_is_run_by_a_test():
    assert {path.stem for path in WEB.glob("*.py")} == {"shop", "script", *(f"{name}_app" for name in FRAMEWORKS)}
