"""`holdfast worker` in one process: what it serves, how it stops, what it says when it can't begin."""

from __future__ import annotations

import os
import signal

import pytest

from tests.cli.stage import Stage, on_every_store


@on_every_store
def test_a_worker_serves_what_it_finds_until_it_is_told_to_stop(stage: Stage):
    worker = stage.worker()
    stage.ready(worker)
    assert "the worker is ready for errand, gated, nap on " in worker.output
    assert stage.client.start("errand", 1).result(timeout=60) == [worker.pid] * 3
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0, worker.output
    assert stage.working() == set()


def test_the_first_signal_lets_the_step_end_and_the_second_does_not(stage: Stage):
    worker = stage.worker()
    stage.ready(worker)
    run = stage.client.start("gated")
    stage.begun(run.id, "until_allowed")
    worker.send(signal.SIGINT)
    stage.until(lambda: "another signal ends it" in worker.output, "another signal would not be taken for the first")
    assert worker.is_alive
    worker.send(signal.SIGINT)
    assert worker.wait() == 0, worker.output
    assert stage.notes("end", run.id, "until_allowed") == []


def test_a_step_blocked_in_a_thread_of_the_loop_does_not_keep_the_process_from_ending(stage: Stage):
    (stage.folder / "waiting.py").write_text(
        "import asyncio, threading\n"
        "from holdfast import step, workflow\n"
        "@step\n"
        "async def stays() -> None:\n"
        "    print('it stays', flush=True)\n"
        "    await asyncio.to_thread(threading.Event().wait)\n"
        "@workflow\n"
        "async def waiting() -> None:\n"
        "    await stays()\n"
    )
    worker = stage.worker("--grace", "0s", "waiting.py", cwd=stage.folder)
    stage.ready(worker)
    run = stage.client.start("waiting")
    stage.until(lambda: "it stays" in worker.output, "its step has begun")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0, worker.output
    assert run.refresh().status == "waiting"


def test_a_failed_run_appears_in_the_worker_s_log(stage: Stage):
    (stage.folder / "failing.py").write_text(
        "from holdfast import workflow\n@workflow\nasync def failing() -> None:\n    raise KeyError('this one')\n"
    )
    worker = stage.worker("failing.py", cwd=stage.folder)
    stage.ready(worker)
    run = stage.client.start("failing")
    told = f"<run {run.id} of failing version 1> failed with KeyError: 'this one' ({stage.folder / 'failing.py'}:4)"
    stage.until(lambda: told in worker.output, "it is told")


def test_a_worker_waits_for_a_server_that_is_not_there_until_it_is_told_to_stop(stage: Stage):
    worker = stage.worker("--url", "postgresql://nobody@127.0.0.1:9/nothing")
    stage.until(lambda: "the store is away, the worker begins when it is back" in worker.output, "it waits")
    assert worker.is_alive
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0, worker.output


def test_a_signal_that_comes_twice_at_once_is_one(stage: Stage):
    worker = stage.worker()
    stage.ready(worker)
    run = stage.client.start("gated")
    stage.begun(run.id, "until_allowed")
    # As timeout(1) sends them: to the process, and to its group. Two kinds, for two of one may arrive as one.
    worker.send(signal.SIGTERM)
    worker.send(signal.SIGINT)
    stage.until(lambda: "another signal ends it" in worker.output, "both have arrived")
    stage.allow()
    assert worker.wait() == 0, worker.output
    assert "leaving without grace" not in worker.output
    assert len(stage.notes("end", run.id, "until_allowed")) == 1


def test_options_reach_the_worker(stage: Stage):
    worker = stage.worker("--queues", "parcels,letters", "--namespace", "shop", "workflows.errands:errand")
    stage.until(lambda: "ready for errand on" in worker.output, "it is ready")
    assert stage.working() == set()
    with stage.client.__class__(stage.url, namespace="shop") as client:
        (record,) = client.workers()
    lanes = {(lane.workflow, lane.queue) for lane in record.lanes}
    assert lanes == {(name, queue) for name in ("errand", "holdfast.map") for queue in ("parcels", "letters")}


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_that_finds_no_workflow_ends_with_advice(stage: Stage, processes: str):
    worker = stage.worker("--processes", processes, cwd=stage.folder)
    assert worker.wait() == 1
    (line,) = worker.output.splitlines()
    assert line.startswith(f"holdfast: there are no workflows to serve: {stage.folder} has no package or folder")
    assert "holdfast worker shop.orders jobs/daily.py" in line
    assert "holdfast.toml" in line


def test_a_database_that_can_t_be_opened_is_an_error_in_one_line(stage: Stage):
    worker = stage.worker("--url", f"sqlite:///{stage.folder}/nowhere/holdfast.db")
    assert worker.wait() == 3
    [line] = worker.output.splitlines()
    assert line.startswith("holdfast: ")


@pytest.mark.parametrize("error", ["ConnectionRefusedError(111, 'Connection refused')", "ConnectionError('refused')"])
def test_a_resource_that_can_t_be_opened_is_named_since_it_may_be_taken_for_the_database(stage: Stage, error: str):
    (stage.folder / "shop.py").write_text(
        "import holdfast\n"
        f"@holdfast.resource\ndef mail():\n    raise {error}\n    yield\n"
        "@holdfast.workflow\nasync def order() -> None: ...\n"
    )
    worker = stage.worker("shop", cwd=stage.folder)
    assert worker.wait() == 1
    [line] = worker.output.splitlines()
    assert line.endswith("refused; while the worker opened its resource 'mail', a generator that yields once")


def test_the_settings_of_a_project_name_the_workflows_and_the_database(stage: Stage):
    (stage.folder / "shop").mkdir()
    (stage.folder / "deep").mkdir()
    (stage.folder / "shop" / "orders.py").write_text(
        "import os\nfrom holdfast import workflow, step\n"
        "@step\ndef where() -> str: return os.getcwd()\n"
        "@workflow\nasync def order() -> str: return where()\n"
    )
    (stage.folder / "holdfast.toml").write_text('workflows = ["shop.orders"]\nprocesses = 2\n')
    fleet = stage.worker(cwd=stage.folder / "deep")
    stage.ready(fleet)
    assert "2 worker processes are ready for order on" in fleet.output
    assert stage.client.start("order").result(timeout=60) == os.path.realpath(stage.folder / "deep")


@pytest.mark.parametrize(("before", "looked"), [("", 10_000), ("gc.set_threshold(0)", 0)])
def test_a_worker_process_looks_for_cycles_seldom_or_not_at_all(stage: Stage, before: str, looked: int):
    (stage.folder / "workflows.py").write_text(
        f"import gc\nfrom holdfast import workflow, step\n{before}\n"
        "@step\ndef look() -> int: return gc.get_threshold()[0]\n"
        "@workflow\nasync def young() -> int: return look()\n"
    )
    worker = stage.worker("workflows.py", cwd=stage.folder)
    stage.ready(worker)
    assert stage.client.start("young").result(timeout=60) == looked
