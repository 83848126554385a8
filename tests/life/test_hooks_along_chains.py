"""Hooks of a run that goes on in another: each is the same hook there, by its own token, until it is resumed."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, AsyncRun, Retry, RunStatus, Worker, step, workflow
from holdfast.errors import BadPayload, HookExpired, HookUsed
from holdfast.testing import Environment, assert_durable
from tests.life.approvals import Approval, Renamed
from tests.life.waiting import until, until_waiting


def tell(n: int, *hooks: holdfast.Hook[Any]) -> None:
    """Let the world know the tokens of the n-th run of a chain."""
    holdfast.set_value(f"tokens {n}", [hook.token for hook in hooks])


async def told(run: AsyncRun[Any], n: int) -> list[str]:
    """The same, once it is there."""

    async def is_told() -> bool:
        return await run.value(f"tokens {n}", default=None) is not None

    await until(is_told)
    found: list[str] = await run.value(f"tokens {n}")
    return found


async def until_last_waits(client: AsyncClient, run: AsyncRun[Any]) -> AsyncRun[Any]:
    """Until the last run that goes on from this one waits, or has ended: that one."""
    last = run

    async def is_waiting() -> bool:
        nonlocal last
        record = (await last.refresh()).record
        if record.successor_id is not None:
            last = await client.get_run(record.successor_id)
        return last.status is RunStatus.WAITING or last.status is RunStatus.COMPLETED

    await until(is_waiting)
    return last


@workflow
async def two_of_one_name(n: int, last: int) -> list[Any]:
    first: Any = holdfast.hook(name="answer")
    second: Any = holdfast.hook(name="answer")
    tell(n, first, second)
    if n < last:
        await holdfast.wait_for_signal("on")
        two_of_one_name.continue_as_new(n + 1, last)
    return [await first.wait(), await second.wait()]


@pytest.mark.parametrize("sent_in", [(0, 0), (0, 1), (1, 0), (2, 2), (2, 0)])
async def test_each_of_two_hooks_of_one_name_is_resumed_by_its_own_token(url: str, sent_in: tuple[int, int]):
    """The second is resumed first if both are in the same run."""
    async with AsyncClient(url) as client, Worker(client, workflows=[two_of_one_name]):
        run = await client.start(two_of_one_name, 0, 2)
        tokens = await told(run, 0)
        for n in range(3):
            assert await told(run, n) == tokens
            await until_last_waits(client, run)
            for which in (1, 0):
                if sent_in[which] == n:
                    await client.resume_hook(tokens[which], which)
            if n < 2:
                await run.signal("on")
        assert await run.result(timeout=60) == [0, 1]
        for token in tokens:
            with pytest.raises(HookUsed):
                await client.resume_hook(token, 3)


def test_payloads_find_their_hooks_along_a_chain_wherever_a_worker_dies():
    @workflow
    async def body(n: int) -> list[Any]:
        first: Any = holdfast.hook(name="answer")
        second: Any = holdfast.hook(name="answer")
        tell(n, first, second)
        if n < 2:
            await holdfast.sleep("1h")
            body.continue_as_new(n + 1)
        return [await first.wait(), await second.wait()]

    async def drive(env: Environment, run: Any) -> None:
        await env.skip("1m")
        tokens = await run.value("tokens 0")
        await env.client.resume_hook(tokens[1], "second", message_id="2")
        await env.skip("1h")
        await env.client.resume_hook(tokens[0], "first", message_id="1")
        assert await run.result() == ["first", "second"]

    assert_durable(body, 0, drive=drive)


async def test_a_second_hook_of_the_same_name_has_a_token_of_its_own_once_the_first_was_read():
    @workflow
    async def asking(n: int) -> Any:
        hook: Any = holdfast.hook(name="answer")
        tell(n, hook)
        found = await hook.wait()
        return found if n == 2 else asking.continue_as_new(n + 1)

    async with Environment(asking) as env:
        run = await env.client.start(asking, 0)
        tokens = []
        for n in range(3):
            await env.until_waiting(run)
            tokens += await run.value(f"tokens {n}")
            await env.client.resume_hook(tokens[n], n)
        assert await run.result() == 2
    assert len(set(tokens)) == 3


@pytest.mark.parametrize("expires", ["30d", None])
async def test_a_hook_that_one_run_of_a_chain_does_not_make_is_there_for_the_next_run(expires):
    @workflow
    async def asking(n: int) -> Any:
        if n == 1:
            other: Any = holdfast.hook(name="other")
            tell(1, other)
            await holdfast.sleep("1h")
            asking.continue_as_new(2)
        hook: Any = holdfast.hook(name="answer", expires=expires)
        tell(n, hook)
        return await hook.wait() if n == 2 else asking.continue_as_new(1)

    async with Environment(asking) as env:
        run = await env.client.start(asking, 0)
        await env.skip("30m")
        [token] = await run.value("tokens 0")
        assert await run.value("tokens 1") != [token]
        await env.client.resume_hook(token, "yes")
        assert await run.result() == "yes"
        assert await run.value("tokens 2") == [token]


async def test_a_payload_finds_its_own_of_two_hooks_behind_a_run_that_makes_neither_of_them():
    @workflow
    async def passing(n: int) -> Any:
        if n == 1:
            passing.continue_as_new(2)
        first: Any = holdfast.hook(name="answer")
        second: Any = holdfast.hook(name="answer")
        if n == 0:
            tell(0, first, second)
            await holdfast.wait_for_signal("on")
            passing.continue_as_new(1)
        return await second.wait()

    async with Environment(passing) as env:
        run = await env.client.start(passing, 0)
        await env.until_waiting(run)
        _, token = await run.value("tokens 0")
        await env.client.resume_hook(token, "for the second")
        await run.signal("on")
        assert await run.result(timeout="1h") == "for the second"


async def test_a_hook_that_the_next_run_makes_again_expires_as_that_run_says():
    @workflow
    async def asking(n: int) -> Any:
        hook: Any = holdfast.hook(name="answer", expires="1h" if n == 0 else "10h")
        tell(n, hook)
        if n == 0:
            await holdfast.sleep("30m")
            asking.continue_as_new(1)
        return await hook.wait()

    async with Environment(asking) as env:
        run = await env.client.start(asking, 0)
        await env.skip("5h")
        [token] = await run.value("tokens 0")
        await env.client.resume_hook(token, "late")
        assert await run.result() == "late"


async def test_a_hook_that_no_later_run_makes_again_expires_at_its_first_time():
    @workflow
    async def asking(n: int) -> None:
        if n == 0:
            tell(n, holdfast.hook(name="answer", expires="1h"))
        else:
            await holdfast.sleep("2h")
        asking.continue_as_new(n + 1)

    async with Environment(asking) as env:
        run = await env.client.start(asking, 0)
        await env.skip("1m")
        second = (await run.refresh()).record.successor_id
        assert (await env.client.journal(second))[0].note == "hooks open: answer"
        await env.skip("2h")
        [token] = await run.value("tokens 0")
        with pytest.raises(HookExpired):
            await env.client.resume_hook(token, "late")
        third = (await env.client.get_run(second)).record.successor_id
        assert (await env.client.journal(third))[0].note is None, "nobody can come any more"


async def test_a_retry_of_a_chain_s_last_run_is_resumed_by_the_token_that_the_chain_carried_on(url: str):
    failures = [ConnectionError("down")]

    @step(retry=Retry(attempts=1))
    async def connect() -> None:
        if failures:
            raise failures.pop()

    @workflow
    async def asking(n: int) -> Any:
        hook: Any = holdfast.hook(name="answer")
        tell(n, hook)
        if n == 0:
            asking.continue_as_new(1)
        await connect()
        return await hook.wait()

    async with AsyncClient(url) as client, Worker(client, workflows=[asking]):
        run = await client.start(asking, 0)
        with pytest.raises(holdfast.RunFailed):
            await run.result(timeout=60)
        [token] = await told(run, 0)
        again = await client.retry((await run.refresh()).record.successor_id)
        await until_waiting(again)
        await client.resume_hook(token, "yes")
        assert await again.result(timeout=60) == "yes"


async def test_a_fork_of_a_chain_s_last_run_has_a_token_of_its_own(url: str):
    @step
    async def look() -> None:
        pass

    @workflow
    async def asking(n: int) -> Any:
        if n == 0:
            tell(n, holdfast.hook(name="answer"))
            asking.continue_as_new(1)
        await look()
        hook: Any = holdfast.hook(name="answer")
        tell(n, hook)
        return await hook.wait()

    async with AsyncClient(url) as client, Worker(client, workflows=[asking]):
        run = await client.start(asking, 0)
        [token] = await told(run, 1)
        assert await told(run, 0) == [token]
        last = await until_last_waits(client, run)
        fork = await client.fork(last.id, at="look")
        [other] = await told(fork, 1)
        assert other != token
        await client.resume_hook(token, "run")
        await client.resume_hook(other, "fork")
        assert (await run.result(timeout=60), await fork.result(timeout=60)) == ("run", "fork")


@workflow
async def changing(n: int) -> str:
    hook: Any = holdfast.hook(name="go", type=Approval if n == 0 else Renamed)
    tell(n, hook)
    if n == 0:
        await holdfast.wait_for_signal("on")
        changing.continue_as_new(1)
    return repr(await hook.wait())


async def test_a_payload_for_a_hook_is_checked_against_the_type_that_the_live_run_expects(url: str):
    async with AsyncClient(url) as client, Worker(client, workflows=[changing]):
        run = await client.start(changing, 0)
        [token] = await told(run, 0)
        await run.signal("on")
        await told(run, 1)
        await until_last_waits(client, run)
        with pytest.raises(BadPayload):
            await client.resume_hook(token, {"manager": "Ada"})
        await client.resume_hook(token, {"by": "Bob"})
        assert await run.result(timeout=60) == "Renamed(by='Bob')"


async def test_a_payload_that_fitted_one_run_and_that_the_next_can_t_read_blocks_the_next(url: str):
    """Nobody can send it twice: the token is used up."""
    async with AsyncClient(url) as client, Worker(client, workflows=[changing]):
        run = await client.start(changing, 0)
        [token] = await told(run, 0)
        await until_waiting(run)
        await client.resume_hook(token, {"manager": "Ada"})
        await run.signal("on")

        async def is_blocked() -> bool:
            last = await until_last_waits(client, run)
            return "is blocked" in str(await client.explain(last.id))

        await until(is_blocked)
        with pytest.raises(HookUsed):
            await client.resume_hook(token, {"by": "Bob"})
