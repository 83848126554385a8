"""assert_durable: reports that name the commit point at which a crash broke something."""

from __future__ import annotations

import asyncio
import random

import pytest

from holdfast import step, workflow
from holdfast.errors import BadArguments, DefinitionError, NotInRun
from holdfast.testing import assert_durable
from tests.testing.payments import broken, mail, pay, paying, sent


def test_an_effect_in_the_body_is_reported_with_the_commit_point():
    @workflow
    async def talkative() -> None:
        await pay(1)
        sent.append("paid")
        await pay(2)

    report = broken(talkative, effects=sent)
    assert "talkative is not durable" in report
    assert (
        "crash after commit 3 (turn 1: started, step_asked pay, step_completed pay, step_asked pay:1): "
        "the effects were ['paid', 'paid'] instead of ['paid']"
    ) in report
    assert "crash before commit 2 (claim)" not in report
    assert "Undisturbed, it took these commits:\n  1  start of talkative\n  2  claim" in report


def test_an_effect_of_a_step_that_counts_twice_is_reported():
    @workflow
    async def mailing() -> None:
        mail("hello")

    report = broken(mailing, effects=sent)
    assert "1 of 6 crashes changed what came of it" in report
    assert "crash before commit 3 (turn 1: started, step_asked mail, step_completed mail, ended completed)" in report
    assert "the effects were ['hello', 'hello'] instead of ['hello']" in report


def test_an_outcome_that_a_crash_changes_is_reported():
    begun = []

    @workflow
    async def counting() -> int:
        begun.append(1)
        await pay(1)
        await pay(2)
        return len(begun)

    report = broken(counting, effects=begun)
    assert "the outcome was completed with 2 instead of completed with 1" in report


def test_a_body_that_asks_for_other_things_after_a_crash_is_reported_with_its_divergence():
    @workflow
    async def restless() -> None:
        await pay(random.randrange(10**12))
        await pay(1)

    report = broken(restless, stubs={pay: "paid"})
    assert "the run did not come to its end: JournalDiverged" in report
    assert "with other arguments" in report
    assert "crash before commit 3" not in report


def test_a_step_that_gives_another_result_when_it_is_executed_again_is_reported():
    class Counting:
        number = 0

        def __call__(self, cents: int) -> str:
            Counting.number += 1
            return str(Counting.number)

        def clear(self) -> None:
            Counting.number = 0

    counting = Counting()

    @workflow
    async def numbering() -> None:
        await pay(1)
        await pay(2)

    class Effects:
        def __call__(self) -> None: ...

        clear = staticmethod(counting.clear)

    report = broken(numbering, stubs={pay: counting}, effects=Effects())
    assert "the step 'pay' has step_completed '2' instead of step_completed '1'" in report


def test_a_run_that_differs_even_without_a_crash_is_reported_as_such():
    @workflow
    async def drawing() -> int:
        return random.randrange(10**12)

    report = broken(drawing)
    assert "its runs differ even undisturbed" in report


def test_a_step_that_only_a_second_try_asks_for_is_reported():
    tries: list[int] = []

    @workflow
    async def repeating() -> int:
        tries.append(1)
        # Nothing is in the journal yet that would tell the second try from the first.
        if len(tries) > 1:
            await mail("again")
        await pay(7)
        return 7

    def effects() -> None: ...

    effects.clear = tries.clear
    report = broken(repeating, effects=effects)
    assert "crash before commit 3" in report
    assert "the step 'mail' was asked for besides" in report


def test_runs_that_reach_the_same_end_by_different_steps_are_reported():
    ways = ["there", "back"]

    @workflow
    async def turning() -> None:
        ways.reverse()
        await pay.options(name=ways[0])(7)

    report = broken(turning)
    assert "its runs differ even undisturbed" in report
    assert "the step 'back' was never asked for" in report
    assert "the step 'there' was asked for besides" in report


def test_a_race_that_another_one_wins_may_go_another_way():
    winners = ["left", "right"]

    @step
    async def run(name: str) -> str:
        if name != winners[0]:
            await asyncio.Event().wait()
        return name

    @workflow
    async def racing() -> int:
        runners = [run.options(name=name).start(name) for name in ("left", "right")]
        done, _ = await asyncio.wait(runners, return_when=asyncio.FIRST_COMPLETED)
        await pay.options(name=f"pay {done.pop().result()}")(7)
        return 7

    def effects() -> None: ...

    effects.clear = winners.reverse
    assert_durable(racing, effects=effects)


def test_a_drive_that_fails_after_a_crash_is_reported():
    async def drive(env, run) -> None:
        await env.skip("1d")
        assert len(env.calls(pay)) == 1, "paid twice"

    report = broken(paying, 100, drive=drive)
    assert "crash before commit 3" in report
    assert "the run did not come to its end: AssertionError: paid twice" in report


def test_an_error_without_a_crash_is_raised_as_it_is():
    async def drive(env, run) -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError):
        assert_durable(paying, 100, drive=drive)
    with pytest.raises(DefinitionError, match="decorated with @workflow"):
        assert_durable(print)
    with pytest.raises(TypeError):
        assert_durable(paying, "not a number")


def test_a_worker_that_executes_a_recorded_step_again_is_found(monkeypatch):
    from holdfast.testing.crashes import CrashingStore

    # As if the result had been recorded already: what P3 forbids then happens before our eyes.
    honest = CrashingStore.claim_runs

    async def lying(self, *args, **kwargs):
        claimed = await honest(self, *args, **kwargs)
        self.recorded["assert-durable", "pay"] = self.points[-1]
        return claimed

    monkeypatch.setattr(CrashingStore, "claim_runs", lying)
    assert "the step 'pay' was executed again after its result was recorded in commit 2 (claim)" in broken(paying, 1)


def test_a_workflow_outside_a_run_still_says_how_to_start_it():
    with pytest.raises(NotInRun):
        paying(1)


@workflow
async def noting(effects: str = "nothing", stubs: int = 0) -> str:
    return effects


def test_a_parameter_that_is_named_as_an_option_is_given_by_position():
    with pytest.raises(BadArguments, match=r"effects= is an option of assert_durable\(\) and a parameter of .*noting"):
        assert_durable(noting, effects="mail")
    assert assert_durable(noting, "mail", 3).crashes
