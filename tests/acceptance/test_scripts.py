"""holdfast.run in a script that is killed, interrupted, and started again."""

from __future__ import annotations

import signal

import pytest

from tests.acceptance.stage import Stage
from tests.processes import Process


def script(stage: Stage, *arguments: str) -> Process:
    return stage.start("-m", "tests.acceptance.script", *arguments)


def interrupt(stage: Stage, process: Process) -> None:
    """Ctrl-C, and wait until it has arrived, which may be long after it was sent. The script was started with --log."""
    process.send(signal.SIGINT)
    stage.until(lambda: "stopping: " in process.output, "the Ctrl-C has arrived")
    assert process.is_alive


def interrupt_twice(stage: Stage, process: Process) -> None:
    """The second time when the first one has arrived: two that come together are one. It ends."""
    interrupt(stage, process)
    stage.until(lambda: "another signal ends it" in process.output, "another one would not be taken for the first")
    process.send(signal.SIGINT)
    assert process.wait() == -signal.SIGINT, process.output


def test_a_killed_script_that_is_started_again_goes_on_without_waiting_for_the_lease(stage: Stage):
    first = script(stage, "gated", "one")
    run_id = stage.until(lambda: stage.effects("begin", key="until_allowed"), "the gate is reached")[0].run_id
    (dead,) = stage.client.workers()
    first.kill()
    second = script(stage, "gated", "one")
    stage.begun(run_id, "until_allowed", 2)
    stage.allow("gate")
    assert second.wait() == 0
    assert second.output.splitlines()[-1] == "[10, 'gate', 30]"
    (takeover,) = stage.journal(run_id, "claimed")
    assert takeover.at < dead.lease_until
    assert len(stage.effects("begin", run_id=run_id, key="work")) == 1


def test_a_script_that_has_ended_gives_its_result_again_and_executes_nothing(stage: Stage):
    assert script(stage, "errand", "one", "0").wait() == 0
    again = script(stage, "errand", "one", "0")
    assert again.wait() == 0
    assert again.output.splitlines() == ["[10, 20, 30]"]
    assert len(stage.effects("begin")) == 3


def test_ctrl_c_lets_the_step_end_leaves_the_run_intact_and_says_how_to_go_on(stage: Stage):
    first = script(stage, "--log", "gated", "one")
    run_id = stage.until(lambda: stage.effects("begin", key="until_allowed"), "the gate is reached")[0].run_id
    interrupt(stage, first)
    stage.allow("gate")
    assert first.wait() == -signal.SIGINT, first.output
    assert "is intact" in first.output
    assert "same key" in first.output
    assert "KeyboardInterrupt" in first.output
    assert stage.keys(run_id) == ["work", "until_allowed"]
    assert not stage.client.get_run(run_id).status.is_final
    second = script(stage, "gated", "one")
    assert second.wait() == 0
    assert second.output.splitlines()[-1] == "[10, 'gate', 30]"
    assert len(stage.effects("begin", run_id=run_id)) == 3
    # It was handed back, not taken over.
    assert stage.journal(run_id, "claimed") == []


def test_ctrl_c_ends_the_script_also_if_the_run_ends_before_it(stage: Stage):
    first = script(stage, "--log", "gated_at_the_end", "one")
    stage.until(lambda: stage.effects("begin", key="until_allowed"), "the gate is reached")
    interrupt(stage, first)
    stage.allow("gate")
    assert first.wait() == -signal.SIGINT, first.output
    assert "has completed" in first.output
    assert "KeyboardInterrupt" in first.output
    (run,) = stage.client.runs()
    assert run.result() == "gate"
    second = script(stage, "gated_at_the_end", "one")
    assert second.wait() == 0
    assert second.output.splitlines() == ["gate"]
    assert len(stage.effects("begin")) == 1


def test_ctrl_c_ends_the_script_also_if_the_run_fails_before_it(stage: Stage):
    first = script(stage, "--log", "failing_at_the_end", "one")
    stage.until(lambda: stage.effects("begin", key="until_allowed"), "the gate is reached")
    interrupt(stage, first)
    stage.allow("gate")
    assert first.wait() == -signal.SIGINT, first.output
    assert "RunFailed" in first.output
    assert first.output.splitlines()[-1] == "KeyboardInterrupt"


def test_a_second_ctrl_c_exits_at_once_and_the_run_is_intact_all_the_same(stage: Stage):
    first = script(stage, "--log", "gated", "one")
    stage.until(lambda: stage.effects("begin", key="until_allowed"), "the gate is reached")
    interrupt_twice(stage, first)
    # The step never ended, and was not waited for.
    assert "KeyboardInterrupt" in first.output
    assert stage.effects("end", key="until_allowed") == []
    stage.allow("gate")
    second = script(stage, "gated", "one")
    assert second.wait() == 0
    assert second.output.splitlines()[-1] == "[10, 'gate', 30]"


@pytest.mark.parametrize("name", ["interrupted", "interrupted_in_thread"])
def test_a_step_that_raises_keyboard_interrupt_stops_the_script_and_leaves_the_run_intact(stage: Stage, name: str):
    first = script(stage, name, "one")
    assert first.wait() == -signal.SIGINT, first.output
    assert "is intact" in first.output
    (run,) = stage.client.runs()
    assert not run.status.is_final
    stage.allow("calm")
    second = script(stage, name, "one")
    assert second.wait() == 0, second.output
    assert second.output.splitlines()[-1] == "calm"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        pytest.param("thread_gated", "until_allowed_in_thread", id="of its own"),
        pytest.param("loop_thread_gated", "until_allowed_by_the_loop", id="of the loop's"),
    ],
)
def test_ctrl_c_twice_exits_although_a_step_sits_in_a_thread(stage: Stage, name: str, key: str):
    first = script(stage, "--log", name, "one")
    stage.until(lambda: stage.effects("begin", key=key), "the gate is reached")
    interrupt_twice(stage, first)
    assert stage.effects("end", key=key) == []
