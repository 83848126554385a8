"""Tasks hash by number and seed: sets in a body iterate alike on replay, and those of many runs fill one set evenly."""

from __future__ import annotations

import asyncio
from random import Random

from holdfast import workflow
from tests.engine.drive import note
from tests.engine.samples import double


@workflow
async def branches() -> list[int]:
    made = {asyncio.create_task(double(number)) for number in range(20)}
    note([hash(task) for task in made])
    return [await task for task in made]


def test_tasks_hash_alike_on_every_replay(begin):
    assert begin(branches, seed=b"sixteen or so of").finish().check().result


@workflow
async def promises() -> list[int]:
    loop = asyncio.get_running_loop()
    made = {loop.create_future() for _ in range(20)}
    note([hash(future) for future in made])
    return [await double(1)]


def test_futures_hash_alike_on_every_replay(begin):
    assert begin(promises).finish().check().result


@workflow
async def batches() -> list[int]:
    made = [asyncio.gather(double(number), double(-number)) for number in range(20)]
    done, _ = await asyncio.wait([*made, asyncio.gather(asyncio.gather(double(20)))])
    note([hash(one) for one in done])
    return [one.result()[0] for one in done if one in made]


def test_what_gather_returns_hashes_alike_on_every_replay(begin):
    assert begin(batches).finish().check().result


async def test_gathers_outside_bodies_hash_by_their_addresses():
    one, other = (asyncio.gather(task, task) for task in [asyncio.ensure_future(asyncio.sleep(0))] * 2)
    assert hash(one) != hash(other)
    assert {one, other} == {other, one}
    await asyncio.wait([one, other])


@workflow
async def cancelling_all() -> None:
    made = []
    for _ in range(13):
        made.append(asyncio.create_task(asyncio.sleep(60)))
        for _ in range(7):
            # So that the numbers of tasks are far apart, and some of them share a place in a small set.
            asyncio.get_running_loop().create_future()
    await double(1)
    note([task.get_name() for task in asyncio.all_tasks()])
    for task in made:
        task.cancel()


def test_all_tasks_of_a_body_are_in_order_whatever_other_runs_there_are(begin):
    for number in range(10):
        others = [begin(branches, seed=Random(100 * number + one).randbytes(16)) for one in range(number)]
        drive = begin(cancelling_all).finish()
        for other in others:
            other.close()
        drive.check()


async def test_all_tasks_outside_bodies_are_those_of_their_loop(begin):
    begin(branches)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_the_first_tasks_of_many_runs_do_not_collide(begin):
    runs = [begin(branches, seed=number.to_bytes(16, "little")) for number in range(500)]
    assert len({hash(run.execution.main) for run in runs}) == len(runs)
