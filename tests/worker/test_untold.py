"""Results and errors of steps whose own code fails when they are inspected: each attempt is still recorded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import Codec, NotEncodable, StepFailed, step, workflow
from holdfast.define import HouseLogger
from holdfast.worker import held
from tests.worker.gates import Gate, body_of
from tests.worker.oddities import Masked, Sealed
from tests.worker.stage import ONCE, PATIENCE, QUICK, failure_of, stage, until


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Panic(BaseException):
    """As extension modules raise it, that are written in Rust."""


@dataclass
class Unread:
    """Raises what it is told to when its field is read."""

    error: Any

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__("__dict__").get(name) if name == "error" else None
        if found is not None:
            raise found
        return super().__getattribute__(name)


class Note:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def noted(error: BaseException, notes: Any) -> BaseException:
    error.__notes__ = notes
    return error


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (Mute(), "Mute: <Mute without a printable message>"),
        (Panic("index out of bounds"), "Panic: index out of bounds"),
    ],
    ids=["mute", "panic"],
)
async def test_a_result_that_can_t_be_read_fails_once_whatever_its_code_raises(database_url, cause, told):
    effects: list[int] = []

    @step(retry=QUICK)
    async def load() -> Unread:
        effects.append(1)
        return Unread(cause)

    @workflow
    async def body() -> None:
        await load()

    async with stage(database_url, body) as on:
        error = await failure_of(await on.client.start(body))
    assert type(error) is NotEncodable
    assert told in str(error)
    assert effects == [1]


@dataclass
class Panics:
    """A value that can be made once, and never decoded again."""

    name: str

    def __post_init__(self) -> None:
        if self.name == "":
            raise Panic("no name")
        self.name = ""


async def test_arguments_whose_code_raises_a_base_exception_fail_the_step_once(database_url):
    executed: list[str] = []

    @step(retry=QUICK)
    async def greet(who: Panics) -> None:
        executed.append(who.name)

    @workflow
    async def body() -> None:
        await greet(Panics("Wilma"))

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        error = await failure_of(run)
        assert "step_retrying" not in await on.kinds(run)
    assert (type(error), str(error)) == (StepFailed, "no name")
    assert executed == []


@pytest.mark.parametrize(
    ("notes", "kept"),
    [(None, []), (5, []), ([Note(), "why"], ["<Note>", "why"])],
    ids=["none", "a number", "one that can't be printed"],
)
@pytest.mark.parametrize("kind", [Panic, ValueError])
async def test_a_failure_with_odd_notes_keeps_its_message_and_the_readable_notes(database_url, kind, notes, kept):
    @step(retry=ONCE)
    async def fails() -> None:
        raise noted(kind("x"), notes)

    @workflow
    async def body() -> list[str]:
        try:
            await fails()
        except (StepFailed, ValueError) as failed:
            return [str(failed), *failed.__notes__]
        return []

    async with stage(database_url, body) as on:
        words, *found = await (await on.client.start(body)).result(PATIENCE)
    assert words == "x"
    assert [note for note in found if note in ("<Note>", "why")] == kept


@pytest.mark.parametrize("colour", ["async", "def"])
@pytest.mark.parametrize("kind", [Masked, Sealed])
async def test_a_failure_that_can_t_be_inspected_is_step_failed_and_not_tried_again(database_url, kind, colour):
    tries: list[int] = []

    @step(retry=QUICK)
    async def async_step() -> None:
        tries.append(1)
        raise kind

    @step(retry=QUICK)
    def def_step() -> None:
        tries.append(1)
        raise kind

    @workflow
    async def body(which: str) -> bool:
        try:
            if which == "def":
                def_step()
            else:
                await async_step()
        except Exception:
            return True
        return False

    async with stage(database_url, body, concurrency=1) as on:
        assert await (await on.client.start(body, colour)).result(PATIENCE)
    assert tries == [1]


async def test_a_step_whose_outcome_can_t_be_recorded_fails_and_the_log_says_why(database_url, caplog):
    @step
    async def fails() -> None:
        raise Sealed

    @workflow
    async def body() -> None:
        await fails()

    async with stage(database_url, body) as on:
        error = await failure_of(await on.client.start(body))
    assert type(error) is StepFailed
    assert str(error) == "the step 'fails' has ended, but its outcome can't be recorded: the worker's log says why"
    (line,) = [one for one in caplog.records if one.levelno == logging.ERROR and one.exc_info]
    assert "has ended, but its outcome can't be recorded" in line.message
    assert str(line.exc_info[1]) == "closed"


class Away:
    """Keys of a remote service that is out of reach after a number of uses."""

    id = "away"
    encrypts = True

    def __init__(self, left: int) -> None:
        self.left = left

    def apply(self, data: bytes) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise ConnectionError("no keys")
        return data[::-1]

    def revert(self, data: bytes) -> bytes:
        return data[::-1]


async def test_a_codec_that_can_t_write_a_failure_leaves_no_attempt_open(database_url):
    keys = Away(left=1)
    caught: list[str] = []

    @step(retry=ONCE)
    async def fails() -> None:
        raise ValueError("secret")

    @workflow
    async def body() -> int:
        try:
            await fails()
        except StepFailed as failed:
            caught.append(str(failed))
            keys.left = 100
        return 1

    async with stage(database_url, body, client={"codec": Codec(chain=[keys])}) as on:
        run = await on.client.start(body)
        assert await run.result(PATIENCE) == 1
        assert b"secret" not in b"".join(row.data for row in await on.store.read_journal(run.id))
    assert caught == ["the step 'fails' has ended, but its outcome can't be recorded: the worker's log says why"]


class Broken(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise RuntimeError("no log")


@pytest.fixture
def broken_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Every log call of the worker fails."""
    caplog.set_level(logging.INFO, logger="holdfast.worker")
    broken = Broken()
    logging.getLogger("holdfast.worker").addFilter(broken)
    yield
    logging.getLogger("holdfast.worker").removeFilter(broken)


@pytest.mark.usefixtures("broken_log")
@pytest.mark.parametrize("retry", [ONCE, QUICK], ids=["once", "again"])
async def test_a_log_that_fails_keeps_no_failure_from_its_run(database_url, retry):
    @step(retry=retry)
    async def fails() -> None:
        raise ValueError("x")

    @workflow
    async def body() -> str:
        try:
            await fails()
        except ValueError as error:
            return str(error)
        return "nothing"

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result(PATIENCE) == "x"


@pytest.mark.usefixtures("broken_log")
async def test_a_log_that_fails_stops_no_run_whose_journal_has_grown_long(database_url, monkeypatch):
    monkeypatch.setattr(held, "_WARN_LENGTH", 2)

    @step
    async def one() -> int:
        return 1

    @workflow
    async def body() -> int:
        return sum([await one() for _ in range(5)])

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result(PATIENCE) == 5


@pytest.mark.usefixtures("broken_log")
async def test_a_log_that_fails_keeps_no_run_from_being_blocked(database_url):
    @workflow
    async def body() -> None:
        asyncio.get_running_loop().run_in_executor(None, print)

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        assert (await on.until_blocked(run)).startswith("IOInBody")
        assert (await on.record(run)).owner is None


def test_a_log_record_names_the_place_of_its_caller(caplog):
    HouseLogger("holdfast.worker").warning("%d of them", 2)
    [record] = caplog.records
    assert (record.message, record.pathname) == ("2 of them", __file__)
    assert record.funcName == "test_a_log_record_names_the_place_of_its_caller"


async def test_a_stop_does_not_spin_while_nothing_is_in_flight_that_could_end(database_url):
    gate = Gate()
    body = body_of(gate.step())
    looks = 0
    async with stage(database_url) as on:
        await on.client.start(body)
        worker = on.worker(body, grace="500ms")
        async with worker:
            await until(lambda: gate.begun)
            session = worker._session
            hear = session._hear_meanwhile

            async def counted() -> None:
                nonlocal looks
                looks += 1
                await hear()

            session._hear_meanwhile = counted
            session.runs.attempts.tasks.clear()
    assert 0 < looks < 100
