"""The watcher: when it asks whether others have written, and when it is still."""

import asyncio
import os
import time

import pytest

from holdfast.store.sqlite import watcher as watchers
from holdfast.store.sqlite.watcher import Watcher
from holdfast.testing.contract.stage import until

PAUSE = 0.2


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """After a write the watcher looks for a tenth of a second: after 20, 40 and 80 milliseconds."""
    monkeypatch.setattr(watchers, "_LONGEST", 100_000_000)


def watched(tmp_path, act):
    """Run `act(file, looks)` beside a watcher that has settled; `looks` grows each time it asks."""
    file = tmp_path / "log"
    file.write_bytes(b"x")
    os.utime(file, ns=(1, 1))
    looks = []

    async def main():
        watcher = Watcher(str(file), lambda: looks.append(1))
        unsubscribe = watcher.subscribe(lambda: None)
        assert await until(lambda: len(looks) == 3)
        looks.clear()
        await act(file, looks)
        unsubscribe()

    asyncio.run(main())


def test_a_file_that_nobody_writes_to_is_not_looked_at(tmp_path):
    async def act(file, looks):
        await asyncio.sleep(3 * PAUSE)
        assert looks == []

    watched(tmp_path, act)


def test_a_write_is_looked_at_at_once_and_ever_less_often_until_its_commit_must_be_there(tmp_path):
    async def act(file, looks):
        now = time.time_ns()
        os.utime(file, ns=(now, now))
        assert await until(lambda: len(looks) == 4)
        await asyncio.sleep(PAUSE)
        assert len(looks) == 4

    watched(tmp_path, act)


def test_a_file_that_disappears_and_comes_back_is_looked_at(tmp_path):
    async def act(file, looks):
        file.unlink()
        assert await until(lambda: bool(looks))
        await asyncio.sleep(PAUSE)
        looks.clear()
        file.write_bytes(b"yy")
        assert await until(lambda: bool(looks))

    watched(tmp_path, act)


def test_a_subscriber_that_has_not_heard_yet_is_told_once():
    told = []

    async def act():
        watcher = Watcher(None, lambda: None)
        unsubscribe = watcher.subscribe(lambda: told.append(1))
        for _ in range(5):
            watcher.signal()
        await asyncio.sleep(0.01)
        assert len(told) == 1
        watcher.signal()
        await asyncio.sleep(0.01)
        assert len(told) == 2
        unsubscribe()

    asyncio.run(act())


def test_a_subscriber_whose_loop_was_closed_disturbs_no_other():
    watcher = Watcher(None, lambda: None)
    told = []

    async def forget():
        watcher.subscribe(lambda: told.append("gone"))

    async def stay():
        unsubscribe = watcher.subscribe(lambda: told.append("here"))
        watcher.signal()
        assert await until(lambda: bool(told))
        unsubscribe()

    asyncio.run(forget())
    asyncio.run(stay())
    watcher.signal()
    assert told == ["here"]
