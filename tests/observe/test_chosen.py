"""Observers that settings ask for, so that a worker needs no code to be watched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import DefinitionError
from holdfast.cli.servers import watching
from holdfast.observe import Prometheus, Tracing, observers_of
from holdfast.settings import resolve

ROOT = Path(__file__).parents[2]


def settings(tmp_path, **environ):
    return resolve(environ=environ, directory=tmp_path)


def test_nothing_is_observed_unless_asked_for(tmp_path):
    assert observers_of(settings(tmp_path), is_worker=True) == []


@pytest.mark.parametrize(
    ("said", "meant"),
    [("9464", ("127.0.0.1", 9464)), ("0.0.0.0:9464", ("0.0.0.0", 9464)), ("[::1]:9464", ("::1", 9464))],
)
def test_metrics_are_said_as_a_port_or_as_a_host_and_a_port(tmp_path, said, meant):
    assert settings(tmp_path, HOLDFAST_METRICS=said).metrics == meant


@pytest.mark.parametrize("said", ["on", "0", "70000", "host:", "a:b"])
def test_what_is_no_address_is_refused_by_the_name_of_its_variable(tmp_path, said):
    with pytest.raises(DefinitionError, match=r"HOLDFAST_METRICS.*9464"):
        settings(tmp_path, HOLDFAST_METRICS=said)


def test_a_file_may_say_it_too(tmp_path):
    (tmp_path / "holdfast.toml").write_text("metrics = 9464\ntracing = true\n")
    found = settings(tmp_path)
    assert (found.metrics, found.tracing) == (("127.0.0.1", 9464), True)


def test_tracing_is_for_workers_and_clients(tmp_path):
    found = settings(tmp_path, HOLDFAST_TRACING="1")
    for is_worker in (True, False):
        [one] = observers_of(found, is_worker=is_worker)
        assert isinstance(one, Tracing)


def test_a_port_is_for_workers(tmp_path):
    assert observers_of(settings(tmp_path, HOLDFAST_METRICS="9464"), is_worker=False) == []


WORKER = """
import asyncio, urllib.request, holdfast
@holdfast.workflow
async def body() -> int:
    return 1
async def main():
    async with holdfast.AsyncClient() as client:
        async with holdfast.Worker(client, workflows=[body]) as worker:
            await (await client.start(body)).result(timeout=60)
            metrics, tracing = worker.observers.all
            url = "http://%s:%d/metrics" % metrics.address
            page = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read().decode())
            print([line for line in page.splitlines() if line.startswith("holdfast_runs_completed_total")])
asyncio.run(main())
"""


def test_a_worker_is_watched_as_the_environment_says_also_beside_a_client_that_is(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", WORKER],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "HOLDFAST_METRICS": "29764",
            "HOLDFAST_TRACING": "on",
            "HOLDFAST_URL": f"sqlite:///{tmp_path / 'holdfast.db'}",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.stdout == '[\'holdfast_runs_completed_total{status="completed",workflow="body"} 1.0\']\n', ran.stderr


AGAIN = """
import holdfast
from holdfast.observe import Prometheus
{own}
@holdfast.workflow
async def body() -> int:
    return 1
for number in range(2):
    holdfast.run(body, key=str(number))
page = Prometheus.shared().render()[0].decode()
print([line for line in page.splitlines() if line.startswith("holdfast_runs_completed_total")])
"""


@pytest.mark.parametrize("own", ["", "metrics = Prometheus()"], ids=["of the settings", "of a module"])
def test_all_workers_that_the_settings_have_watched_are_counted_by_the_one_that_is_there(tmp_path, own):
    environ = {"HOLDFAST_METRICS": "29864", "HOLDFAST_URL": f"sqlite:///{tmp_path / 'holdfast.db'}"}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", AGAIN.format(own=own)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environ},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.stdout == '[\'holdfast_runs_completed_total{status="completed",workflow="body"} 2.0\']\n', ran.stderr


def test_a_server_s_numbers_are_with_those_of_a_module_that_it_has_loaded(tmp_path):
    mine = Prometheus()
    try:
        assert watching(settings(tmp_path)) == [mine]
    finally:
        mine.registry.unregister(mine)


UNWATCHED = """
import asyncio, logging, sys, holdfast
@holdfast.step
async def step() -> int:
    return 1
@holdfast.workflow
async def body() -> int:
    return await step()
async def main():
    async with holdfast.AsyncClient("sqlite:///:memory:") as client:
        async with holdfast.Worker(client, workflows=[body]) as worker:
            print(await (await client.start(body)).result(timeout=60), worker.observers)
asyncio.run(main())
print(sorted({name.partition(".")[0] for name in sys.modules} & {"opentelemetry", "prometheus_client"}))
print(logging.root.handlers)
"""


def test_a_run_that_nobody_watches_loads_nothing_for_it(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", UNWATCHED], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.stdout == "1 None\n[]\n[]\n", ran.stderr


WITHOUT = """
import sys
sys.modules["{package}"] = None
import holdfast, holdfast.observe
try:
    holdfast.observe.{observer}()
except holdfast.DefinitionError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("package", "observer", "extra"),
    [("prometheus_client", "Prometheus", "metrics"), ("opentelemetry.sdk", "Tracing", "otel")],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(package, observer, extra):
    script = WITHOUT.format(package=package, observer=observer)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"pip install 'holdfast[{extra}]'" in ran.stdout, ran.stderr


def test_the_settings_make_what_they_name(tmp_path):
    [one] = observers_of(settings(tmp_path, HOLDFAST_METRICS="9464"), is_worker=True)
    assert isinstance(one, Prometheus)
    one.registry.unregister(one)
