"""Values whose own code fails while they are encoded, as of an object whose session is closed: each is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

import holdfast
from holdfast import IOInBody, NotEncodable, StepFailed, step, workflow
from tests.worker.oddities import Masked, Sealed
from tests.worker.stage import ONCE, PATIENCE, failure_of, stage


class Panic(BaseException):
    """As extension modules raise it, that are written in Rust."""


@dataclass
class Row:
    """A value that can no longer be read."""

    error: Any

    def __getattribute__(self, name: str) -> Any:
        if name == "error":
            raise super().__getattribute__("__dict__")["error"]
        return super().__getattribute__(name)


class Lazy(Enum):
    """Can be written, but not be named in a refusal of what stands under it."""

    KEY = 1

    def __repr__(self) -> str:
        raise RuntimeError("the session is closed")


def closed() -> Row:
    return Row(RuntimeError("the session is closed"))


@step
async def take(row: Row) -> None:
    pass


@step
def untake(row: Row) -> None:
    pass


@workflow
async def child(row: Row) -> None:
    pass


@pytest.mark.parametrize("error", [RuntimeError("closed"), Panic("closed")], ids=["exception", "panic"])
async def test_an_unreadable_result_of_a_workflow_fails_its_run_and_the_worker_goes_on(database_url, error):
    @workflow
    async def body() -> Row:
        return Row(error)

    @workflow
    async def other() -> int:
        return 1

    async with stage(database_url, body, other) as on:
        run = await on.client.start(body)
        refused = await failure_of(run)
        assert "blocked" not in await on.kinds(run)
        assert await (await on.client.start(other)).result(PATIENCE) == 1
    assert type(refused) is NotEncodable
    kind = type(error).__name__
    assert f"result can't be stored: {kind}: closed; return plain data, read while its source is open" in str(refused)
    assert any("this is the result of the workflow 'body'" in note for note in refused.__notes__)


SENT: dict[str, Callable[[], Any]] = {
    "a step's argument": lambda: take(closed()),
    "a step's argument, begun only": lambda: take.start(closed()),
    "a child's argument": lambda: child(closed()),
    "an item of a map": lambda: holdfast.map(take, [closed()]),
    "an item of a map of children": lambda: holdfast.map(child, [closed()]),
    "a compensation's argument": lambda: holdfast.compensate(untake, closed()),
    "a value": lambda: holdfast.set_value("row", closed()),
    "an item of a stream": lambda: holdfast.emit("rows", closed()),
    "a signal": lambda: holdfast.signal("somebody", "row", closed()),
    "an event": lambda: holdfast.publish("row", closed()),
    "what the next run gets": lambda: child.continue_as_new(closed()),
}


@pytest.mark.parametrize("what", SENT)
async def test_an_unreadable_value_that_a_body_passes_or_sends_is_refused_at_the_call(database_url, what):
    @workflow
    async def body() -> str:
        try:
            made = SENT[what]()
            if made is not None:
                await made
        except NotEncodable as refused:
            return f"{refused} < {refused.__cause__}"
        return "nothing"

    async with stage(database_url, body, child) as on:
        told = await (await on.client.start(body)).result(PATIENCE)
    assert "can't be stored: RuntimeError: the session is closed; give plain data, read while its source" in told
    assert told.endswith("< the session is closed")


@pytest.mark.parametrize("what", ["beats", "emits", "sets"])
async def test_an_unreadable_value_that_a_step_sends_is_an_error_of_that_step(database_url, what):
    @step(retry=ONCE)
    async def tells() -> None:
        if what == "beats":
            holdfast.current_step().heartbeat({Lazy.KEY: object()})
        elif what == "emits":
            holdfast.emit("rows", closed())
        else:
            holdfast.set_value("row", closed())

    @workflow
    async def body() -> None:
        await tells()

    async with stage(database_url, body) as on:
        assert type(await failure_of(await on.client.start(body))) is NotEncodable


class Mute(Exception):
    def __str__(self) -> str:
        raise Panic("no words")


@pytest.mark.parametrize("kind", [Masked, Sealed, Mute])
async def test_a_body_that_raises_an_exception_that_can_t_be_inspected_fails_its_run(database_url, kind):
    @workflow
    async def body() -> None:
        raise kind

    async with stage(database_url, body) as on:
        error = await failure_of(await on.client.start(body))
    assert (error.type if isinstance(error, StepFailed) else type(error).__name__).endswith(kind.__name__)


async def test_a_value_whose_code_does_io_in_a_body_blocks_the_run(database_url):
    @workflow
    async def body() -> None:
        await take(Row(IOInBody("not in a body")))

    async with stage(database_url, body) as on:
        assert "not in a body" in await on.until_blocked(await on.client.start(body))
