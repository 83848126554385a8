"""Resources: opened with the worker, closed last first, there in every step and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import holdfast
from holdfast import NotInBody, NotInRun, RunFailed, step, workflow
from holdfast.errors import DefinitionError
from tests.worker.stage import PATIENCE, stage, until


class Log(list[str]):
    """What was opened and closed, in order, by resources of either colour."""

    def one(self, name: str, *, is_async: bool, fails: str = ""):
        async def slow():
            if fails == "open":
                raise ConnectionError(f"{name} is not there")
            self.append(f"open {name}")
            try:
                yield f"the {name}"
            finally:
                self.append(f"close {name}")
            if fails == "close":
                raise ConnectionError(f"{name} does not close")

        def quick():
            if fails == "open":
                raise ConnectionError(f"{name} is not there")
            self.append(f"open {name}")
            try:
                yield f"the {name}"
            finally:
                self.append(f"close {name}")
            if fails == "close":
                raise ConnectionError(f"{name} does not close")

        fn = slow if is_async else quick
        fn.__name__ = name
        return holdfast.resource(fn)


@workflow
async def nothing() -> None: ...


async def test_resources_are_opened_in_order_and_closed_last_first(database_url):
    log = Log()
    given = [log.one("pool", is_async=True), log.one("secret", is_async=False), log.one("mail", is_async=True)]
    async with stage(database_url, nothing, resources=given):
        assert log == ["open pool", "open secret", "open mail"]
    assert log[3:] == ["close mail", "close secret", "close pool"]


async def test_a_resource_that_is_given_twice_is_opened_once(database_url):
    log = Log()
    pool, mail = (log.one(name, is_async=True) for name in ("pool", "mail"))
    async with stage(database_url, nothing, resources=[pool, mail, pool]):
        assert log == ["open pool", "open mail"]
    assert log[2:] == ["close mail", "close pool"]


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "def"])
@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_step_of_either_colour_gets_what_a_resource_of_either_colour_yields(database_url, is_async, colour):
    pool = Log().one("pool", is_async=is_async)

    @step
    async def slow() -> str:
        return pool()

    @step
    def quick() -> str:
        return pool()

    @workflow
    async def body() -> str:
        return await slow() if colour == "async" else quick()

    async with stage(database_url, body, resources=[pool]) as on:
        assert await (await on.client.start(body)).result(PATIENCE) == "the pool"


async def test_every_step_gets_the_same_object(database_url):
    seen: list[object] = []

    @holdfast.resource
    def pool():
        yield object()

    @step
    async def slow() -> None:
        seen.append(pool())

    @step
    def quick() -> None:
        seen.append(pool())

    @workflow
    async def body() -> None:
        await slow()
        quick()

    async with stage(database_url, body, resources=[pool]) as on:
        await (await on.client.start(body)).result(PATIENCE)
    assert len(seen) == 2
    assert seen[0] is seen[1]


async def test_an_async_resource_is_opened_on_the_workers_loop(database_url):
    seen: list[object] = []

    @holdfast.resource
    async def pool():
        yield asyncio.get_running_loop()

    @step
    async def ask() -> None:
        seen.append(pool() is asyncio.get_running_loop())

    @workflow
    async def body() -> None:
        await ask()

    async with stage(database_url, body, resources=[pool]) as on:
        await (await on.client.start(body)).result(PATIENCE)
    assert seen == [True]


async def test_resources_are_closed_after_the_last_step_has_ended(database_url):
    log = Log()
    pool = log.one("pool", is_async=True)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> None:
        begun.set()
        await go_on.wait()
        log.append(f"end with {pool()}")

    @workflow
    async def body() -> None:
        await slow()

    async with stage(database_url) as on:
        worker = on.worker(body, resources=[pool])
        async with worker:
            await on.client.start(body)
            await begun.wait()
            worker.stop()
            go_on.set()
    assert log == ["open pool", "end with the pool", "close pool"]


async def test_a_resource_in_a_body_blocks_nothing_but_says_where_it_belongs(database_url):
    pool = Log().one("pool", is_async=True)

    @workflow
    async def body() -> str:
        try:
            pool()
        except NotInBody as error:
            return str(error)
        return ""

    async with stage(database_url, body, resources=[pool]) as on:
        said = await (await on.client.start(body)).result(PATIENCE)
    assert "pool" in said
    assert "inside a step" in said


async def test_the_error_of_a_missing_resource_says_how_to_give_it(database_url):
    pool = Log().one("pool", is_async=True)

    @step(retry=holdfast.Retry(attempts=1))
    async def ask() -> str:
        return pool()

    @workflow
    async def body() -> str:
        return await ask()

    async with stage(database_url, body) as on:
        with pytest.raises(RunFailed) as caught:
            await (await on.client.start(body)).result(PATIENCE)
    assert isinstance(caught.value.__cause__, NotInRun)
    assert "resources=[pool]" in str(caught.value.__cause__)


def test_a_resource_outside_a_run_says_where_it_is_open():
    with pytest.raises(NotInRun, match="Worker"):
        Log().one("pool", is_async=True)()


async def test_a_resource_that_fails_to_open_stops_the_worker_with_its_error(database_url):
    async with stage(database_url) as on:
        with pytest.raises(ConnectionError, match="mail is not there"):
            async with on.worker(nothing, resources=[Log().one("mail", is_async=True, fails="open")]):
                pass


async def test_open_resources_are_closed_when_a_later_one_fails_to_open(database_url):
    log = Log()
    given = [log.one("pool", is_async=True), log.one("mail", is_async=False, fails="open")]
    async with stage(database_url) as on:
        with pytest.raises(ConnectionError):
            async with on.worker(nothing, resources=given):
                pass
    assert log == ["open pool", "close pool"]


async def test_a_worker_whose_resource_fails_to_open_takes_no_run(database_url):
    async with stage(database_url) as on:
        run = await on.client.start(nothing)
        with pytest.raises(ConnectionError):
            async with on.worker(nothing, resources=[Log().one("mail", is_async=True, fails="open")]):
                pass
        assert (await on.record(run)).status == "pending"
        assert await on.store.list_workers() == []


async def test_the_others_are_closed_when_one_fails_to_close(database_url):
    log = Log()
    given = [log.one("pool", is_async=True), log.one("mail", is_async=True, fails="close")]
    async with stage(database_url) as on:
        with pytest.raises(ConnectionError, match="does not close"):
            async with on.worker(nothing, resources=given):
                pass
    assert log[2:] == ["close mail", "close pool"]


async def test_resources_stay_open_across_a_lost_lease(database_url):
    log = Log()
    pool = log.one("pool", is_async=True)
    async with stage(database_url) as on, on.worker(nothing, resources=[pool], lease="3s") as worker:
        first = worker.id
        await on.store.reap_workers("somebody", now=on.clock.now() + 3_600_000_000)
        await until(lambda: worker.id not in (None, first))
        assert log == ["open pool"]


@pytest.mark.parametrize("given", [lambda: 1, 5, len], ids=["a function", "a number", "a builtin"])
def test_a_function_that_is_no_generator_function_is_refused_as_a_resource(given):
    with pytest.raises(DefinitionError, match="generator"):
        holdfast.resource(given)


def test_a_resource_below_a_decorator_that_makes_a_context_manager_of_it_is_refused_with_advice():
    with pytest.raises(DefinitionError, match=r"yields once.*take the decorator between them away"):

        @holdfast.resource
        @contextlib.asynccontextmanager
        async def pool():
            yield "the pool"


def test_a_resource_that_needs_arguments_is_refused_where_it_is_written():
    with pytest.raises(DefinitionError, match=r"'pool' is opened without arguments, and needs url, size;"):

        @holdfast.resource
        def pool(url: str, *, size: int, timeout: int = 5, **more: str):
            yield "the pool"


async def test_a_resource_that_calls_another_one_is_refused(database_url):
    pool = Log().one("pool", is_async=True)

    @holdfast.resource
    async def orders():
        yield f"orders in {pool()}"

    with pytest.raises(NotInRun, match=r"'pool' was used outside a run.*no other resource can"):
        async with stage(database_url, nothing, resources=[pool, orders]):
            pass


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
@pytest.mark.parametrize(("fails", "deed"), [("open", "opened"), ("close", "closed")])
async def test_the_error_of_a_resource_names_it(database_url, is_async, fails, deed):
    async with stage(database_url) as on:
        with pytest.raises(ConnectionError) as caught:
            async with on.worker(nothing, resources=[Log().one("mail", is_async=is_async, fails=fails)]):
                pass
    assert caught.value.__notes__ == [f"while the worker {deed} its resource 'mail', a generator that yields once"]


async def test_a_resource_that_yields_twice_is_named(database_url):
    @holdfast.resource
    def mail():
        yield "the mail"
        yield "more mail"

    async with stage(database_url) as on:
        with pytest.raises(RuntimeError) as caught:
            async with on.worker(nothing, resources=[mail]):
                pass
    assert caught.value.__notes__ == ["while the worker closed its resource 'mail', a generator that yields once"]


async def test_the_error_that_ends_a_worker_beside_other_code_is_logged_with_its_notes(database_url, caplog):
    async with stage(database_url) as on:
        with pytest.raises(ConnectionError):
            async with on.worker(nothing, resources=[Log().one("mail", is_async=True, fails="close")]):
                pass
    assert "mail does not close\nwhile the worker closed its resource 'mail'" in caplog.text
