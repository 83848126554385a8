"""Items of a map that are tried again: they get what the first attempt got, as the arguments of any other step."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, Retry, Worker, current_step, step, workflow
from holdfast.testing import Environment

THRICE = Retry(attempts=3, initial=0, jitter=0)
seen: list[list[int]] = []


def work(item: list[int]) -> int:
    seen.append([*item])
    item.append(0)
    if current_step().attempt < 3:
        raise ConnectionError
    return len(item)


@step(retry=THRICE)
async def on_the_loop(item: list[int]) -> int:
    return work(item)


@step(retry=THRICE)
def in_a_thread(item: list[int]) -> int:
    return work(item)


@step(retry=THRICE, timeout="1m")
def in_a_thread_in_time(item: list[int]) -> int:
    return work(item)


@workflow
async def mapping(which: int) -> list[int]:
    target: Any = [on_the_loop, in_a_thread, in_a_thread_in_time][which]
    return await holdfast.map(target, [[1], [2]], chunk=2)


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_an_item_that_an_attempt_has_changed_is_given_to_the_next_as_it_was(which):
    seen.clear()
    async with AsyncClient("sqlite:///:memory:") as client, Worker(client, workflows=[mapping]):
        assert await (await client.start(mapping, which)).result("30s") == [2, 2]
    assert seen == [[1]] * 3 + [[2]] * 3


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_an_environment_gives_an_item_that_an_attempt_has_changed_to_the_next_attempt_as_it_was(which):
    seen.clear()
    async with Environment(mapping) as env:
        assert await (await env.client.start(mapping, which)).result() == [2, 2]
    assert seen == [[1]] * 3 + [[2]] * 3
