"""I/O in a body is refused in tests, and in nothing but a body."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time

import pytest

import holdfast
from holdfast import IOInBody, RunStatus, step, workflow
from holdfast.testing import Environment

DEEDS = {
    "open": lambda: open(__file__).close(),
    "os.open": lambda: os.close(os.open(__file__, os.O_RDONLY)),
    "socket": lambda: socket.socket().close(),
    "resolving a name": lambda: socket.getaddrinfo("127.0.0.1", 80),
    "subprocess": lambda: subprocess.run([sys.executable, "--version"], check=True, capture_output=True),
    "os.system": lambda: os.system("true"),
    "a thread": lambda: threading.Thread(target=int).start(),
    "time.sleep": lambda: time.sleep(0),
}
each_deed = pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)


@step
def work(n: int) -> int:
    return n


async def status_of(body) -> RunStatus:
    async with Environment([body]) as env:
        return await (await env.client.start(body)).wait()


@each_deed
async def test_io_in_an_async_body_blocks_the_run(deed):
    @workflow
    async def body() -> None:
        deed()

    with pytest.raises(IOInBody, match=r"at test_guards.py:\d+ in .*move this into a step"):
        await status_of(body)


async def test_io_of_a_library_is_told_by_the_line_that_led_to_it():
    library = compile("open('page')", "/usr/lib/python3/site-packages/library.py", "exec")

    @workflow
    async def body() -> None:
        exec(library)

    with pytest.raises(IOInBody, match=r"open\('page'\) was called at test_guards.py:\d+ in body, inside"):
        await status_of(body)


@each_deed
async def test_io_in_a_def_body_blocks_the_run(deed):
    @workflow
    def body() -> int:
        work(1)
        deed()
        return work(2)

    with pytest.raises(IOInBody):
        await status_of(body)


async def test_a_replacement_of_time_sleep_is_restored(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    mine = time.sleep

    @workflow
    async def body() -> None: ...

    async with Environment([body]) as env:
        await (await env.client.start(body)).wait()
        time.sleep(5)
    assert slept == [5]
    assert time.sleep == mine


async def test_the_refusal_never_enters_the_body():
    caught = []

    @workflow
    async def body() -> str:
        try:
            open(__file__).close()
        except Exception as error:
            caught.append(error)
        return "went on"

    with pytest.raises(IOInBody):
        await status_of(body)
    assert caught == []


async def test_a_body_that_catches_every_exception_cannot_get_around_the_refusal_of_io():
    @workflow
    async def body() -> int:
        try:
            open(__file__).close()
        except BaseException:
            pass
        return work(1)

    async with Environment([body]) as env:
        with pytest.raises(IOInBody):
            await (await env.client.start(body)).result()
        assert env.calls(work) == []


@each_deed
async def test_steps_may_do_io(deed):
    @step
    def in_thread() -> None:
        deed()

    @step
    async def on_loop() -> None:
        deed()

    @workflow
    async def body() -> None:
        in_thread()
        await on_loop()

    assert await status_of(body) is RunStatus.COMPLETED


@each_deed
async def test_the_test_itself_may_do_io(deed):
    @workflow
    async def body() -> None:
        work(1)

    async with Environment([body]) as env:
        deed()
        assert await (await env.client.start(body)).wait() is RunStatus.COMPLETED
        deed()
    deed()


async def test_imports_in_a_body_are_allowed(tmp_path, monkeypatch):
    (tmp_path / "imported_by_a_body.py").write_text("import this_one_too\nVALUE = this_one_too.VALUE\n")
    (tmp_path / "this_one_too.py").write_text("VALUE = 42\n")
    monkeypatch.syspath_prepend(tmp_path)

    @workflow
    async def body() -> int:
        import imported_by_a_body

        return imported_by_a_body.VALUE

    async with Environment([body]) as env:
        assert await (await env.client.start(body)).result() == 42


async def test_logs_time_zones_and_tracebacks_are_allowed(tmp_path):
    import logging
    import traceback
    import zoneinfo

    handler = logging.FileHandler(tmp_path / "log", delay=True)
    holdfast.logger.addHandler(handler)

    @workflow
    async def body() -> str:
        # Not from the cache: it is the reading of the zone's file that is allowed.
        holdfast.logger.error("at %s", holdfast.now().astimezone(zoneinfo.ZoneInfo.no_cache("Europe/Berlin")))
        try:
            raise ValueError
        except ValueError:
            return traceback.format_exc()

    try:
        async with Environment([body]) as env:
            assert "raise ValueError" in await (await env.client.start(body)).result()
    finally:
        holdfast.logger.removeHandler(handler)
        handler.close()
    assert "at 20" in (tmp_path / "log").read_text()


async def test_a_run_that_only_does_io_when_it_is_replayed_is_found_too():
    seen = []

    @workflow
    async def body() -> None:
        seen.append(1)
        if len(seen) > 1:
            open(__file__).close()
        work(1)
        work(2)

    with pytest.raises(IOInBody):
        await status_of(body)
