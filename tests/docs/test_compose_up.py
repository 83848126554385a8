"""What compose.yaml would start, started here: its commands with its environment, in its order, on a real Postgres.

Only the database's address, the port and the keys are another's. Images and networks are Docker's own affair.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from holdfast.web import new_key
from tests.docs.pages import ROOT
from tests.servers.account import free_port

DOCKER = ROOT / "deploy" / "docker"
SERVICES = yaml.safe_load((DOCKER / "compose.yaml").read_text("utf-8"))["services"]


class Project:
    """Services of the file, as processes."""

    def __init__(self, url: str, kept: str) -> None:
        self._here = {"HOLDFAST_URL": url, "HOLDFAST_API_KEYS": kept}

    def start(self, name: str) -> subprocess.Popen[str]:
        service = SERVICES[name]
        said = {**service["environment"], **{k: v for k, v in self._here.items() if k in service["environment"]}}
        own = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        words = [word.replace("0.0.0.0:8400", f"127.0.0.1:{free_port()}") for word in service["command"]]
        assert words[0] == "holdfast"
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=DOCKER,
            env={**own, **said, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[str]:
        """Run a service and give the line by which it says that it is ready; told to stop, it ends in good order."""
        process = self.start(name)
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()
            process.communicate(timeout=90)
        assert process.returncode == 0


def ask(url: str, *, key: str | None = None, body: Any = None) -> tuple[int, Any]:
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_no_service_starts_before_the_migration_has_ended(postgres):
    worker = Project(postgres.create_database(), "").start("worker")
    worker.communicate(timeout=90)
    assert worker.returncode != 0


def test_a_run_is_started_over_the_web_and_executed_by_the_workers(postgres):
    key, kept = new_key("compose", "operate", payloads=True)
    project = Project(postgres.create_database(), str(kept))
    migration = project.start("migrate")
    migration.communicate(timeout=90)
    assert migration.returncode == 0

    with project.running("worker") as workers, project.running("web") as web:
        assert "2 worker processes are ready for checkout" in workers
        address = web.split()[2]
        assert ask(f"{address}/readyz")[0] == 200
        runs = f"{address}/v1/workflows/checkout/runs"
        assert ask(runs, body={"input": ["4242", 1200]})[0] == 401
        status, run = ask(runs, key=key, body={"input": ["4242", 1200], "key": "order-1"})
        assert status == 201
        status, ended = ask(f"{address}/v1/runs/{run['id']}/result?wait=60s", key=key)
        assert (status, ended["result"]) == (200, "1200 cents from 4242")


@pytest.mark.parametrize("name", ["migrate", "worker", "web"])
def test_a_service_says_where_its_database_is(name):
    assert SERVICES[name]["environment"]["HOLDFAST_URL"].startswith("postgresql://")
