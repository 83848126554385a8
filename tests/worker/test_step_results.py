"""What a step may come to that can't be recorded: such a result fails once, such an exception is a StepFailed."""

from __future__ import annotations

import asyncio
import importlib
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import (
    MisplacedCall,
    NotDecodable,
    NotEncodable,
    PayloadTooLarge,
    Retry,
    RetryAfter,
    StepFailed,
    sleep,
    step,
    workflow,
)
from holdfast.errors import BadDuration, DefinitionError
from tests.worker.stage import ONCE, PATIENCE, QUICK, failure_of, stage


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_an_unserialisable_result_fails_once_and_its_effect_happens_once(database_url, colour):
    effects: list[int] = []

    @step
    async def async_step() -> Any:
        effects.append(1)
        return {"order": [1, object()]}

    @step
    def def_step() -> Any:
        effects.append(1)
        return {"order": [1, object()]}

    @workflow
    async def body(which: str) -> None:
        if which == "def":
            def_step()
        else:
            await async_step()

    async with stage(database_url, body) as on:
        error = await failure_of(await on.client.start(body, colour))
    assert isinstance(error, NotEncodable)
    assert effects == [1]


async def test_the_error_of_an_unserialisable_result_names_its_type_and_path(database_url):
    @step
    async def bad() -> Any:
        return {"order": [1, object()]}

    @workflow
    async def body() -> None:
        await bad()

    async with stage(database_url, body) as on:
        text = str(await failure_of(await on.client.start(body)))
    assert "object" in text
    assert "order" in text
    assert "1" in text


async def test_a_result_that_does_not_fit_its_annotation_fails_once(database_url):
    effects: list[int] = []

    @step
    async def lies() -> int:
        effects.append(1)
        return "text"  # type: ignore[return-value]

    @workflow
    async def body() -> None:
        await lies()

    async with stage(database_url, body) as on:
        assert (await (await on.client.start(body)).wait(PATIENCE)) == "failed"
    assert effects == [1]


async def test_an_oversized_result_fails_once(database_url):
    effects: list[int] = []

    @step
    async def big() -> str:
        effects.append(1)
        return "x" * 20_000

    @workflow
    async def body() -> int:
        return len(await big())

    async with stage(database_url, body, client={"max_payload": 10_000}) as on:
        error = await failure_of(await on.client.start(body))
    assert isinstance(error, PayloadTooLarge)
    assert effects == [1]


async def test_an_oversized_result_may_be_caught_and_the_run_goes_on(database_url):
    @step
    async def big() -> str:
        return "x" * 20_000

    @workflow
    async def body() -> str:
        try:
            return await big()
        except PayloadTooLarge:
            return "small"

    async with stage(database_url, body, client={"max_payload": 10_000}) as on:
        assert await (await on.client.start(body)).result(PATIENCE) == "small"


@pytest.mark.parametrize("wrong", [MisplacedCall("not here"), DefinitionError("not so")], ids=repr)
async def test_a_mistake_that_every_try_would_repeat_is_not_tried_again(database_url, wrong):
    tries: list[int] = []

    @step(retry=QUICK)
    async def misused() -> None:
        tries.append(1)
        raise wrong

    @workflow
    async def body() -> None:
        await misused()

    async with stage(database_url, body) as on:
        assert type(await failure_of(await on.client.start(body))) is type(wrong)
    assert tries == [1]


@dataclass
class Shortened:
    """A value whose class refuses to read what it has written."""

    name: str

    def __post_init__(self) -> None:
        if len(self.name) < 3:
            raise ValueError("too short")
        self.name = self.name[:1]


async def test_a_step_whose_arguments_can_t_be_read_fails_once_and_never_executes(database_url):
    executed: list[str] = []

    @step
    async def greet(who: Shortened) -> None:
        executed.append(who.name)

    @workflow
    async def body() -> None:
        await greet(Shortened("Wilma"))

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        assert isinstance(await failure_of(run), NotDecodable)
        assert "step_retrying" not in [entry.kind for entry in await on.entries(run)]
    assert executed == []


async def test_a_retry_policy_that_raises_fails_the_step_with_its_error(database_url):
    @step(retry=QUICK)
    async def odd() -> None:
        later = RetryAfter("1s")
        later.delay = "soon"
        raise later

    @workflow
    async def body() -> None:
        await odd()

    async with stage(database_url, body) as on:
        assert isinstance(await failure_of(await on.client.start(body)), BadDuration)


class Odd(BaseException):
    """Not an Exception."""


@pytest.mark.parametrize("colour", ["async", "def"])
@pytest.mark.parametrize(
    "error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit(), StopIteration(), Odd()], ids=repr
)
async def test_a_base_exception_of_a_step_is_step_failed_and_not_tried_again(database_url, colour, error):
    attempts: list[int] = []

    @step
    async def async_step() -> None:
        attempts.append(1)
        raise error

    @step
    def def_step() -> None:
        attempts.append(1)
        raise error

    @workflow
    async def body(which: str) -> str:
        try:
            if which == "def":
                def_step()
            else:
                await async_step()
        except StepFailed as failed:
            return failed.type
        return "nothing"

    async with stage(database_url, body) as on:
        found = await (await on.client.start(body, colour)).result(PATIENCE)
    assert found == f"{type(error).__module__}.{type(error).__qualname__}"
    assert attempts == [1]


async def test_an_error_is_noted_with_its_step_its_attempt_and_its_run(database_url):
    @step(retry=Retry(attempts=2, initial=0))
    async def charge() -> None:
        raise ValueError("refused")

    @workflow
    async def body() -> list[str]:
        try:
            await charge()
        except ValueError as error:
            return error.__notes__
        return []

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        assert (await run.result(PATIENCE))[0] == f"in the step 'charge', attempt 2, of the run {run.id}"


@dataclass
class Detached:
    """A value that can no longer be read, as an object of a closed session."""

    name: str

    def __getattribute__(self, name: str) -> Any:
        if name == "name":
            raise RuntimeError("the session is closed")
        return super().__getattribute__(name)


async def test_a_result_whose_own_code_raises_when_it_is_encoded_fails_the_step_once(database_url):
    effects: list[int] = []

    @step
    async def load() -> Detached:
        effects.append(1)
        return Detached("x")

    @workflow
    async def body() -> None:
        await load()

    async with stage(database_url, body) as on:
        error = await failure_of(await on.client.start(body))
    assert type(error) is NotEncodable
    assert "result can't be stored: RuntimeError: the session is closed; return plain data, read while" in str(error)
    assert effects == [1]


async def test_a_stray_cancelled_error_does_not_cancel_the_run(database_url):
    @step
    async def stray() -> None:
        raise asyncio.CancelledError

    @workflow
    async def body() -> None:
        await stray()

    async with stage(database_url, body) as on:
        assert (await (await on.client.start(body)).wait(PATIENCE)) == "failed"


async def test_a_step_that_cancels_its_own_task_fails(database_url):
    @step(retry=ONCE)
    async def stray() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    @workflow
    async def body() -> None:
        await stray()

    async with stage(database_url, body) as on:
        assert (await (await on.client.start(body)).wait(PATIENCE)) == "failed"


async def test_the_worker_goes_on_after_a_step_raised_system_exit(database_url):
    @step
    async def leave() -> None:
        raise SystemExit

    @step
    async def stay() -> int:
        return 1

    @workflow
    async def leaves() -> None:
        await leave()

    @workflow
    async def stays() -> int:
        return await stay()

    async with stage(database_url, leaves, stays) as on:
        await (await on.client.start(leaves)).wait(PATIENCE)
        assert await (await on.client.start(stays)).result(PATIENCE) == 1


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_runtime_error_that_a_step_raises_from_a_stop_iteration_stays_that_error(database_url, colour):
    attempts: list[int] = []

    def first_of_none() -> None:
        attempts.append(1)
        try:
            next(iter(()))
        except StopIteration as ended:
            raise RuntimeError("there is none") from ended

    @step(retry=QUICK)
    async def async_step() -> None:
        first_of_none()

    @step(retry=QUICK)
    def def_step() -> None:
        first_of_none()

    @workflow
    async def body(which: str) -> str:
        try:
            if which == "def":
                def_step()
            else:
                await async_step()
        except RuntimeError as failed:
            return str(failed)
        return "nothing"

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body, colour)).result(PATIENCE) == "there is none"
    assert len(attempts) == 3


async def test_an_exception_class_of_a_module_that_only_the_step_imports_is_step_failed_in_every_worker(
    database_url, tmp_path, monkeypatch
):
    (tmp_path / "imported_late.py").write_text("class Late(Exception): ...")
    monkeypatch.syspath_prepend(tmp_path)

    @step(retry=ONCE)
    async def imports() -> None:
        raise importlib.import_module("imported_late").Late

    @workflow
    async def body() -> str:
        try:
            await imports()
        except StepFailed as failed:
            await sleep("1h")
            return failed.type
        return "nothing"

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
    # Another process, which has executed nothing yet.
    monkeypatch.delitem(sys.modules, "imported_late")
    async with stage(database_url) as on:
        on.skip("2h")
        async with on.worker(body):
            assert await (await on.client.get_run(run.id)).result(PATIENCE) == "imported_late.Late"
