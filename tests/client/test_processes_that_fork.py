"""A process that forks while its threads use SQLite: the child finds nothing of theirs, and the parent goes on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

HEAD = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")  # newer versions of Python warn of a fork beside threads, which is what this is about
from holdfast.client import Client
from tests.client.hands import total
"""


def script(text: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HEAD + text, *args], capture_output=True, text=True, timeout=120, check=False
    )


BESIDE_WRITERS = """
client = Client(sys.argv[1])
is_over = False

def write():
    while not is_over:
        client.start(total, 1)

threads = [threading.Thread(target=write) for _ in range(4)]
for thread in threads:
    thread.start()
children = []
for _ in range(12):
    time.sleep(0.02)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        (client if sys.argv[2] == "inherited" else Client(sys.argv[1])).start(total, 2)
        os._exit(0)
    children.append(child)
is_over = True
for thread in threads:
    thread.join()
print({os.waitpid(child, 0)[1] for child in children})
"""


@pytest.mark.parametrize("whose", ["inherited", "fresh"])
def test_a_child_does_not_wait_for_a_lock_that_a_thread_of_its_parent_had(database_url, whose):
    ran = script(BESIDE_WRITERS, database_url, whose)
    assert (ran.stdout, ran.returncode) == ("{0}\n", 0), ran.stderr


PARENT_LEAVES = """
client = Client(sys.argv[1])
client.start(total, 1)
(told, tell), (left, leave) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    own = Client(sys.argv[1])
    own.start(total, 2)
    os.write(tell, b"x")
    os.read(left, 1)
    own.start(total, 3)
    os._exit(0)
os.read(told, 1)
client.close()
os.write(leave, b"x")
assert os.waitpid(child, 0)[1] == 0
print(len(list(Client(sys.argv[1]).runs())))
"""


def test_what_a_child_commits_is_kept_when_its_parent_closes_the_file(database_url):
    ran = script(PARENT_LEAVES, database_url)
    assert (ran.stdout, ran.returncode) == ("3\n", 0), ran.stderr


IN_MEMORY = """
client = Client("sqlite:///:memory:")
client.start(total, 1)
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
print(len(list(client.runs())))
"""


def test_a_database_in_memory_stays_with_the_parent():
    ran = script(IN_MEMORY)
    assert (ran.stdout, ran.returncode) == ("1\n", 0), ran.stderr


FROM_WITHIN = """
import asyncio
from holdfast.client import AsyncClient
from holdfast.store.sqlite import SqliteStore, uses

def clock():
    if threading.current_thread().name == "holdfast-sqlite-writer" and not took:
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        took.append(time.monotonic() - began)
    return time.time_ns() // 1_000

async def main():
    store = SqliteStore(sys.argv[1], sys.argv[1], "default", clock=clock)
    await store.open()
    async with AsyncClient(store) as client:
        run = await client.start(total, 1)
        print((await run.refresh()).status)
    await store.close()

took = []
uses._PATIENCE = 60.0  # not so near to what a machine that stands still may take
asyncio.run(main())
print(took[0] < 30)
"""


def test_a_fork_by_the_thread_that_writes_does_not_wait_for_itself(tmp_path):
    ran = script(FROM_WITHIN, str(tmp_path / "holdfast.db"))
    assert (ran.stdout, ran.returncode) == ("pending\nTrue\n", 0), ran.stderr
