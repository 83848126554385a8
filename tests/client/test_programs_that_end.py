"""A program that ends without closing its blocking client ends in silence; one that is interrupted waits no more."""

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


INTERRUPTED = """
import asyncio, os, signal, threading
from holdfast.client.portal import Portal

over = threading.Event()

async def wait():
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        await asyncio.Event().wait()
    finally:
        over.set()

# What is begun in the background by a shell ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    Portal().call(wait())
except KeyboardInterrupt:
    print("called off" if over.wait(10) else "goes on")
"""


def test_a_call_interrupted_by_ctrl_c_is_cancelled():
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("called off\n", "")
