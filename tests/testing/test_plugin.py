"""The pytest plugin, as users get it: through its entry point."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib

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


def test_the_fixture_makes_environments(tmp_path):
    (tmp_path / "test_users.py").write_text(TESTS)
    # By module and not by entry point: the package need not be installed for this test.
    options = ["-q", "-W", "error", "-p", "no:holdfast", "-p", "holdfast.testing.plugin", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_the_entry_point_names_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"holdfast": "holdfast.testing.plugin"}


def test_the_test_kit_does_without_pytest():
    code = "import sys, holdfast.testing; sys.exit('pytest' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SOURCE)}, check=False)
    assert ran.returncode == 0
