"""`def` bodies: steps, Pendings and waits give their values back, block the run, and hold no thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import holdfast
from holdfast import DefinitionError, Retry, WaitTimeout, blocking, step, workflow
from tests.engine.drive import note
from tests.engine.samples import Declined, double, echo, refuse, triple


@step
def refuse_slowly(card: str) -> str:
    raise Declined(card, cents=1)


def test_a_def_body_calls_def_steps(begin):
    @workflow
    def body(n: int) -> int:
        n = triple(n)
        note(n)
        return triple(n)

    assert begin(body, 1).finish().check().result == 9


def test_a_def_body_calls_async_steps_and_gets_their_value(begin):
    @workflow
    def body(n: int) -> int:
        n = double(n)  # type: ignore[assignment]
        note(n)
        return n

    assert begin(body, 2).finish().check().result == 4


def test_a_def_body_gets_a_steps_exception(begin):
    @workflow
    def body() -> str:
        try:
            return refuse_slowly("visa")
        except Declined as error:
            return error.card

    drive = begin(body)
    drive.fail("refuse_slowly", Declined("visa", cents=1))
    assert drive.check().result == "visa"


def test_a_def_body_that_fails_fails_the_run(begin):
    @workflow
    def body() -> None:
        raise Declined("visa", cents=2)

    assert isinstance(begin(body).error, Declined)


def test_a_pending_in_a_def_body_gives_its_result(begin):
    @workflow
    def body() -> int:
        one, two = triple.start(1), double.start(2)
        return one.result() + two.result()

    drive = begin(body)
    assert drive.begun == ["triple", "double"]
    assert drive.finish().check().result == 7


def test_a_pending_in_a_def_body_raises_its_failure(begin):
    @workflow
    def body() -> str:
        pending = refuse.start("visa")
        try:
            pending.result()
        except Declined as error:
            return error.card
        return ""

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    assert drive.check().result == "visa"


def test_a_pending_gives_its_result_again_and_again(begin):
    @workflow
    def body() -> list[int]:
        pending = triple.start(1)
        return [pending.result(), pending.result()]

    assert begin(body).finish().check().result == [3, 3]


def test_gather_in_a_def_body_gives_results_in_the_order_given(begin):
    @workflow
    def body() -> list[int]:
        return blocking.gather(*(triple.start(n) for n in range(3)))

    drive = begin(body)
    for key in ("triple:2", "triple", "triple:1"):
        drive.complete(key)
    assert drive.check().result == [0, 3, 6]


def test_gather_of_nothing_is_nothing(begin):
    @workflow
    def body() -> list[int]:
        return blocking.gather()

    assert begin(body).result == []


def test_gather_in_a_def_body_raises_the_first_failure(begin):
    @workflow
    def body() -> str:
        try:
            blocking.gather(echo.start(1), refuse.start("visa"))
        except Declined as error:
            return error.card
        return ""

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    assert drive.check().result == "visa"


def test_gather_in_a_def_body_with_return_exceptions_waits_for_all(begin):
    @workflow
    def body() -> list[Any]:
        first, second, third = blocking.gather(
            refuse.start("visa"), echo.start(1), refuse.start("amex"), return_exceptions=True
        )
        return [first.card, second, third.card]

    drive = begin(body)
    drive.fail("refuse:1", Declined("amex", cents=1))
    drive.fail("refuse", Declined("visa", cents=1))
    drive.complete("echo")
    assert drive.check().result == ["visa", 1, "amex"]


def test_wait_in_a_def_body_separates_done_from_not_done(begin):
    @workflow
    def body() -> list[list[str]]:
        pendings = [triple.start(n) for n in range(3)]
        done, rest = blocking.wait(pendings, return_when=asyncio.FIRST_COMPLETED)
        note([one.key for one in rest])
        return [[one.key for one in done], [one.key for one in rest]]

    drive = begin(body)
    drive.complete("triple:1")
    assert drive.check().result == [["triple:1"], ["triple", "triple:2"]]


def test_wait_in_a_def_body_ends_at_its_timeout(begin):
    @workflow
    def body() -> list[int]:
        pendings = [triple.start(n) for n in range(2)]
        done, rest = blocking.wait(pendings, timeout="5s")
        return [len(done), len(rest)]

    drive = begin(body)
    drive.complete("triple")
    drive.fire()
    assert drive.check().result == [1, 1]


def test_wait_in_a_def_body_cancels_nothing(begin):
    @workflow
    def body() -> list[int]:
        pendings = [triple.start(n) for n in range(2)]
        blocking.wait(pendings, timeout="5s")
        return [one.result() for one in pendings]

    drive = begin(body)
    drive.fire()
    assert drive.withdrawn == []
    assert drive.finish().check().result == [0, 3]


def test_as_completed_in_a_def_body_gives_them_as_they_end(begin):
    @workflow
    def body() -> list[int]:
        return [one.result() for one in blocking.as_completed([triple.start(n) for n in range(3)])]

    drive = begin(body)
    for key in ("triple:1", "triple:2", "triple"):
        drive.complete(key)
    assert drive.check().result == [3, 6, 0]


def test_as_completed_in_a_def_body_gives_those_that_ended_meanwhile_in_the_order_given(begin):
    @workflow
    def body() -> list[str]:
        pendings = [triple.start(n) for n in range(5)]
        keys = []
        for one in blocking.as_completed([*pendings, pendings[0]]):
            keys.append(one.key)
            if len(keys) == 1:
                pendings[4].cancel()
                echo(1)
        return keys

    drive = begin(body)
    for key in ("triple:3", "triple:2", "triple", "echo", "triple:1"):
        drive.complete(key)
    assert drive.check().result == ["triple:3", "triple", "triple:2", "triple:4", "triple", "triple:1"]


def test_as_completed_in_a_def_body_asks_each_of_them_once(begin, monkeypatch):
    asked = []
    add = holdfast.Pending.add_done_callback

    def asking(pending, *given, **how):
        asked.append(pending)
        add(pending, *given, **how)

    monkeypatch.setattr(holdfast.Pending, "add_done_callback", asking)

    @workflow
    def body() -> int:
        return sum(one.result() for one in blocking.as_completed([triple.start(n) for n in range(50)]))

    drive = begin(body)
    drive.finish()
    assert len(asked) == 50


def test_as_completed_in_a_def_body_raises_when_its_time_is_over(begin):
    @workflow
    def body() -> list[int]:
        found = []
        try:
            for one in blocking.as_completed([triple.start(n) for n in range(2)], timeout=5):
                found.append(one.result())
        except WaitTimeout:
            found.append(-1)
        return found

    drive = begin(body)
    drive.complete("triple:1")
    drive.fire()
    assert drive.check().result == [3, -1]


def test_call_in_a_def_body_is_an_inline_step(begin):
    @workflow
    def body() -> int:
        return blocking.call("parse", int, "12") + holdfast.call("parse", int, "30")  # type: ignore[operator]

    drive = begin(body).finish().check()
    assert drive.asked == ["parse", "parse:1"]
    assert drive.result == 42


@pytest.mark.parametrize(
    "call",
    [
        lambda: blocking.wait_for_signal(""),
        lambda: blocking.wait_for_event("a\0b"),
        lambda: blocking.call("parse", "int", "12"),  # type: ignore[call-overload]
    ],
    ids=["signal", "event", "call"],
)
def test_call_without_a_function_is_refused(begin, call):
    @workflow
    def body() -> str:
        with pytest.raises(DefinitionError):
            call()
        return "refused"

    assert begin(body).check().result == "refused"


def test_call_in_an_async_body_is_awaited_whatever_the_colour(begin):
    async def add(a: int, b: int) -> int:
        return a + b

    @workflow
    async def body() -> list[int]:
        return [await holdfast.call("parse", int, "12"), await holdfast.call("add", add, 1, 2)]

    assert begin(body).finish().check().result == [12, 3]


def test_call_of_a_step_is_that_step_under_another_name(begin):
    @step(retry=Retry(attempts=7), timeout="5s", compensate=echo)
    def book(n: int) -> int:
        return n

    @workflow
    def body() -> None:
        blocking.call("first", book, 1)
        blocking.call("second", book, 2, retry=Retry(attempts=1), timeout="1s")
        raise ValueError("no")

    drive = begin(body)
    assert [one.step.retry.attempts for one in drive.execution.commands.values()] == [7]
    assert [one.step.timeout for one in drive.execution.commands.values()] == [5_000_000]
    drive.complete("first")
    assert [one.step.retry.attempts for one in drive.execution.commands.values()] == [1]
    assert [one.step.timeout for one in drive.execution.commands.values()] == [1_000_000]
    assert drive.finish().check().asked == ["first", "second", "echo", "echo:1"]


def test_a_cancel_is_raised_out_of_a_blocking_call(begin):
    @workflow
    def body() -> str:
        try:
            triple(1)
        except asyncio.CancelledError:
            note("cancelled")
            raise
        return "not cancelled"

    drive = begin(body)
    drive.cancel()
    assert drive.check().status == "cancelled"
    assert drive.notes == ["cancelled"]


@pytest.mark.parametrize("wait", ["sleep", "result", "gather", "wait", "as_completed", "async_step"])
def test_a_cancel_is_raised_out_of_every_blocking_wait(begin, wait):
    @workflow
    def body(how: str) -> None:
        if how == "sleep":
            blocking.sleep("1h")
        elif how == "result":
            triple.start(1).result()
        elif how == "gather":
            blocking.gather(triple.start(1), triple.start(2))
        elif how == "wait":
            blocking.wait([triple.start(1)])
        elif how == "as_completed":
            list(blocking.as_completed([triple.start(1)]))
        else:
            double(1)

    drive = begin(body, wait)
    drive.cancel()
    assert drive.check().status == "cancelled"


def test_a_cancel_in_a_def_body_lets_finally_call_steps(begin):
    @workflow
    def body() -> None:
        try:
            triple(1)
        finally:
            note(triple(2))

    drive = begin(body)
    drive.cancel()
    assert drive.open == ["triple:1"]
    drive.finish().check()
    assert (drive.status, drive.notes) == ("cancelled", [6])


def test_no_thread_is_held_while_def_bodies_wait(begin):
    @workflow
    def body() -> int:
        return triple(1)

    before = threading.active_count()
    drives = [begin(body, run_id=f"run-{n}") for n in range(50)]
    assert threading.active_count() == before
    assert all(drive.finish().result == 3 for drive in drives)


def test_a_def_body_runs_deep_in_plain_functions(begin):
    def down(n: int) -> int:
        return triple(1) if n == 0 else down(n - 1)

    @workflow
    def body() -> int:
        return down(200)

    assert begin(body).finish().check().result == 3


def test_a_def_body_may_call_steps_in_a_comprehension_and_a_generator(begin):
    @workflow
    def body() -> int:
        return sum(triple(n) for n in [triple(m) for m in range(3)])

    assert begin(body).finish().check().result == 27


def test_a_def_body_may_sort_by_a_step(begin):
    """A step called from C code that calls back."""

    @workflow
    def body() -> list[int]:
        return sorted([1, 3, 2], key=lambda n: -triple(n))

    assert begin(body).finish().check().result == [3, 2, 1]
