"""Signals, events and hooks (semantics §3, §5): buffered, matched, taken once, and the same on every replay."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import holdfast
from holdfast import WaitTimeout, blocking, wait_for_event, wait_for_signal, workflow
from holdfast.model import Message, SetAside, Signal
from tests.engine.drive import note
from tests.engine.samples import double


@workflow
async def two() -> list[Any]:
    first = await wait_for_signal("go")
    note(first)
    return [first, await wait_for_signal("go")]


def test_a_signal_is_taken_by_the_wait_for_its_name(begin):
    drive = begin(two)
    drive.signal("other", 0)
    assert drive.ended is None
    drive.signal("go", 1)
    drive.signal("go", None)
    assert drive.check().result == [1, None]


def test_an_early_signal_waits_and_the_first_one_comes_first(begin):
    @workflow
    async def body() -> list[Any]:
        await double(1)
        return [await wait_for_signal("go"), await wait_for_signal("go")]

    drive = begin(body)
    done = drive.signal("go", "a")
    assert (done.entries, done.taken) == ([], ())
    drive.signal("go", "b")
    done = drive.complete("double")
    assert done.taken == (1, 2)
    assert drive.check().result == ["a", "b"]


def test_a_wait_with_a_match_leaves_other_signals_in_place(begin):
    @workflow
    async def body() -> list[Any]:
        manager = await wait_for_signal("ok", match={"by": {"role": "manager"}})
        return [manager, await wait_for_signal("ok")]

    drive = begin(body)
    drive.signal("ok", {"by": {"role": "clerk"}})
    drive.signal("ok", {"by": {"role": "manager", "name": "x"}})
    assert drive.check().result == [{"by": {"role": "manager", "name": "x"}}, {"by": {"role": "clerk"}}]


def test_a_wait_that_times_out_raises_and_takes_no_signal(begin):
    @workflow
    async def body() -> Any:
        try:
            await wait_for_signal("go", timeout="1m")
        except WaitTimeout as late:
            note(str(late))
        return await wait_for_signal("go")

    drive = begin(body)
    drive.fire()
    assert drive.notes == ["no signal 'go' came within 1 min"] or "go" in drive.notes[0]
    drive.signal("go", 5)
    assert drive.check().result == 5


@pytest.mark.parametrize(("after", "expected"), [(60_000_000, "got"), (60_000_001, "late")])
def test_a_message_counts_as_in_time_up_to_the_moment_the_timeout_is_due(begin, after, expected):
    @workflow
    async def body() -> str:
        return await wait_for_signal("go", timeout="1m", default="late")

    drive = begin(body)
    sent_at = drive.at + after
    drive.at += 120_000_000
    drive.take(Message(1, drive.run_id, "signal", "go", b'"got"', sent_at, None))
    assert drive.result == expected


def test_what_arrived_before_a_message_is_not_recorded_at_an_earlier_time_behind_it(begin):
    @workflow
    async def body() -> list[Any]:
        return list(await asyncio.gather(wait_for_signal("go"), double(1), asyncio.sleep(60)))

    drive = begin(body)
    early, completed = drive.message("signal", "go", 5), drive.completed("double")
    fired = drive.fired()
    drive.tick()
    drive.take(early, completed, fired)
    assert [entry.kind for entry in drive.entries[-4:]] == ["signal", "step_completed", "timer_fired", "ended"]
    assert [entry.at for entry in drive.entries[-4:]] == [drive.at] * 4
    drive.check()


def test_a_message_from_a_clock_that_is_ahead_fires_no_timer_before_its_time(begin):
    @workflow
    async def body() -> str:
        return await wait_for_signal("go", timeout="1m", default="late")

    drive = begin(body)
    drive.take(Message(1, drive.run_id, "signal", "go", b'"got"', drive.at + 120_000_000, None))
    assert drive.result == "got"


def test_none_is_not_a_timeout(begin):
    @workflow
    async def body() -> str:
        got = await wait_for_signal("go", timeout="1m", default="late")
        return "none" if got is None else str(got)

    drive = begin(body)
    drive.signal("go", None)
    assert drive.check().result == "none"
    late = begin(body)
    late.fire()
    assert late.check().result == "late"


def test_a_cancelled_wait_consumes_nothing(begin):
    @workflow
    async def body() -> Any:
        waiting = asyncio.create_task(wait_for_signal("go"))  # type: ignore[arg-type]
        await double(1)
        waiting.cancel()
        return await wait_for_signal("go")

    drive = begin(body)
    drive.complete("double")
    drive.signal("go", 7)
    assert drive.check().result == 7


@dataclass
class Answer:
    yes: bool


def test_a_payload_of_the_wrong_type_is_set_aside_and_the_wait_goes_on(begin):
    @workflow
    async def body() -> bool:
        return (await wait_for_signal("answer", type=Answer)).yes

    drive = begin(body)
    done = drive.signal("answer", {"no": 1})
    assert isinstance(done.entries[0], SetAside)
    assert done.taken == (1,)
    drive.signal("answer", Answer(True))
    assert drive.check().result is True


def test_a_wait_that_has_set_a_signal_aside_is_registered_anew_and_closed_if_the_next_one_fits(begin):
    @workflow
    async def body() -> bool:
        answer = await wait_for_signal("answer", type=Answer)
        await double(1)
        return answer.yes

    aside, closed = begin(body), begin(body)
    [wait] = aside.out[0].waits
    aside.signal("answer", {"no": 1})
    assert aside.out[-1].waits == (wait,)
    bad, good = ({"no": 1}, {"yes": True})
    closed.take(closed.message("signal", "answer", bad), closed.message("signal", "answer", good))
    assert (closed.out[-1].waits, closed.out[-1].closed) == ((), (wait.number,))


def test_a_wait_with_a_type_is_registered_with_its_schema_and_closed(begin):
    @workflow
    async def body() -> bool:
        answer = await wait_for_signal("answer", type=Answer)
        await double(1)
        return answer.yes

    drive = begin(body)
    [wait] = drive.out[0].waits
    assert (wait.kind, wait.name) == ("signal", "answer")
    assert b"yes" in (wait.schema or b"")
    drive.signal("answer", Answer(True))
    assert drive.out[-1].closed == (wait.number,)


def test_waits_of_tasks_are_told_apart_on_replay(begin):
    @workflow
    async def body() -> list[Any]:
        return await asyncio.gather(*(wait_for_signal("go", match={"n": n}) for n in range(3)))

    drive = begin(body)
    for n in (2, 0, 1):
        drive.signal("go", {"n": n})
    assert drive.check().result == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_def_body_waits_for_signals(begin):
    @workflow
    def body() -> Any:
        return [blocking.wait_for_signal("go"), wait_for_signal("go")]

    drive = begin(body)
    drive.signal("go", 1)
    drive.signal("go", 2)
    assert drive.check().result == [1, 2]


def test_an_event_is_registered_and_taken(begin):
    @workflow
    async def body() -> Any:
        return await wait_for_event("paid", match={"order": 1})

    drive = begin(body)
    [wait] = drive.out[0].waits
    assert (wait.kind, wait.name, wait.match) == ("event", "paid", b'{"order":1}')
    drive.tell("event", "paid", {"order": 1, "cents": 5}, wait=wait.number)
    assert drive.check().result == {"order": 1, "cents": 5}


def test_an_event_that_was_found_for_a_younger_wait_goes_to_the_oldest_and_the_younger_one_waits_on(begin):
    @workflow
    async def body() -> list[int]:
        return await asyncio.gather(wait_for_event("paid"), wait_for_event("paid"))

    drive = begin(body)
    assert [wait.number for wait in drive.out[0].waits] == [1, 2]
    done = drive.tell("event", "paid", 3, wait=2)
    assert done.out.closed == (1,)
    assert [wait.number for wait in done.out.waits] == [2]
    drive.tell("event", "paid", 4, wait=2)
    assert drive.check().result == [3, 4]


def test_a_rebuilt_body_registers_its_wait_no_second_time_and_closes_it_when_it_is_over(begin):
    @workflow
    async def body() -> None:
        await wait_for_event("paid", timeout="1m", default=None)
        await double(1)

    drive = begin(body)
    assert [wait.number for wait in drive.out[0].waits] == [1]
    drive.execution = drive.replay()
    drive.signal("other")
    assert len(drive.out) == 1
    drive.fire()
    assert drive.out[-1].closed == (1,)


def test_an_event_found_for_a_wait_that_is_over_goes_to_the_next_wait(begin):
    @workflow
    async def body() -> Any:
        await wait_for_event("paid", timeout="1m", default=None)
        return await wait_for_event("paid")

    drive = begin(body)
    drive.fire()
    drive.tell("event", "paid", 3, wait=1)
    assert drive.check().result == 3


def test_a_hook_has_the_same_token_on_replay_and_resumes_its_wait(begin):
    @workflow
    async def body() -> Any:
        link = holdfast.hook(name="confirm", type=Answer)
        note(link.token)
        await double(1)
        return (await link.wait()).yes

    drive = begin(body)
    [wait] = drive.out[0].waits
    assert wait.kind == "hook"
    assert wait.token is not None
    assert drive.notes[0] not in wait.token
    drive.tell("hook", "confirm", Answer(True), wait=wait.number)
    drive.complete("double")
    assert drive.check().result is True


def test_an_expired_hook_raises_in_its_wait(begin):
    @workflow
    async def body() -> str:
        link = holdfast.hook(expires="1d")
        try:
            await link.wait()
        except WaitTimeout as late:
            return type(late).__name__
        return "no"

    drive = begin(body)
    drive.fire()
    assert drive.check().result == "WaitTimeout"


def test_a_hook_that_nobody_waits_for_is_no_error(begin):
    @workflow
    async def body() -> str:
        return holdfast.hook().name

    assert begin(body).check().result == "hook"


def test_a_hook_that_expires_while_nobody_waits_for_it_is_no_error(begin, caplog):
    @workflow
    async def body() -> None:
        note(holdfast.hook(expires="1d").token)
        await holdfast.sleep("2d")
        await double(1)

    begin(body).finish().check()
    assert caplog.messages == []


def test_messages_and_values_are_sent_once_and_not_by_replay(begin):
    @workflow
    async def body() -> None:
        holdfast.signal("run-2", "hello", {"a": 1})
        holdfast.publish("news", [1])
        holdfast.set_value("progress", 0.5)
        holdfast.emit("log", "line")
        await double(1)

    drive = begin(body)
    [out] = drive.out
    assert [one.run_id for one in out.signals] == ["run-2"]
    assert [one.name for one in out.events] == ["news"]
    assert (out.values, out.items) == ((("progress", b"0.5"),), (("log", b'"line"'),))
    again = drive.replay()
    done = again.advance([drive.completed("double")])
    assert done.out is None


def test_a_wait_that_nobody_awaits_is_an_error(begin):
    @workflow
    async def body() -> None:
        wait_for_signal("go")

    with pytest.raises(holdfast.NeverAwaited, match="test_messages"):
        begin(body)


def test_a_signal_that_the_code_no_longer_waits_for_is_divergence(begin):
    drive = begin(two)
    drive.signal("go", 1)

    @workflow
    async def changed() -> None:
        await double(1)

    assert isinstance(drive.entries[-1], Signal)
    with pytest.raises(holdfast.JournalDiverged):
        drive.replay(workflow=changed)


def test_a_signal_is_divergence_where_the_code_now_waits_for_an_event_of_that_name(begin):
    @workflow
    async def body() -> Any:
        return [await wait_for_signal("go"), await double(1)]

    @workflow
    async def changed() -> Any:
        return [await wait_for_event("go"), await double(1)]

    drive = begin(body)
    drive.signal("go", 1)
    with pytest.raises(holdfast.JournalDiverged, match="signal 'go'"):
        drive.replay(workflow=changed)


def test_a_wait_that_has_got_its_message_sets_no_timer(begin):
    @workflow
    async def body() -> None:
        await wait_for_signal("go", timeout="1h")
        await double(1)

    drive = begin(body)
    drive.signal("go")
    assert (drive.open, drive.execution.next_timer()) == (["double"], None)
