"""Hooks: one-time tokens that the outside resumes a run with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

import holdfast
from holdfast import (
    AsyncClient,
    BadPayload,
    DefinitionError,
    HookExpired,
    HookNotFound,
    HookUsed,
    RunEnded,
    RunStatus,
    WaitTimeout,
    Worker,
    blocking,
    step,
    workflow,
)
from holdfast.testing import Environment, assert_durable
from tests.life.waiting import until_waiting


@dataclass
class Answer:
    yes: bool


tokens: dict[str, str] = {}


@step
async def send(token: str) -> None:
    tokens[holdfast.current_step().run_id] = token


@workflow
async def asking() -> Any:
    hook = holdfast.hook()
    await send(hook.token)
    return await hook.wait()


@workflow
def asking_in_a_plain_body() -> Any:
    hook = blocking.hook()
    send(hook.token)
    return hook.wait()


@workflow
async def asking_for_an_answer() -> bool:
    hook = holdfast.hook(type=Answer)
    await send(hook.token)
    answer = await hook.wait()
    assert isinstance(answer, Answer)
    return answer.yes


@workflow
async def asking_for_an_hour() -> Any:
    hook = holdfast.hook(expires="1h")
    await send(hook.token)
    return await hook.wait()


@workflow
async def done_with_it() -> Any:
    hook = holdfast.hook()
    await send(hook.token)
    answer = await hook.wait()
    await holdfast.wait_for_signal("end")
    return answer


async def test_a_hook_resumes_its_run_with_a_payload():
    async with Environment(asking) as env:
        run = await env.client.start(asking)
        await env.until_waiting(run)
        await env.client.resume_hook(tokens[run.id], {"yes": True})
        assert await run.result() == {"yes": True}


async def test_a_plain_body_waits_for_a_hook_too():
    async with Environment(asking_in_a_plain_body) as env:
        run = await env.client.start(asking_in_a_plain_body)
        await env.until_waiting(run)
        await env.client.resume_hook(tokens[run.id], 5)
        assert await run.result() == 5


async def test_the_token_is_the_same_on_every_replay():
    @workflow
    async def comparing() -> bool:
        hook = holdfast.hook()
        before = hook.token
        await send(hook.token)
        await holdfast.sleep("1h")
        return tokens[holdfast.current_run().id] == hook.token == before

    async with Environment(comparing) as env:
        run = await env.client.start(comparing)
        assert await run.result()


async def test_two_hooks_have_two_tokens():
    @workflow
    async def two() -> list[Any]:
        first, second = holdfast.hook(name="first"), holdfast.hook(name="second")
        await send(f"{first.token} {second.token}")
        return [await first.wait(), await second.wait()]

    async with Environment(two) as env:
        run = await env.client.start(two)
        await env.until_waiting(run)
        first, second = tokens[run.id].split()
        await env.client.resume_hook(second, 2)
        await env.client.resume_hook(first, 1)
        assert await run.result() == [1, 2]


async def test_a_hook_resumed_before_its_wait_is_not_lost():
    @workflow
    async def later() -> Any:
        hook = holdfast.hook()
        await send(hook.token)
        await holdfast.sleep("1d")
        return await hook.wait()

    async with Environment(later) as env:
        run = await env.client.start(later)
        await env.until_waiting(run)
        await env.client.resume_hook(tokens[run.id], "early")
        assert await run.result() == "early"


async def test_a_hook_may_be_awaited_more_than_once():
    @workflow
    async def again() -> list[Any]:
        hook = holdfast.hook()
        await send(hook.token)
        return [await hook.wait(), await hook.wait()]

    async with Environment(again) as env:
        run = await env.client.start(again)
        await env.until_waiting(run)
        await env.client.resume_hook(tokens[run.id], 1)
        assert await run.result() == [1, 1]


async def test_a_hook_that_was_resumed_can_t_be_resumed_again():
    async with Environment(done_with_it) as env:
        run = await env.client.start(done_with_it)
        await env.until_waiting(run)
        await env.client.resume_hook(tokens[run.id], 1)
        await env.until_waiting(run)
        with pytest.raises(HookUsed):
            await env.client.resume_hook(tokens[run.id], 2)
        await run.signal("end")
        assert await run.result() == 1


@pytest.mark.parametrize("token", ["secret\ud800", b"secret"])
async def test_a_token_that_is_no_text_is_refused_and_not_shown(token):
    async with Environment(done_with_it) as env:
        with pytest.raises(DefinitionError, match="expected the token of a hook") as refused:
            await env.client.resume_hook(token)
        assert "secret" not in str(refused.value)


async def test_a_second_resume_before_the_run_saw_the_first_is_refused():
    async with Environment(done_with_it) as env:
        run = await env.client.start(done_with_it)
        await env.until_waiting(run)
        await env.client.resume_hook(tokens[run.id], 1)
        with pytest.raises(HookUsed):
            await env.client.resume_hook(tokens[run.id], 2)


async def test_the_hook_of_an_ended_run_cannot_be_resumed():
    @workflow
    async def leaving() -> None:
        hook = holdfast.hook()
        await send(hook.token)

    async with Environment(leaving) as env:
        run = await env.client.start(leaving)
        await run.wait()
        with pytest.raises((RunEnded, HookNotFound)):
            await env.client.resume_hook(tokens[run.id], 2)


async def test_a_token_nobody_made_is_not_found():
    async with Environment(asking) as env:
        with pytest.raises(HookNotFound):
            await env.client.resume_hook("nonsense", 2)


async def test_a_payload_that_does_not_fit_is_refused_and_the_hook_stays_open():
    async with Environment(asking_for_an_answer) as env:
        run = await env.client.start(asking_for_an_answer)
        await env.until_waiting(run)
        with pytest.raises(BadPayload):
            await env.client.resume_hook(tokens[run.id], {"yes": "perhaps"})
        await env.client.resume_hook(tokens[run.id], Answer(True))
        assert await run.result() is True


async def test_a_hook_expires_and_its_wait_says_so():
    async with Environment(asking_for_an_hour) as env:
        run = await env.client.start(asking_for_an_hour)
        assert await run.wait() is RunStatus.FAILED
        with pytest.raises(holdfast.RunFailed) as failed:
            await run.result()
        assert isinstance(failed.value.__cause__, WaitTimeout)


async def test_an_expired_hook_cannot_be_resumed():
    @workflow
    async def outliving() -> str:
        hook = holdfast.hook(expires="1h")
        await send(hook.token)
        try:
            return str(await hook.wait())
        except WaitTimeout:
            await holdfast.wait_for_signal("end")
            return "expired"

    async with Environment(outliving) as env:
        run = await env.client.start(outliving)
        await env.until_waiting(run)
        await env.skip("2h")
        await env.until_waiting(run)
        with pytest.raises(HookExpired):
            await env.client.resume_hook(tokens[run.id], 1)
        await run.signal("end")
        assert await run.result() == "expired"


async def test_a_hook_expires_after_thirty_days_by_default():
    async with Environment(asking) as env:
        begun = env.now
        run = await env.client.start(asking)
        await run.wait()
        assert (env.now - begun).days == 30


async def test_a_wait_for_a_hook_that_timed_out_leaves_the_hook_open():
    @workflow
    async def reminding() -> list[Any]:
        hook = holdfast.hook()
        await send(hook.token)
        reminders = 0
        while True:
            try:
                async with asyncio.timeout(3600):
                    return [await hook.wait(), reminders]
            except TimeoutError:
                reminders += 1

    async with Environment(reminding) as env:
        run = await env.client.start(reminding)
        await env.until_waiting(run)
        await env.skip("150m")
        await env.client.resume_hook(tokens[run.id], "at last")
        assert await run.result() == ["at last", 2]


def test_a_hook_survives_a_crash_at_every_commit():
    async def drive(env: Any, run: Any) -> None:
        await env.until_waiting(run)
        await env.client.resume_hook(tokens[run.id], {"yes": True}, message_id="1")

    assert_durable(asking, drive=drive)


class Rating(pydantic.BaseModel):
    stars: int = pydantic.Field(gt=0, le=5)
    mail: str = pydantic.Field(pattern="@")


@workflow
async def asking_for_a_rating() -> int:
    link: Any = holdfast.hook(type=Rating)
    tokens[holdfast.current_run().id] = link.token
    rating = await link.wait()
    assert isinstance(rating, Rating)
    return rating.stars


@pytest.mark.parametrize("payload", [{"stars": -3, "mail": "a@b"}, {"stars": 3, "mail": "nobody"}], ids=str)
async def test_a_payload_beyond_a_bound_of_its_model_is_refused_and_the_hook_stays_open(payload):
    async with Environment(asking_for_a_rating) as env:
        run = await env.client.start(asking_for_a_rating)
        await env.until_waiting(run)
        with pytest.raises(BadPayload):
            await env.client.resume_hook(tokens[run.id], payload)
        await env.client.resume_hook(tokens[run.id], {"stars": 3, "mail": "a@b"})
        assert await run.result() == 3


async def test_a_hook_resumed_while_no_worker_lives_reaches_the_next_one(url):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[asking_for_an_answer]):
            run = await client.start(asking_for_an_answer)
            await until_waiting(run)
        with pytest.raises(BadPayload):
            await client.resume_hook(tokens[run.id], {"no": 1})
        await client.resume_hook(tokens[run.id], Answer(True))
        with pytest.raises(HookUsed):
            await client.resume_hook(tokens[run.id], Answer(False))
        async with Worker(client, workflows=[asking_for_an_answer]):
            assert await run.result(timeout=30) is True


async def test_one_of_two_resumes_at_once_wins_and_the_other_is_refused(url):
    async with AsyncClient(url) as client, AsyncClient(url) as other, Worker(url, workflows=[asking]):
        run = await client.start(asking)
        await until_waiting(run)
        token = tokens[run.id]
        answers = await asyncio.gather(
            client.resume_hook(token, 1), other.resume_hook(token, 2), return_exceptions=True
        )
        told = [answer for answer in answers if answer is not None]
        assert len(told) == 1
        assert isinstance(told[0], (HookUsed, RunEnded))
        assert await run.result(timeout=30) == answers.index(None) + 1
