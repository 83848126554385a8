"""Middleware: a context manager around every attempt of every step."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import asynccontextmanager, contextmanager

import pytest

import holdfast
from holdfast import Retry, RunFailed, current_step, step, workflow
from tests.worker.stage import PATIENCE, stage

AT_ONCE = Retry(attempts=3, initial="1ms", jitter=0)

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


@step(retry=AT_ONCE)
async def slow(text: str) -> str:
    return f"{text} for {tenant.get()}"


@step(retry=AT_ONCE)
def quick(text: str) -> str:
    return f"{text} for {tenant.get()}"


@workflow
async def both() -> list[str]:
    return [await slow("slow"), quick("quick")]


class Log(list[str]):
    """Middleware of either colour that says when it is entered and left."""

    def middleware(self, name: str, *, is_async: bool):
        @contextmanager
        def plain(info):
            self.append(f"{name} enters {info.key}")
            try:
                yield
            except BaseException as error:
                self.append(f"{name} sees {type(error).__name__}")
                raise
            finally:
                self.append(f"{name} leaves {info.key}")

        @asynccontextmanager
        async def slow(info):
            with plain(info):
                await asyncio.sleep(0)
                yield

        return slow if is_async else plain


async def run(database_url, body, *middleware):
    async with stage(database_url, body, middleware=middleware) as on:
        return await (await on.client.start(body)).result(PATIENCE)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "def"])
async def test_middleware_of_either_colour_wraps_steps_of_either_colour(database_url, is_async):
    log = Log()
    await run(database_url, both, log.middleware("m", is_async=is_async))
    assert log == ["m enters slow", "m leaves slow", "m enters quick", "m leaves quick"]


async def test_the_first_middleware_given_is_the_outermost(database_url):
    log = Log()

    @workflow
    async def body() -> None:
        await slow("x")

    await run(database_url, body, log.middleware("outer", is_async=False), log.middleware("inner", is_async=True))
    assert log == ["outer enters slow", "inner enters slow", "inner leaves slow", "outer leaves slow"]


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_every_attempt_is_wrapped(database_url, colour):
    attempts: list[int] = []

    @contextmanager
    def count(info):
        attempts.append(info.attempt)
        yield

    @step(retry=AT_ONCE)
    async def shaky() -> int:
        if current_step().attempt < 3:
            raise ConnectionError
        return 1

    @step(retry=AT_ONCE)
    def shaky_too() -> int:
        if current_step().attempt < 3:
            raise ConnectionError
        return 1

    @workflow
    async def body() -> int:
        return await shaky() if colour == "async" else shaky_too()

    assert await run(database_url, body, count) == 1
    assert attempts == [1, 2, 3]


async def test_middleware_sees_what_the_step_sees_of_itself(database_url):
    seen: list[object] = []

    @contextmanager
    def look(info):
        seen.append((info.name, info.key, info.attempt, info.workflow, info.run_id, info.idempotency_key))
        yield

    @step
    async def ask() -> None:
        me = current_step()
        seen.append((me.name, me.key, me.attempt, me.workflow, me.run_id, me.idempotency_key))

    @workflow
    async def body() -> None:
        await ask.options(name="asked")()

    await run(database_url, body, look)
    assert seen[0] == seen[1]


async def test_current_step_is_known_in_middleware(database_url):
    seen: list[bool] = []

    @contextmanager
    def look(info):
        seen.append(current_step() is info)
        yield

    await run(database_url, both, look)
    assert seen == [True, True]


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_an_exception_passes_through_and_reaches_the_body(database_url, colour):
    log = Log()

    @step(retry=Retry(attempts=1))
    async def fail() -> None:
        raise LookupError("nothing there")

    @step(retry=Retry(attempts=1))
    def fail_too() -> None:
        raise LookupError("nothing there")

    @workflow
    async def body() -> str:
        try:
            if colour == "async":
                await fail()
            else:
                fail_too()
        except LookupError as error:
            return str(error)
        return ""

    assert await run(database_url, body, log.middleware("m", is_async=True)) == "nothing there"
    assert "m sees LookupError" in log


async def test_an_exception_of_the_middleware_is_a_failed_attempt(database_url):
    attempts: list[int] = []

    @contextmanager
    def refuse(info):
        attempts.append(info.attempt)
        if info.attempt == 1:
            raise ConnectionError
        yield

    assert await run(database_url, both, refuse) == ["slow for nobody", "quick for nobody"]
    assert attempts == [1, 2, 1, 2]


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_chunk_of_a_map_is_tried_again_as_its_step_says_if_middleware_fails(database_url, colour):
    attempts: list[int] = []

    @contextmanager
    def refuse(info):
        attempts.append(info.attempt)
        if info.attempt < 3:
            raise ConnectionError
        yield

    @workflow
    async def body() -> list[str]:
        return await holdfast.map(slow if colour == "async" else quick, ["a", "b"], chunk=2)

    assert await run(database_url, body, refuse) == ["a for nobody", "b for nobody"]
    assert attempts == [1, 2, 3]


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_chunk_of_a_map_is_not_tried_again_for_an_item_that_failed_for_good(database_url, colour):
    tries: list[int] = []

    @contextmanager
    def rename(info):
        try:
            yield
        except ConnectionError as error:
            raise PermissionError("not here") from error

    @step(retry=AT_ONCE)
    async def fails(n: int) -> int:
        tries.append(n)
        raise ConnectionError

    @step(retry=AT_ONCE)
    def fails_too(n: int) -> int:
        tries.append(n)
        raise ConnectionError

    @workflow
    async def body() -> list[int]:
        return await holdfast.map(fails if colour == "async" else fails_too, [1, 2], chunk=2)

    with pytest.raises(RunFailed) as caught:
        await run(database_url, body, rename)
    assert isinstance(caught.value.__cause__, PermissionError)
    assert tries == [1, 1, 1]


async def test_middleware_that_always_fails_fails_the_run_with_its_error(database_url):
    @contextmanager
    def refuse(info):
        raise PermissionError("not here")
        yield

    with pytest.raises(RunFailed) as caught:
        await run(database_url, both, refuse)
    assert isinstance(caught.value.__cause__, PermissionError)


async def test_middleware_that_returns_no_context_manager_fails_the_step_once_with_advice(database_url):
    attempts: list[int] = []

    def undecorated(info):
        yield

    def plain(info):
        attempts.append(info.attempt)
        return undecorated(info)

    with pytest.raises(RunFailed, match=r"plain returned <generator .*contextlib\.contextmanager") as caught:
        await run(database_url, both, plain)
    assert isinstance(caught.value.__cause__, holdfast.DefinitionError)
    assert attempts == [1]


async def test_the_steps_are_not_executed_when_middleware_refuses(database_url):
    executed: list[int] = []

    @step(retry=Retry(attempts=1))
    async def act() -> None:
        executed.append(1)

    @workflow
    async def body() -> None:
        await act()

    @asynccontextmanager
    async def refuse(info):
        raise PermissionError
        yield

    with pytest.raises(RunFailed):
        await run(database_url, body, refuse)
    assert executed == []


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "def"])
async def test_a_context_variable_set_by_middleware_is_seen_by_steps_of_both_colours(database_url, is_async):
    @contextmanager
    def scope(info):
        token = tenant.set("acme")
        try:
            yield
        finally:
            tenant.reset(token)

    @asynccontextmanager
    async def slow_scope(info):
        with scope(info):
            yield

    assert await run(database_url, both, slow_scope if is_async else scope) == ["slow for acme", "quick for acme"]


async def test_a_context_variable_of_one_attempt_is_not_seen_by_another(database_url):
    seen: list[str] = []

    @contextmanager
    def scope(info):
        seen.append(tenant.get())
        tenant.set(info.key)
        yield

    @workflow
    async def body() -> None:
        await asyncio.gather(*(slow(str(n)) for n in range(3)))

    await run(database_url, body, scope)
    assert seen == ["nobody"] * 3


async def test_the_time_of_a_step_includes_its_middleware(database_url):
    left: list[str] = []

    @asynccontextmanager
    async def hang(info):
        try:
            await asyncio.Event().wait()
            yield
        finally:
            left.append(info.key)

    @step(timeout="20ms", retry=Retry(attempts=1))
    async def act() -> None: ...

    @workflow
    async def body() -> str:
        try:
            await act()
        except holdfast.StepTimeout:
            return "late"
        return ""

    assert await run(database_url, body, hang) == "late"
    assert left == ["act"]


async def test_middleware_wraps_inline_steps_too(database_url):
    log = Log()

    @workflow
    async def body() -> int:
        return await holdfast.call("count", len, "abc")

    assert await run(database_url, body, log.middleware("m", is_async=False)) == 3
    assert log == ["m enters count", "m leaves count"]


async def test_middleware_may_use_resources(database_url):
    seen: list[str] = []

    @holdfast.resource
    def pool():
        yield "the pool"

    @contextmanager
    def look(info):
        seen.append(pool())
        yield

    async with stage(database_url, both, middleware=[look], resources=[pool]) as on:
        await (await on.client.start(both)).result(PATIENCE)
    assert seen == ["the pool"] * 2
