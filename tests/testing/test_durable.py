"""assert_durable: a crash at every commit point, which a durable workflow survives."""

from __future__ import annotations

import asyncio
from typing import Any

import holdfast
from holdfast import FatalError, Retry, current_step, step, workflow
from holdfast.testing import assert_durable, takes
from tests.testing.orders import ORDER, charge, checkout, ship
from tests.testing.payments import paid, pay, paying


def test_every_write_is_a_commit_point_and_is_crashed_at_twice():
    found = assert_durable(paying, 100, effects=paid)
    assert [point.text for point in found.commits] == [
        "start of paying",
        "claim",
        "turn 1: started, step_asked pay, step_completed pay",
        "claim",
        "turn 2: timer_fired, step_asked pay:1, step_asked pay:2",
        "turn 3: step_completed pay:1",
        "turn 4: step_completed pay:2, ended completed",
    ]
    assert found.crashes == 2 * len(found.commits)


def test_stubs_stand_in_for_steps():
    assert_durable(checkout, ORDER, stubs={charge: "paid"})


def test_keyword_arguments_of_assert_durable_go_to_the_workflow():
    assert_durable(paying, cents=100)


def test_a_result_of_nan_counts_as_the_same_each_time():
    @step
    async def measure() -> list[float]:
        return [float("nan"), 1.0]

    @workflow
    async def measuring() -> float:
        return (await measure())[0]

    assert_durable(measuring)


def test_a_workflow_that_fails_in_the_same_way_each_time_is_durable():
    found = assert_durable(checkout, ORDER, stubs={charge: FatalError("no money")})
    assert found.commits[-1].text.endswith("step_failed charge, ended failed")


def test_retries_timeouts_and_whole_run_retries_survive_crashes():
    @workflow(retry=Retry(attempts=2, initial="1h"))
    async def stubborn() -> str:
        try:
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        except TimeoutError:
            pass
        if holdfast.current_run().attempt == 1:
            raise ValueError("try the whole again")
        return ship(ORDER, await pay(7))

    found = assert_durable(stubborn, stubs={ship: lambda *_: _fail_until(3)}, effects=paid)
    told = "; ".join(point.text for point in found.commits)
    assert "run_retrying" in told
    assert told.count("step_retrying ship") == 2


def test_steps_executed_again_by_a_retry_of_the_whole_run_are_no_defect():
    @workflow(retry=Retry(attempts=3, initial="1h"))
    async def apologetic() -> str:
        try:
            return ship.options(retry=Retry(attempts=1))(ORDER, "paid")
        except ValueError:
            await pay(-1)
            raise

    def stub(*_) -> str:
        if holdfast.current_run().attempt < 3:
            raise ValueError("not yet")
        return "shipped"

    found = assert_durable(apologetic, stubs={ship: stub}, effects=paid)
    assert sum("step_completed pay, run_retrying" in point.text for point in found.commits) == 2


def _fail_until(attempt: int) -> str:
    if current_step().attempt < attempt:
        raise ValueError("not yet")
    return "shipped"


def test_def_bodies_and_steps_in_threads_survive_crashes():
    @workflow
    def plain(n: int) -> list[int]:
        pendings = [add.start(n, k) for k in range(3)]
        return holdfast.blocking.gather(*pendings)

    @step
    def add(a: int, b: int) -> int:
        return a + b

    assert_durable(plain, 1)


def test_transactions_that_wait_for_one_another_survive_crashes():
    @step(transaction=True)
    def add(conn: Any, cents: int) -> int:
        conn.execute("create table if not exists cents (amount)")
        conn.execute("insert into cents values (?)", (cents,))
        return cents

    @workflow
    async def adding(cents: int) -> int:
        return add(cents)

    @workflow
    async def sharing() -> list[int]:
        return list(await asyncio.gather(add.start(1), add.start(2), adding(3)))

    assert assert_durable(sharing).commits[-1].text.endswith("ended completed")


def test_steps_that_take_their_time_are_in_flight_when_the_others_crash():
    @workflow
    async def parallel() -> list[str]:
        slow = [ship.start(ORDER, "paid"), pay.start(1)]
        return await asyncio.gather(pay(2), *slow)

    def pays(cents: int) -> object:
        return takes("1h", "late") if cents == 1 else "soon"

    found = assert_durable(parallel, stubs={ship: takes("20s", "shipped"), pay: pays})
    assert [point.text.partition(": ")[2] for point in found.commits][-2:] == [
        "step_completed ship",
        "step_completed pay, ended completed",
    ]


def test_max_crashes_does_not_block_a_run_under_assert_durable():
    @workflow(max_crashes=1)
    async def fragile() -> None:
        await pay(1)
        await holdfast.sleep(2)
        await pay(2)

    assert_durable(fragile, effects=paid)


def test_a_drive_of_assert_durable_may_cancel_the_run():
    async def drive(env, run) -> None:
        await env.skip("1d")
        await env.until_waiting(run)
        await run.cancel(reason="changed my mind")

    @workflow
    async def cleaning() -> None:
        try:
            await pay(1)
            await holdfast.sleep("30d")
        finally:
            await pay(-1)

    found = assert_durable(cleaning, drive=drive, effects=paid)
    assert found.commits[-1].text.endswith("ended cancelled")


def test_a_step_may_start_other_runs():
    @step
    async def begin() -> str:
        run = await client().start(paying.options(key="child"), 5)
        return run.workflow

    @holdfast.resource
    def client():
        yield None

    @workflow
    async def parent() -> str:
        return await begin()

    # Its client is the environment's own, so the start of the other run is a commit point like any other.
    class Late:
        async def start(self, *args):
            return await clients[-1].start(*args)

    async def drive(env, run) -> None:
        clients.append(env.client)

    clients = []
    found = assert_durable(parent, drive=drive, resources={client: Late()})
    assert "start of paying" in [point.text for point in found.commits]


def test_effects_may_be_a_function_that_returns_a_snapshot():
    snapshots = []

    def effects() -> dict[str, int]:
        snapshots.append(dict(paid))
        paid.clear()
        return snapshots[-1]

    paid.clear()
    found = assert_durable(paying, 100, effects=effects)
    # Undisturbed twice, once for each crash, and the two that found no more commit point to crash at.
    assert len(snapshots) == 2 + found.crashes + 2
    assert sorted(snapshots[0].values()) == [1, 2, 100]


def test_branches_that_race_may_come_to_steps_of_one_name_in_any_order():
    first = [0, 1]
    is_done = [asyncio.Event(), asyncio.Event()]

    @step
    async def begin(branch: int) -> None:
        if branch != first[0]:
            await is_done[first[0]].wait()

    @step
    async def finish(branch: int) -> int:
        is_done[branch].set()
        return branch

    @workflow
    async def racing() -> list[int]:
        async def one(branch: int) -> int:
            await begin(branch)
            return await finish(branch)

        return await asyncio.gather(one(0), one(1))

    def effects() -> None: ...

    def clear() -> None:
        first.reverse()
        is_done[:] = [asyncio.Event(), asyncio.Event()]

    effects.clear = clear
    assert_durable(racing, effects=effects)


async def test_assert_durable_works_inside_a_running_loop():
    assert assert_durable(paying, 1).crashes
