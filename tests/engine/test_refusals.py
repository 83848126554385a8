"""A body does no I/O: its loop refuses sockets, threads and processes, and can't be talked out of it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import signal
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import AsyncClient, Client, IOInBody, NotInBody, NotInRun, resource, run, workflow
from holdfast.define import Workflow
from tests.engine.drive import note
from tests.engine.samples import double, triple


@workflow
async def open_connection() -> None:
    await asyncio.open_connection("localhost", 1)


@workflow
async def start_server() -> None:
    await asyncio.start_server(print, "localhost", 0)


@workflow
async def get_addr_info() -> None:
    await asyncio.get_running_loop().getaddrinfo("localhost", 1)


@workflow
async def to_thread() -> None:
    await asyncio.to_thread(print, "x")


@workflow
async def in_the_default_executor() -> None:
    await asyncio.get_running_loop().run_in_executor(None, print, "x")


@workflow
async def in_an_executor() -> None:
    with ThreadPoolExecutor(1) as pool:
        await asyncio.get_running_loop().run_in_executor(pool, print, "x")


@workflow
async def in_a_pool_that_takes_its_time() -> None:
    await asyncio.wrap_future(Future())


@workflow
async def subprocess_exec() -> None:
    await asyncio.create_subprocess_exec("true")


@workflow
async def subprocess_shell() -> None:
    await asyncio.create_subprocess_shell("true")


@workflow
async def sock_recv() -> None:
    one, two = socket.socketpair()
    try:
        await asyncio.get_running_loop().sock_recv(one, 1)
    finally:
        one.close()
        two.close()


@workflow
async def add_reader() -> None:
    asyncio.get_running_loop().add_reader(0, print)


@workflow
async def add_signal_handler() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)


@workflow
async def datagrams() -> None:
    await asyncio.get_running_loop().create_datagram_endpoint(asyncio.DatagramProtocol, ("localhost", 0))


@workflow
async def swallowed() -> str:
    try:
        await asyncio.to_thread(print, "x")
    except BaseException:
        return "swallowed"
    return "done"


@workflow
async def swallowed_and_gone_on() -> int:
    try:
        await asyncio.to_thread(print, "x")
    except BaseException:
        return await double(1)
    return 0


@workflow
async def swallowed_by_gather() -> list[Any]:
    return [repr(one) for one in await asyncio.gather(asyncio.to_thread(print, "x"), return_exceptions=True)]


REFUSED = [
    open_connection, start_server, get_addr_info, to_thread, in_the_default_executor, in_an_executor,
    in_a_pool_that_takes_its_time, subprocess_exec, subprocess_shell, sock_recv, add_reader, add_signal_handler,
    datagrams,
]  # fmt: skip


@pytest.mark.parametrize("body", REFUSED, ids=lambda one: one.name)
def test_io_in_a_body_is_refused_with_advice(begin, body: Workflow[..., Any]):
    with pytest.raises(IOInBody, match="move this into a step"):
        begin(body)


@pytest.mark.parametrize("body", [swallowed, swallowed_and_gone_on, swallowed_by_gather], ids=lambda one: one.name)
def test_the_refusal_can_not_be_caught(begin, body: Workflow[..., Any]):
    with pytest.raises(IOInBody, match="move this into a step"):
        begin(body)


def installed(name: str, source: str) -> dict[str, Any]:
    """What a module holds that pip has put where it puts all of them."""
    module = {"__name__": name, "asyncio": asyncio}
    exec(compile(source, f"/usr/lib/python3/site-packages/{name}.py", "exec"), module)
    return module


library = installed("library", "async def get():\n    await asyncio.to_thread(print)")


def test_the_refusal_names_the_line_that_led_to_a_library(begin):
    async def ask() -> None:
        await library["get"]()

    @workflow
    async def body() -> None:
        await ask()

    line = rf"test_refusals.py:{ask.__code__.co_firstlineno + 1} in ask"
    with pytest.raises(IOInBody, match=rf"loop.run_in_executor\(\) was called at {line}, in a workflow body"):
        begin(body)


def test_the_refusal_names_the_line_that_waits_for_a_task_of_a_library(begin):
    tasks = installed("tasks", "async def begin(get):\n    await asyncio.create_task(get())")

    async def ask() -> None:
        await tasks["begin"](library["get"])

    @workflow
    async def body() -> None:
        await ask()

    line = rf"test_refusals.py:{ask.__code__.co_firstlineno + 1} in ask"
    with pytest.raises(IOInBody, match=rf"loop.run_in_executor\(\) was called at {line}, in a workflow body"):
        begin(body)


def test_the_refusal_names_the_line_of_a_body_that_is_in_an_installed_package(begin):
    shop = installed("shop", "async def sell(get):\n    await get()\n\nasync def body() -> None:\n    await sell(get)")
    shop["get"] = library["get"]
    with pytest.raises(IOInBody, match=r"was called at shop.py:5 in body, in a workflow body"):
        begin(workflow(shop["body"]))


def test_io_after_a_step_leaves_the_run_intact_and_fixed_code_goes_on(begin):
    @workflow(name="body")
    async def broken() -> int:
        n = await double(1)
        await asyncio.to_thread(print, n)
        return n

    @workflow(name="body")
    async def fixed() -> int:
        n = await double(1)
        return await double(n)

    drive = begin(broken)
    entry = drive.completed("double")
    with pytest.raises(IOInBody):
        drive.take(entry)
    drive.workflow = fixed
    drive.execution = drive.replay()
    drive.take(entry)
    assert drive.finish().check().result == 4


def test_a_callback_from_another_thread_is_refused(begin):
    """Nothing from another thread may move a body."""

    @workflow
    async def body() -> int:
        loop = asyncio.get_running_loop()

        def intrude() -> None:
            with contextlib.suppress(BaseException):
                loop.call_soon_threadsafe(print)

        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
        return await double(1)

    with pytest.raises(IOInBody):
        begin(body)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_blocks_in_another_thread_is_refused(begin, is_async):
    def intrude() -> None:
        def call() -> None:
            with contextlib.suppress(BaseException):
                triple(1)

        thread = threading.Thread(target=contextvars.copy_context().run, args=(call,))
        thread.start()
        thread.join()

    @workflow
    async def coroutine() -> int:
        intrude()
        return await double(1)

    @workflow
    def function() -> int:
        intrude()
        return triple(2)

    with pytest.raises(IOInBody, match=r"in another thread.*move this into a step"):
        begin(coroutine if is_async else function)


def test_a_thread_that_tries_to_wake_a_body_is_refused_with_the_reason(begin):
    loops = []

    @workflow
    async def body() -> None:
        loops.append(asyncio.get_running_loop())
        await asyncio.gather(asyncio.Future(), double(1))

    drive = begin(body)
    with pytest.raises(NotInBody, match="move this into a step"):
        loops[0].call_soon_threadsafe(print)
    with pytest.raises(IOInBody, match="move this into a step"):
        drive.complete("double")


@workflow
async def client_start() -> None:
    await AsyncClient("sqlite:///:memory:").start(client_start)


@workflow
async def client_runs() -> None:
    AsyncClient("sqlite:///:memory:").runs()


@workflow
def blocking_client() -> None:
    Client("sqlite:///:memory:").start(blocking_client)


@workflow
def script() -> None:
    run(script)


@workflow
async def client_in_a_task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(AsyncClient("sqlite:///:memory:").start(client_start))


def test_a_client_in_a_task_group_blocks_the_run(begin):
    with pytest.raises(IOInBody, match="step"):
        begin(client_in_a_task_group)


@pytest.mark.parametrize("body", [client_start, client_runs, blocking_client, script], ids=lambda one: one.name)
def test_a_client_in_a_body_raises_and_names_the_durable_way(begin, body: Workflow[..., Any]):
    try:
        drive = begin(body)
    except IOInBody as refused:
        text = str(refused)
    else:
        assert isinstance(drive.error, IOInBody)
        text = str(drive.error)
    assert "step" in text


@resource
def pool():
    yield 1


def test_a_resource_in_a_body_raises(begin):
    @workflow
    async def body() -> None:
        pool()

    assert isinstance(begin(body).error, NotInBody)


def test_a_resource_outside_a_run_raises():
    with pytest.raises(NotInRun, match="pool"):
        pool()


def test_a_workflow_called_outside_a_run_says_how_to_start_one():
    with pytest.raises(NotInRun, match=r"client\.start"):
        to_thread()


def test_a_step_called_outside_a_run_is_the_plain_function():
    assert asyncio.run(double(4)) == 8


def test_a_future_that_a_body_waits_for_can_t_be_resolved_from_outside(begin):
    events = []

    @workflow
    async def body() -> None:
        event = asyncio.Event()
        events.append(event)
        await asyncio.gather(event.wait(), double(1))
        note("woken by nobody that the journal knows")

    drive = begin(body)
    with pytest.raises(NotInBody, match="others can send the run a signal"):
        events[0].set()
    assert begin(body, runners=drive.runners).notes == []
    with pytest.raises(IOInBody, match="others can send the run a signal"):
        drive.complete("double")
    assert drive.notes == []


def test_setting_an_event_of_a_body_that_was_put_away_wakes_nothing(begin):
    events = []

    @workflow
    async def body() -> None:
        event = asyncio.Event()
        events.append(event)
        await event.wait()

    drive = begin(body)
    drive.execution.put_away()
    events[0].set()
    assert not drive.runners.ready
