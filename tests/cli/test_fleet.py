"""`holdfast worker --processes N`: real processes on both stores, stopped, killed and replaced."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter

import psutil
import pytest

from holdfast import RunEnded
from tests.cli.stage import PROJECT, Stage, on_every_store
from tests.processes import Process

# So long that nothing here is ever due to a lease that ended, or to the end of patience with a step.
LONG = ("--lease", "1h", "--grace", "1h")
# Children say that they have heard.
DEBUG = ("--log-level", "debug")


def have_heard(stage: Stage, fleet: Process, children: list[int]) -> None:
    """Wait until each of these knows that it has to stop: a step that ends before is followed by the next one."""
    heard = [f" {pid} holdfast.worker stopping: the parent" for pid in children]
    stage.until(lambda: all(line in fleet.output for line in heard), "every process has heard")


@on_every_store
def test_three_processes_share_the_work(stage: Stage):
    fleet = stage.worker("--processes", "3", "--concurrency", "5")
    children = stage.ready(fleet)
    runs = stage.client.start_many("gated", [()] * 15)
    # However slow one of them is: nothing ends before all of it is in somebody's hands.
    for run in runs:
        stage.begun(run.id, "until_allowed")
    stage.allow()
    did = Counter(pid for run in runs for pid in run.result(timeout=60))
    assert did == dict.fromkeys(children, 5 * 3)
    assert len(children) == 3


@on_every_store
def test_the_ready_line_comes_when_every_process_has_registered(stage: Stage):
    fleet = stage.worker("--processes", "3")
    assert set(stage.ready(fleet)) == stage.working()
    assert "3 worker processes are ready for errand, gated, nap on " in fleet.output


@on_every_store
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_parent_lets_steps_end_and_hands_the_rest_over_at_once(stage: Stage, number):
    fleet = stage.worker("--processes", "2", *LONG, *DEBUG)
    children = stage.ready(fleet)
    busy = stage.client.start("gated")
    stage.begun(busy.id, "until_allowed")
    asleep = stage.client.start("nap")
    stage.until(lambda: asleep.refresh().status == "waiting", "the other one is asleep")
    fleet.send(number)
    stage.until(lambda: asleep.refresh().record.owner is None, "it was handed back")
    have_heard(stage, fleet, children)
    other = stage.worker(*LONG)
    stage.ready(other)
    # What only waits is done by the other one while the step in flight goes on.
    with contextlib.suppress(RunEnded):  # its nap was over before the other one had begun
        asleep.signal("wake")
    assert asleep.result(timeout=60) == other.pid
    assert fleet.is_alive
    stage.allow()
    first, second, third = busy.result(timeout=60)
    assert (first in children, second in children, third) == (True, True, other.pid)
    assert fleet.wait() == 0, fleet.output
    assert (stage.takeovers(busy.id), stage.takeovers(asleep.id)) == (0, 0)


@on_every_store
def test_a_child_that_is_killed_is_replaced_and_its_runs_go_on_at_once(stage: Stage):
    fleet = stage.worker("--processes", "3", *LONG)
    children = stage.ready(fleet)
    run = stage.client.start("gated")
    (begun,) = stage.begun(run.id, "until_allowed")
    os.kill(begun.pid, signal.SIGKILL)
    again = stage.begun(run.id, "until_allowed", 2)[-1]
    assert again.pid != begun.pid
    stage.allow()
    assert run.result(timeout=60)[1] == again.pid
    stage.until(lambda: len(stage.working() - {begun.pid}) == 3, "another process has taken its place")
    assert len(stage.working() - set(children)) == 1, fleet.output
    assert f"({begun.pid}) was killed by SIGKILL; another one is started" in fleet.output
    fleet.send(signal.SIGTERM)
    assert fleet.wait() == 0, fleet.output


@on_every_store
def test_when_the_parent_is_killed_its_children_stop_in_good_order(stage: Stage):
    fleet = stage.worker("--processes", "3", *LONG, *DEBUG)
    children = stage.ready(fleet)
    run = stage.client.start("gated")
    (begun,) = stage.begun(run.id, "until_allowed")
    fleet.kill()
    have_heard(stage, fleet, children)
    # Those with nothing to do go at once, the busy one when its step has ended.
    stage.gone([pid for pid in children if pid != begun.pid])
    assert stage.working() == {begun.pid}
    stage.allow()
    stage.gone(children)
    assert stage.working() == set()
    other = stage.worker()
    stage.ready(other)
    assert run.result(timeout=60)[1:] == [begun.pid, other.pid]
    assert stage.takeovers(run.id) == 0


def test_a_second_signal_kills_the_children(stage: Stage):
    fleet = stage.worker("--processes", "2")
    children = stage.ready(fleet)
    run = stage.client.start("gated")
    stage.begun(run.id, "until_allowed")
    fleet.send(signal.SIGTERM)
    stage.until(lambda: "another signal ends it" in fleet.output, "another signal would not be taken for the first")
    fleet.send(signal.SIGTERM)
    assert fleet.wait() == 1, fleet.output
    stage.gone(children)
    assert "was killed by SIGKILL while it was stopping" in fleet.output


def test_a_signal_to_the_whole_group_is_no_second_signal(stage: Stage):
    fleet = stage.worker("--processes", "2")
    children = stage.ready(fleet)
    run = stage.client.start("gated")
    (begun,) = stage.begun(run.id, "until_allowed")
    for pid in [fleet.pid, *children]:
        os.kill(pid, signal.SIGTERM)
    stage.gone([pid for pid in children if pid != begun.pid])
    stage.allow()
    assert fleet.wait() == 0, fleet.output
    assert len(stage.notes("end", run.id, "until_allowed")) == 1


def test_a_child_that_is_told_to_stop_alone_is_replaced(stage: Stage):
    fleet = stage.worker("--processes", "2")
    children = stage.ready(fleet)
    os.kill(children[0], signal.SIGTERM)
    stage.until(lambda: len(stage.working() - {children[0]}) == 2, "another process has taken its place")
    assert f"({children[0]}) ended with exit code 0; another one is started" in fleet.output


def test_the_command_line_of_a_child_does_not_show_the_database(stage: Stage):
    fleet = stage.worker("--processes", "2")
    for pid in stage.ready(fleet):
        assert stage.url not in " ".join(psutil.Process(pid).cmdline())


def test_workflows_that_can_t_be_loaded_end_the_fleet_with_their_error_alone(stage: Stage):
    (stage.folder / "broken.py").write_text("\nimport nowhere\n")
    fleet = stage.worker("broken", "--processes", "2", cwd=stage.folder)
    assert fleet.wait() == 1
    assert fleet.output.splitlines() == [
        "holdfast: the module 'broken' can't be loaded: broken.py, line 2: "
        "ModuleNotFoundError: No module named 'nowhere'"
    ]


def test_a_database_that_is_away_ends_a_fleet_with_the_code_of_one_worker(stage: Stage):
    away = ("worker", "--url", f"sqlite:///{stage.folder}/nowhere/holdfast.db")
    assert [stage.start(*away, *many, cwd=PROJECT).wait() for many in ((), ("--processes", "2"))] == [3, 3]


def test_an_error_of_any_length_ends_the_fleet(stage: Stage):
    (stage.folder / "wordy.py").write_text("raise ValueError('many words ' * 10_000)\n")
    fleet = stage.worker("wordy", "--processes", "2", cwd=stage.folder)
    assert fleet.wait() == 1
    assert (fleet.output.count("many words"), "another one" in fleet.output) == (10_000, False)


def test_the_traceback_of_a_child_is_shown_when_asked_for(stage: Stage):
    (stage.folder / "broken.py").write_text("\nimport nowhere\n")
    fleet = stage.worker("broken", "--processes", "2", "--traceback", cwd=stage.folder)
    assert fleet.wait() == 1
    assert 'broken.py", line 2, in <module>' in fleet.output


def test_a_fleet_whose_processes_die_at_once_again_and_again_gives_up(stage: Stage):
    (stage.folder / "deadly.py").write_text("import os\nos._exit(3)\n")
    fleet = stage.worker("deadly", "--processes", "2", cwd=stage.folder)
    # With longer and longer pauses in between.
    assert fleet.wait(timeout=100) == 1
    assert fleet.output.count("another one is started") >= 4
    assert "died 5 times in a row within 10 s; the last one ended with exit code 3" in fleet.output
