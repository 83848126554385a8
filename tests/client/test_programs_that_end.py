"""A program that ends without closing its blocking client ends in silence."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servers import Databases

PROGRAM = """
import sys
from holdfast import Client, workflow

@workflow
async def greet() -> str:
    return "hello"

client = Client(sys.argv[1])
client.start(greet)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, database_url: str, postgres: Databases) -> str:
    return database_url if request.param == "sqlite" else postgres.create_database()


def test_a_program_that_leaves_its_client_open_ends_in_silence(url):
    ended = subprocess.run([sys.executable, "-c", PROGRAM, url], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
