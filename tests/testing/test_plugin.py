"""The pytest plugin, as users get it: through its entry point."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.house.sources import ROOT, SOURCE

TESTS = """
from holdfast import step, workflow

@step
async def charge(cents: int) -> str:
    raise AssertionError

@workflow
async def checkout(cents: int) -> str:
    return await charge(cents)

def test_plain(holdfast_env):
    with holdfast_env(workflows=[checkout], stubs={charge: "paid"}) as env:
        assert env.client.start(checkout, 1).result() == "paid"

def test_async(holdfast_env):
    import asyncio

    async def main():
        async with holdfast_env(workflows=[checkout], stubs={charge: "paid"}) as env:
            return await (await env.client.start(checkout, 1)).result()

    assert asyncio.run(main()) == "paid"
"""


WITHOUT = """
import sys

def test_nothing():
    assert sorted(name for name in sys.modules if name.partition(".")[0] == "holdfast") == []
    assert "pytest_holdfast" in sys.modules
"""


def pytest_on(tests: str, folder: Path) -> str:
    """What pytest prints about these tests, in a session of its own."""
    (folder / "test_users.py").write_text(tests)
    # By module and not by entry point: the package need not be installed for this test.
    options = ["-q", "-W", "error", "-p", "no:holdfast", "-p", "pytest_holdfast", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(folder)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ran.stdout


def test_the_fixture_makes_environments(tmp_path):
    assert "2 passed" in pytest_on(TESTS, tmp_path)


def test_a_session_that_does_not_use_it_does_not_import_the_package(tmp_path):
    assert "1 passed" in pytest_on(WITHOUT, tmp_path)


def test_the_entry_point_names_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"holdfast": "pytest_holdfast"}


def test_the_test_kit_does_without_pytest():
    code = "import sys, holdfast.testing; sys.exit('pytest' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SOURCE)}, check=False)
    assert ran.returncode == 0
