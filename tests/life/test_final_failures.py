"""What a step fails with for good is tried again by no policy: the step would be executed once more for nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import FatalError, NotEncodable, Retry, RunStatus, StepFailed, step, workflow
from holdfast.testing import Environment

AGAIN = Retry(attempts=4, initial="1s")
LARGE = 5_000_000
effects: list[str] = []
mended: list[str] = []


@pytest.fixture(autouse=True)
def afresh():
    effects.clear()
    mended.clear()


def come_to(what: str) -> Any:
    """The end of a step that has had its effect."""
    effects.append(what)
    if what in mended:
        return 1
    if what == "unserialisable":
        return object()
    if what == "oversized":
        return "x" * LARGE
    if what == "SystemExit":
        raise SystemExit(2)
    if what == "StopIteration":
        raise StopIteration
    if what == "BaseException":
        raise BaseException("odd")
    if what == "local FatalError":

        class Declined(FatalError):
            pass

        raise Declined("no funds")
    if what == "FatalError, too large to be kept":
        raise FatalError("x" * LARGE, "x" * LARGE)
    return "no number"


FINAL = (
    "unserialisable", "oversized", "of the wrong type", "SystemExit", "StopIteration", "BaseException",
    "local FatalError", "FatalError, too large to be kept",
)  # fmt: skip  # a name a line would be a page


@step
async def charge(what: str) -> Any:
    return come_to(what)


@step
def charge_blocking(what: str) -> Any:
    return come_to(what)


@step
async def count(what: str) -> int:
    found: int = come_to(what)
    return found


@step
def count_blocking(what: str) -> int:
    found: int = come_to(what)
    return found


@workflow(retry=AGAIN)
async def paying(what: str) -> None:
    await (count if what == "of the wrong type" else charge)(what)


@workflow(retry=AGAIN)
def paying_blocking(what: str) -> None:
    (count_blocking if what == "of the wrong type" else charge_blocking)(what)


@workflow
async def once(what: str) -> None:
    await charge(what)


@workflow
async def grouped_once(what: str) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(charge(what))


@workflow(retry=AGAIN)
async def among_tasks(what: str) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(charge(what))


@workflow(retry=AGAIN)
async def gathering(what: str) -> None:
    await asyncio.gather(charge(what), holdfast.sleep("1h"))


@workflow(retry=AGAIN)
async def mapping(what: str) -> None:
    await holdfast.map(charge, [what])


@workflow(retry=AGAIN)
def mapping_blocking(what: str) -> None:
    holdfast.blocking.map(charge_blocking, [what])


@workflow(retry=AGAIN)
async def of_a_child(what: str) -> None:
    await once(what)


@workflow(retry=AGAIN)
def of_a_child_blocking(what: str) -> None:
    holdfast.blocking.gather(once.start(what))


@workflow(retry=AGAIN)
async def of_a_group_in_a_child(what: str) -> None:
    await grouped_once(what)


@workflow(retry=AGAIN)
async def of_mapped_children(what: str) -> None:
    await holdfast.map(once, [what])


@pytest.mark.parametrize("what", FINAL)
@pytest.mark.parametrize("body", [paying, paying_blocking], ids=["async", "def"])
async def test_a_workflows_retry_does_not_execute_a_step_again_that_has_failed_for_good(body, what):
    async with Environment(body) as env:
        run = await env.client.start(body, what)
        assert await run.wait() is RunStatus.FAILED
    assert effects == [what]


@pytest.mark.parametrize("what", ["unserialisable", "SystemExit", "local FatalError"])
@pytest.mark.parametrize(
    "body",
    [
        among_tasks, gathering, mapping, mapping_blocking, of_a_child, of_a_child_blocking, of_a_group_in_a_child,
        of_mapped_children,
    ],
    ids=lambda body: body.name,
)  # fmt: skip  # as above
async def test_a_step_that_failed_for_good_in_a_task_map_or_child_is_not_executed_again_by_a_workflows_retry(
    body, what
):
    async with Environment([body, once, grouped_once]) as env:
        run = await env.client.start(body, what)
        assert await run.wait() is RunStatus.FAILED
    assert effects == [what]


async def test_a_step_that_failed_for_good_is_not_executed_again_by_a_workflows_retry_on_any_store(url):
    async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[of_a_child, once]):
        run = await client.start(of_a_child, "unserialisable")
        assert await run.wait(60) is RunStatus.FAILED
    assert effects == ["unserialisable"]


@pytest.mark.parametrize("body", [paying, paying_blocking], ids=["async", "def"])
@pytest.mark.parametrize("what", ["unserialisable", "SystemExit"])
async def test_a_run_whose_step_failed_for_good_may_be_retried_by_hand_once_the_step_is_mended(body, what):
    async with Environment(body) as env:
        run = await env.client.start(body, what)
        await run.wait()
        mended.append(what)
        again = await env.client.retry(run.id)
        assert await again.wait() is RunStatus.COMPLETED
    assert effects == [what, what]


async def test_an_exception_that_the_body_raises_from_a_final_failure_is_tried_again_like_any_error():
    @workflow(retry=AGAIN)
    async def renaming(what: str) -> None:
        try:
            await charge(what)
        except StepFailed as failed:
            raise ConnectionError("the till is stuck") from failed

    async with Environment(renaming) as env:
        await (await env.client.start(renaming, "SystemExit")).wait()
    assert len(effects) == 4


async def test_a_run_whose_step_never_began_as_its_argument_can_t_be_stored_is_tried_again():
    mended.append("a receipt")

    @workflow(retry=AGAIN)
    async def offering() -> Any:
        what: Any = object() if holdfast.current_run().attempt < 3 else "a receipt"
        return await charge(what)

    async with Environment(offering) as env:
        assert await (await env.client.start(offering)).result() == 1
    assert effects == ["a receipt"]


async def test_a_body_that_itself_raises_an_error_of_the_codec_is_tried_again():
    tries: list[int] = []

    @workflow(retry=AGAIN)
    async def refusing() -> None:
        tries.append(holdfast.current_run().attempt)
        raise NotEncodable("not mine")

    async with Environment(refusing) as env:
        await (await env.client.start(refusing)).wait()
    assert set(tries) == {1, 2, 3, 4}
