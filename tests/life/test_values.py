"""What a client sees of a live run: values, streams and changes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, NotEncodable, Retry, RunFailed, RunStatus, StreamItem, Worker, step, workflow
from holdfast.testing import Environment, assert_durable
from tests.life.waiting import until, until_waiting


@dataclass
class Progress:
    done: int
    of: int


@step
async def report(n: int) -> int:
    holdfast.set_value("from a step", n)
    holdfast.emit("steps", n)
    return n


@workflow
async def telling() -> None:
    holdfast.set_value("stage", "begun")
    holdfast.emit("log", "begun")
    await holdfast.wait_for_signal("go")
    holdfast.set_value("stage", "done")
    holdfast.emit("log", "done")


@workflow
async def reporting() -> int:
    total = 0
    for number in range(3):
        total += await report(number)
    return total


@workflow
async def long_telling() -> None:
    for number in range(5):
        holdfast.emit("log", number)
        await holdfast.sleep("1m")


async def test_a_value_is_seen_with_the_turn_that_set_it():
    async with Environment(telling) as env:
        run = await env.client.start(telling)
        assert await run.value("stage", default="not yet") == "not yet"
        await env.until_waiting(run)
        assert await run.value("stage") == "begun"
        await run.signal("go")
        await run.result()
        assert await run.value("stage") == "done"


async def test_a_value_that_was_never_set_is_the_default():
    async with Environment(telling) as env:
        run = await env.client.start(telling)
        assert await run.value("nothing") is None
        assert await run.value("nothing", default=5) == 5


async def test_a_value_set_in_a_step_is_seen_at_once():
    seen: list[Any] = []

    @step
    async def slow() -> None:
        holdfast.set_value("half", 50)
        begun.set()
        await go_on.wait()

    @workflow
    async def halving() -> None:
        await slow()

    begun, go_on = asyncio.Event(), asyncio.Event()
    async with Environment(halving) as env:
        run = await env.client.start(halving)
        waiting = asyncio.ensure_future(run.result())
        await begun.wait()

        async def is_seen() -> bool:
            seen.append(await run.value("half"))
            return seen[-1] == 50

        await until(is_seen)
        assert not waiting.done()
        go_on.set()
        await waiting
    assert seen[-1] == 50


async def test_a_value_may_be_set_by_a_plain_step():
    @step
    def plain() -> None:
        holdfast.set_value("who", "a thread")
        holdfast.emit("log", "from a thread")

    @workflow
    async def calling() -> None:
        plain()

    async with Environment(calling) as env:
        run = await env.client.start(calling)
        await run.result()
        assert await run.value("who") == "a thread"
        assert [item.value async for item in run.stream("log")] == ["from a thread"]


async def test_values_of_an_ended_run_can_be_read():
    async with Environment(reporting) as env:
        run = await env.client.start(reporting)
        assert await run.result() == 3
        assert await run.value("from a step") == 2


async def test_a_stream_yields_what_was_emitted_in_order_and_ends_with_the_run():
    async with Environment(long_telling) as env:
        run = await env.client.start(long_telling)
        await run.wait()
        assert [item.value async for item in run.stream("log")] == [0, 1, 2, 3, 4]


async def test_a_stream_goes_on_behind_an_offset():
    async with Environment(long_telling) as env:
        run = await env.client.start(long_telling)
        await run.wait()
        items = [item async for item in run.stream("log")]
        assert [item.value async for item in run.stream("log", after=items[1].offset)] == [2, 3, 4]


async def test_nothing_is_emitted_twice_though_every_turn_replays():
    async with Environment(telling) as env:
        run = await env.client.start(telling)
        await env.until_waiting(run)
        await run.signal("go")
        await run.result()
        assert [item.value async for item in run.stream("log")] == ["begun", "done"]


async def test_an_item_says_which_step_and_attempt_sent_it():
    async with Environment(reporting) as env:
        run = await env.client.start(reporting)
        await run.result()
        items = [item async for item in run.stream("steps")]
        assert [(item.step, item.attempt, item.reset) for item in items] == [
            ("report", 1, False),
            ("report:1", 1, False),
            ("report:2", 1, False),
        ]


async def test_an_item_from_a_body_has_no_step():
    async with Environment(long_telling) as env:
        run = await env.client.start(long_telling)
        await run.wait()
        assert {item.step async for item in run.stream("log")} == {None}


async def test_the_next_attempt_of_a_step_resets_the_items_that_the_last_one_sent():
    @step(retry=Retry(attempts=2, initial="1m", jitter=0))
    async def flaky() -> None:
        holdfast.emit("words", "half")
        if holdfast.current_step().attempt == 1:
            raise ConnectionError
        holdfast.emit("words", "whole")

    @workflow
    async def speaking() -> None:
        await flaky()

    async with Environment(speaking) as env:
        run = await env.client.start(speaking)
        await run.result()
        items = [item async for item in run.stream("words")]
        assert [(item.value, item.attempt, item.reset) for item in items if not item.reset] == [
            ("half", 1, False),
            ("whole", 2, False),
        ] or [(item.value, item.attempt, item.reset) for item in items] == [
            ("half", 1, False),
            ("half", 2, True),
            ("whole", 2, False),
        ]
        assert any(item.reset for item in items)


async def test_a_follower_can_tell_items_of_one_run_of_a_chain_from_those_of_another_run_s_step():
    @step(retry=Retry(attempts=2, initial="1m", jitter=0))
    async def flaky(month: int) -> None:
        holdfast.emit("words", month)
        if holdfast.current_step().attempt == 1:
            raise ConnectionError

    @workflow
    async def speaking(month: int) -> None:
        await flaky(month)
        if month < 3:
            holdfast.continue_as_new(month + 1)

    async with Environment(speaking) as env:
        run = await env.client.start(speaking, 1)
        await run.result()
        kept: list[StreamItem[Any]] = []
        async for item in run.stream("words"):
            if item.reset:
                kept = [one for one in kept if (one.origin_id, one.step) != (item.origin_id, item.step)]
            kept.append(item)
        assert [item.value for item in kept] == [1, 2, 3]


async def test_items_of_a_retry_bear_the_origin_of_the_run_that_it_goes_on_with():
    @step(retry=Retry(attempts=1))
    async def sad_once() -> None:
        holdfast.emit("words", "sad")
        if len(tries) < 2:
            raise ConnectionError(tries.append("sad"))

    @workflow
    async def speaking() -> None:
        await sad_once()

    tries: list[str] = ["begun"]
    async with Environment(speaking) as env:
        run = await env.client.start(speaking)
        await run.wait()
        again = await env.client.retry(run.id)
        await again.result()
        items = [item async for item in again.stream("words")]
        assert [(item.origin_id, item.reset) for item in items] == [(run.id, False), (run.id, True)]


async def test_a_typed_stream_yields_instances():
    @workflow
    async def progressing() -> None:
        holdfast.emit("progress", Progress(1, 2))
        holdfast.set_value("progress", Progress(1, 2))

    async with Environment(progressing) as env:
        run = await env.client.start(progressing)
        await run.wait()
        assert [item.value async for item in run.stream("progress", type=Progress)] == [Progress(1, 2)]


async def test_two_streams_of_a_run_do_not_mix():
    @workflow
    async def two() -> None:
        holdfast.emit("a", 1)
        holdfast.emit("b", 2)

    async with Environment(two) as env:
        run = await env.client.start(two)
        await run.wait()
        assert [item.value async for item in run.stream("b")] == [2]


async def test_emitting_outside_a_run_is_refused():
    with pytest.raises(holdfast.NotInRun):
        holdfast.emit("log", 1)


def test_values_and_streams_survive_a_crash_at_every_commit():
    async def drive(env: Any, run: Any) -> None:
        await run.signal("go", message_id="1")
        await run.wait()
        assert await run.value("stage") == "done"
        assert [item.value async for item in run.stream("log")] == ["begun", "done"]

    assert_durable(telling, drive=drive)


async def test_changes_of_a_run_end_when_it_ends(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[telling]):
        run = await client.start(telling)
        await until_waiting(run)
        seen: list[RunStatus] = []
        async with asyncio.timeout(30):
            async for status in run.changes():
                seen.append(status)
                if status is RunStatus.WAITING:
                    await run.signal("go")
        assert seen[-1] is RunStatus.COMPLETED


async def test_a_stream_is_followed_live_on_every_store(url):
    async with AsyncClient(url) as client, Worker(url, workflows=[telling]):
        run = await client.start(telling)
        seen: list[Any] = []
        async with asyncio.timeout(30):
            async for item in run.stream("log"):
                seen.append(item.value)
                if item.value == "begun":
                    await run.signal("go")
        assert seen == ["begun", "done"]
        assert await run.value("stage") == "done"


async def test_items_sent_by_steps_are_kept_in_order_on_every_store(url):
    @step
    async def many() -> None:
        for number in range(200):
            holdfast.emit("numbers", number)

    @workflow
    async def numbering() -> None:
        await many()

    async with AsyncClient(url) as client, Worker(url, workflows=[numbering]):
        run = await client.start(numbering)
        async with asyncio.timeout(30):
            assert [item.value async for item in run.stream("numbers")] == list(range(200))


@workflow
async def sender(how: str, in_step: bool, is_large: bool) -> None:
    what = "x" * 5_000_000 if is_large else object()
    if in_step:
        await holdfast.call("send", lambda: getattr(holdfast, how)("news", [what]))
    elif how == "signal":
        holdfast.signal("nobody", "news", [what])
    else:
        getattr(holdfast, how)("news", [what])


@pytest.mark.parametrize("is_large", [False, True], ids=["unencodable", "too large"])
@pytest.mark.parametrize(
    ("how", "in_step"),
    [("emit", False), ("emit", True), ("set_value", False), ("set_value", True), ("signal", False), ("publish", False)],
)
async def test_a_value_or_item_that_can_t_be_stored_is_reported_with_the_call_and_its_name(how, in_step, is_large):
    told = "5,000,004 bytes, more than the limit" if is_large else "object can't be stored"
    async with Environment(sender) as env:
        run = await env.client.start(sender, how, in_step, is_large)
        with pytest.raises(RunFailed, match=rf"{how}\('news'\): value(\[0\])?: {told}"):
            await run.result()


async def test_a_payload_that_a_client_can_t_store_is_reported_with_the_call_and_its_name():
    async with Environment(sender) as env:
        client = env.client
        run = await client.start(sender, "emit", False, False, delay="1d")
        for sending, told in (
            (client.signal(run.id, "news", object()), r"signal\('news'\): value: object"),
            (client.publish("news", {"of": object()}), r"publish\('news'\): value\['of'\]: object"),
            (client.resume_hook("a secret", object()), r"resume_hook\(\): value: object"),
            (client.fork(run.id, at="send", result=object()), r"fork\(\): value: object"),
        ):
            with pytest.raises(NotEncodable, match=rf"^{told} can't be stored"):
                await sending
