"""`holdfast.run`: a client and a worker in one call."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import Any

import pytest

import holdfast
from holdfast import BadArguments, Client, MisplacedCall, RunFailed, sleep, step, workflow
from holdfast.errors import DefinitionError, NeverAwaited, StoreAway
from holdfast.model import RunRecord, WorkerRecord
from holdfast.store import SqliteStore
from tests.worker.stage import ONCE, until


@step
async def double(n: int) -> int:
    return 2 * n


@workflow
async def doubled(n: int) -> int:
    return await double(n)


@workflow
def blocking_doubled(n: int) -> int:
    return holdfast.blocking.call("double", double.fn, n)


@pytest.mark.parametrize("body", [doubled, blocking_doubled], ids=["async", "def"])
def test_the_result_is_returned(database_url, body):
    assert holdfast.run(body, 21, url=database_url) == 42


def test_arguments_may_be_named(database_url):
    assert holdfast.run(doubled, n=21, url=database_url) == 42


def test_without_a_key_every_call_is_a_run_of_its_own(database_url):
    holdfast.run(doubled, 1, url=database_url)
    holdfast.run(doubled, 1, url=database_url)
    with Client(database_url) as client:
        assert len(list(client.runs())) == 2


def test_the_url_may_come_from_the_environment(database_url, monkeypatch):
    monkeypatch.setenv("HOLDFAST_URL", database_url)
    run_id = holdfast.run(doubled.options(id="mine"), 1)
    assert run_id == 2
    with Client(database_url) as client:
        assert client.get_run("mine").status == "completed"


def test_a_failed_run_raises_with_its_own_exception_as_the_cause(database_url):
    @workflow
    async def body() -> None:
        raise LookupError("nothing there")

    with pytest.raises(RunFailed) as caught:
        holdfast.run(body, url=database_url)
    assert isinstance(caught.value.__cause__, LookupError)


def test_wrong_arguments_are_refused_and_nothing_is_started(database_url):
    with pytest.raises(BadArguments):
        holdfast.run(doubled, "one", url=database_url)
    with Client(database_url) as client:
        assert list(client.runs()) == []


def test_resources_and_middleware_are_handed_on(database_url):
    seen: list[str] = []

    @holdfast.resource
    def pool():
        yield "the pool"

    @contextmanager
    def look(info):
        seen.append(info.key)
        yield

    @step
    async def ask() -> str:
        return pool()

    @workflow
    async def body() -> str:
        return await ask()

    assert holdfast.run(body, url=database_url, resources=(pool,), middleware=(look,)) == "the pool"
    assert seen == ["ask"]


def test_a_namespace_keeps_runs_apart(database_url):
    holdfast.run(doubled, 1, key="k", url=database_url, namespace="north")
    with Client(database_url, namespace="south") as client:
        assert list(client.runs()) == []


def test_a_completed_run_returns_its_result_again_and_executes_nothing(database_url):
    executed: list[int] = []

    @step
    async def act() -> int:
        executed.append(1)
        return 7

    @workflow
    async def body() -> int:
        return await act()

    assert holdfast.run(body, key="k", url=database_url) == 7
    assert holdfast.run(body, key="k", url=database_url) == 7
    assert executed == [1]


def test_a_failed_run_is_retried_from_its_last_failure(database_url):
    executed: list[str] = []
    is_fixed: list[bool] = []

    @step
    async def first() -> int:
        executed.append("first")
        return 1

    @step(retry=ONCE)
    async def second() -> int:
        executed.append("second")
        if not is_fixed:
            raise ConnectionError("not yet")
        return 2

    @workflow
    async def body() -> int:
        return await first() + await second()

    with pytest.raises(RunFailed):
        holdfast.run(body, key="k", url=database_url)
    is_fixed.append(True)
    assert holdfast.run(body, key="k", url=database_url) == 3
    assert executed == ["first", "second", "second"]


def test_a_run_that_a_client_started_goes_on_under_its_key(database_url):
    with Client(database_url) as client:
        started = client.start(doubled, 5, key="k")
        assert holdfast.run(doubled, 99, key="k", url=database_url) == 10
        assert started.result(5) == 10


def test_a_key_may_be_given_as_an_option_of_the_workflow(database_url):
    assert holdfast.run(doubled.options(key="k"), 1, url=database_url) == 2
    assert holdfast.run(doubled.options(key="k"), 5, url=database_url) == 2


def versions():
    @workflow(name="priced", version="1")
    async def old() -> str:
        await sleep(0)
        return "old"

    @workflow(name="priced", version="2")
    async def new() -> str:
        return "new"

    return old, new


def test_a_script_runs_the_version_that_it_has_whichever_were_there_before(database_url):
    old, new = versions()
    for one, result in ((old, "old"), (new, "new"), (old, "old")):
        assert holdfast.run(one, url=database_url) == result


def test_a_live_run_of_a_version_that_the_script_lacks_is_refused_with_advice(database_url):
    old, new = versions()
    with Client(database_url) as client:
        client.start(old, key="k")
    with pytest.raises(
        DefinitionError, match=r"is of version '1' of 'priced', and this script has version 2; run the old"
    ):
        holdfast.run(new, url=database_url, key="k")


def test_a_run_of_another_version_that_has_ended_gives_its_result(database_url):
    old, new = versions()
    assert holdfast.run(old, url=database_url, key="k") == "old"
    assert holdfast.run(new, url=database_url, key="k") == "old"


@step
async def interrupted() -> None:
    raise KeyboardInterrupt


@workflow
async def stopped() -> None:
    await interrupted()


@pytest.mark.parametrize(
    ("options", "way"),
    [({"key": "k"}, "call holdfast.run with the same key to go on"), ({}, "a worker that knows it goes on with it")],
    ids=["with a key", "without one"],
)
def test_a_script_that_is_stopped_says_how_its_run_goes_on(database_url, capsys, options, way):
    with pytest.raises(KeyboardInterrupt):
        holdfast.run(stopped, url=database_url, **options)
    assert capsys.readouterr().err.endswith(f"of 'stopped' is intact; {way}.\n")


def test_a_script_that_is_stopped_says_how_its_run_goes_on_even_if_the_store_is_away(database_url, capsys, monkeypatch):
    get_run = SqliteStore.get_run
    is_away = False

    async def away(self: SqliteStore, run_id: str) -> RunRecord | None:
        if is_away:
            raise StoreAway("the cable is out")
        return await get_run(self, run_id)

    @step
    async def unplugged() -> None:
        nonlocal is_away
        is_away = True
        raise KeyboardInterrupt

    @workflow
    async def cut_off() -> None:
        await unplugged()

    monkeypatch.setattr(SqliteStore, "get_run", away)
    with pytest.raises(KeyboardInterrupt):
        holdfast.run(cut_off, url=database_url, key="k")
    assert "of 'cut_off' is intact" in capsys.readouterr().err


def test_the_options_of_a_workflow_may_change_what_happens_to_a_taken_key(database_url):
    holdfast.run(doubled, 1, key="k", url=database_url)
    assert holdfast.run(doubled.options(on_conflict="restart"), 5, key="k", url=database_url) == 10


async def test_run_inside_a_running_loop_is_refused_with_advice(database_url):
    with pytest.raises(MisplacedCall, match="AsyncClient"):
        holdfast.run(doubled, 1, url=database_url)


async def test_run_inside_a_running_loop_starts_nothing(database_url):
    with pytest.raises(MisplacedCall):
        holdfast.run(doubled, 1, url=database_url)
    async with holdfast.AsyncClient(database_url) as client:
        assert [run async for run in client.runs()] == []


def test_run_works_in_a_thread_beside_a_running_loop(database_url):
    async def main() -> int:
        return await asyncio.to_thread(holdfast.run, doubled, 4, url=database_url)

    assert asyncio.run(main()) == 8


def test_a_function_that_is_no_workflow_is_refused():
    with pytest.raises(DefinitionError, match="@workflow"):
        holdfast.run(len, "abc")


def test_a_blocked_run_raises_its_error(database_url):
    @workflow
    async def forgetful() -> None:
        double(1)

    with pytest.raises(NeverAwaited, match=r"test_scripts\.py:\d+ in forgetful"):
        holdfast.run(forgetful, url=database_url)


def test_a_run_that_is_blocked_after_it_has_continued_raises_its_error_too(database_url):
    @workflow
    async def forgetful(count: int) -> None:
        if count:
            holdfast.continue_as_new(count - 1)
        double(1)

    with pytest.raises(NeverAwaited, match=r"test_scripts\.py:\d+ in forgetful"):
        holdfast.run(forgetful, 2, url=database_url)


def test_a_store_that_is_away_for_a_while_is_waited_for(database_url, monkeypatch):
    asked = 0
    list_workers = SqliteStore.list_workers

    async def away(self: SqliteStore) -> list[WorkerRecord]:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise StoreAway("the cable is out")
        return await list_workers(self)

    @step
    async def outage() -> int:
        await until(lambda: asked >= 3)
        return asked

    @workflow
    async def patient() -> int:
        return await outage()

    monkeypatch.setattr("holdfast.script._POLL", 0.01)
    monkeypatch.setattr(SqliteStore, "list_workers", away)
    assert holdfast.run(patient, url=database_url) >= 3


@pytest.mark.parametrize("poll", [0, 0.5], ids=["and is asked about before anybody had it", "and has time"])
def test_a_run_that_was_blocked_goes_on_with_fixed_code_under_its_key(database_url, monkeypatch, poll):
    @workflow(name="order")
    async def forgetful() -> int:
        double(1)
        return 0

    @workflow(name="order")
    async def fixed() -> int:
        return await double(1)

    for _ in range(2):
        with pytest.raises(NeverAwaited):
            holdfast.run(forgetful, key="k", url=database_url)
    monkeypatch.setattr("holdfast.script._POLL", poll)
    assert holdfast.run(fixed, key="k", url=database_url) == 2


def test_a_script_waits_until_the_worker_with_the_fixed_code_has_taken_the_blocked_run(database_url, monkeypatch):
    @workflow(name="order")
    async def forgetful() -> int:
        double(1)
        return 0

    @workflow(name="order")
    async def fixed() -> int:
        return await double(1)

    with pytest.raises(NeverAwaited):
        holdfast.run(forgetful, key="k", url=database_url)
    list_workers, claim_runs = SqliteStore.list_workers, SqliteStore.claim_runs
    asked = 0

    async def counted(self: SqliteStore) -> list[WorkerRecord]:
        nonlocal asked
        found = await list_workers(self)
        asked += bool(found)
        return found

    async def late(self: SqliteStore, *args: Any, **options: Any) -> Any:
        # The second question shows that the answer to the first one was no reason to give up.
        await until(lambda: asked > 1)
        return await claim_runs(self, *args, **options)

    monkeypatch.setattr("holdfast.script._POLL", 0.01)
    monkeypatch.setattr(SqliteStore, "list_workers", counted)
    monkeypatch.setattr(SqliteStore, "claim_runs", late)
    assert holdfast.run(fixed, key="k", url=database_url) == 2
