"""What a body asks about itself is the same on every replay, and no run sees another's."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging

import pytest

from holdfast import NotInRun, current_run, current_step, logger, now, rng, uuid4, workflow
from holdfast.engine import Runners
from tests.engine.drive import note
from tests.engine.samples import double, triple

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


def test_random_numbers_are_the_same_on_replay(begin):
    @workflow
    async def body() -> float:
        note(rng().random(), rng().randrange(1000))
        await double(1)
        note(rng().random())
        return rng().random()

    begin(body).finish().check()


def test_random_numbers_go_on_after_a_step(begin):
    @workflow
    async def body() -> bool:
        first = rng().random()
        await double(1)
        return rng().random() != first

    assert begin(body).finish().check().result is True


def test_two_runs_draw_different_random_numbers(begin):
    @workflow
    async def body() -> float:
        return rng().random()

    assert begin(body, seed=b"one" * 6).result != begin(body, seed=b"two" * 6).result


def test_uuids_are_the_same_on_replay_and_differ_from_each_other(begin):
    @workflow
    async def body() -> bool:
        one, two = uuid4(), uuid4()
        note(one, two)
        await double(1)
        note(uuid4())
        return one != two

    assert begin(body).finish().check().result is True


def test_a_uuid_is_of_version_4(begin):
    @workflow
    async def body() -> int:
        return uuid4().version or 0

    assert begin(body).result == 4


def test_uuids_do_not_depend_on_the_random_numbers(begin):
    """What one part of a body draws does not change another part's ids."""

    @workflow
    async def body(throws: int) -> str:
        for _ in range(throws):
            rng().random()
        return str(uuid4())

    assert begin(body, 0).result == begin(body, 3).result


def test_random_numbers_in_concurrent_branches_are_the_same_on_replay(begin):
    @workflow
    async def body() -> list[int]:
        async def branch(n: int) -> int:
            await double(n)
            found = rng().randrange(10**9)
            note(n, found)
            return found

        return list(await asyncio.gather(branch(1), branch(2), branch(3)))

    drive = begin(body)
    for key in ("double:2", "double", "double:1"):
        drive.complete(key)
    drive.check()


def test_the_logger_is_silent_on_replay(begin, caplog):
    @workflow
    async def body() -> None:
        logger.info("one")
        await double(1)
        logger.info("two")
        await double(2)
        logger.info("three")

    caplog.set_level(logging.INFO, "holdfast.run")
    drive = begin(body)
    drive.complete("double")
    drive.execution = drive.replay()
    drive.complete("double:1")
    assert [record.getMessage() for record in caplog.records] == ["one", "two", "three"]


def test_a_callback_that_fails_is_reported_live_and_not_on_replay(begin, caplog):
    @workflow
    async def body() -> None:
        asyncio.get_running_loop().call_soon(int, "not a number")
        await double(1)
        await double(2)

    drive = begin(body).finish()
    assert len(caplog.records) == 1
    drive.check()
    assert len(caplog.records) == 1


def test_the_logger_is_silent_in_a_body_that_is_put_away(begin, caplog):
    @workflow
    async def body() -> None:
        try:
            await double(1)
        finally:
            logger.info("over")

    caplog.set_level(logging.INFO, "holdfast.run")
    drive = begin(body)
    drive.execution.put_away()
    drive.execution = drive.replay()
    assert caplog.records == []
    drive.complete("double")
    assert [record.getMessage() for record in caplog.records] == ["over"]


def test_a_finalizer_that_runs_while_a_body_advances_may_log(begin, caplog):
    class Leak:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            logger.info("leaked")

    @workflow
    async def body() -> None:
        Leak()
        gc.collect()

    caplog.set_level(logging.INFO, "holdfast.run")
    begin(body)
    assert [record.getMessage() for record in caplog.records] == ["leaked"]


def test_a_log_line_says_which_run_it_belongs_to(begin, caplog):
    @workflow
    async def body() -> None:
        logger.info("one")

    caplog.set_level(logging.INFO, "holdfast.run")
    begin(body)
    assert caplog.records[0].run_id == "run-1"  # type: ignore[attr-defined]


def test_a_context_variable_of_one_run_is_not_seen_by_another(begin):
    @workflow
    async def body(name: str) -> str:
        TENANT.set(name)
        await double(1)
        return TENANT.get()

    runners = Runners()
    one, two = begin(body, "a", runners=runners), begin(body, "b", runners=runners, run_id="run-2")
    assert [two.finish().result, one.finish().result] == ["b", "a"]
    assert TENANT.get() == "nobody"


def test_a_context_variable_of_one_def_body_is_not_seen_by_another(begin):
    @workflow
    def body(name: str) -> str:
        before = TENANT.get()
        TENANT.set(name)
        triple(1)
        return f"{before} {TENANT.get()}"

    runners = Runners()
    one, two = begin(body, "a", runners=runners), begin(body, "b", runners=runners, run_id="run-2")
    assert [two.finish().result, one.finish().result] == ["nobody b", "nobody a"]
    assert TENANT.get() == "nobody"


def test_nothing_of_the_workers_context_leaks_into_a_body(begin):
    @workflow
    async def body() -> str:
        return TENANT.get()

    token = TENANT.set("the worker's")
    try:
        assert begin(body).result == "nobody"
    finally:
        TENANT.reset(token)


def test_a_task_of_a_body_copies_the_context_of_its_maker(begin):
    @workflow
    async def body() -> str:
        TENANT.set("a")

        async def child() -> str:
            found = TENANT.get()
            TENANT.set("child's")
            await double(1)
            return found

        return f"{await asyncio.create_task(child())} {TENANT.get()}"

    assert begin(body).finish().check().result == "a a"


def test_a_context_variable_survives_a_def_step(begin):
    @workflow
    async def body() -> list[str]:
        async def one(name: str) -> str:
            TENANT.set(name)
            triple(1)
            return TENANT.get()

        return list(await asyncio.gather(one("a"), one("b")))

    drive = begin(body)
    drive.complete("triple:1")
    drive.complete("triple")
    assert drive.check().result == ["a", "b"]


def test_the_current_run_is_known_in_a_body(begin):
    @workflow
    async def body() -> str:
        return f"{current_run().id} {current_run().workflow} {current_run().attempt}"

    assert begin(body).result == "run-1 body 1"


def test_the_current_step_is_not_known_in_a_body(begin):
    @workflow
    async def body() -> None:
        current_step()

    assert isinstance(begin(body).error, NotInRun)


@pytest.mark.parametrize("ask", [now, rng, uuid4, current_run, current_step])
def test_asking_about_the_run_outside_a_run_is_refused(ask):
    with pytest.raises(NotInRun, match="outside a run"):
        ask()


def test_the_journals_length_counts_inputs(begin):
    @workflow
    async def body() -> list[int]:
        lengths = [current_run().journal_length]
        await double(1)
        lengths.append(current_run().journal_length)
        await asyncio.gather(double(2), double(3))
        lengths.append(current_run().journal_length)
        return lengths

    assert begin(body).finish().check().result == [1, 2, 4]


def test_the_running_loop_of_the_host_is_restored_after_an_advance(begin):
    @workflow
    async def body() -> int:
        return await double(triple(1))

    async def host() -> bool:
        mine, task = asyncio.get_running_loop(), asyncio.current_task()
        drive = begin(body)
        drive.complete("triple", 3)
        drive.complete("double", 6)
        return asyncio.get_running_loop() is mine and asyncio.current_task() is task

    assert asyncio.run(host()) is True


def test_a_body_runs_in_a_loop_of_its_own(begin):
    loops: list[asyncio.AbstractEventLoop] = []

    @workflow
    async def body() -> None:
        loops.append(asyncio.get_running_loop())

    async def host() -> None:
        loops.append(asyncio.get_running_loop())
        begin(body)

    asyncio.run(host())
    assert loops[0] is not loops[1]
