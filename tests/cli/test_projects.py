"""A project from nothing: init, dev, a run that survives a kill, code that changes; and the REST API by itself."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import HoldfastError
from holdfast.cli import main
from holdfast.cli.lint import Project, check
from holdfast.cli.scaffold import FILES
from holdfast.cli.servers import until_free
from tests.cli.stage import Stage
from tests.processes import PATIENCE, ROOT, Process
from tests.servers.account import free_port


@pytest.fixture
def port() -> int:
    """One that nobody is given by chance before it is listened on."""
    return free_port()


@pytest.fixture
def project(stage: Stage) -> Path:
    """What init writes, in a folder of its own."""
    folder = stage.folder / "shop"
    assert main(["init", str(folder)]) == 0
    (folder / "holdfast.toml").write_text(f'url = "{stage.url}"\n')
    return folder


def dev(stage: Stage, project: Path, port: int) -> Process:
    process = stage.command("dev", "--listen", str(port), cwd=project)
    stage.ready(process)
    return process


def ask(port: int, path: str, body: object = None, **headers: str) -> tuple[int, object]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json", **headers},
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.parametrize("folder", ["taken/shop", "half"])
def test_a_project_that_has_no_room_says_which_folder_can_t_be_made(tmp_path, monkeypatch, capsys, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "workflows").touch()
    assert main(["init", folder]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"holdfast: the folder {folder}")
    assert told.endswith("; mend that, or name another one\n")


def test_the_suggested_commands_work_in_a_folder_of_any_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "my shop"]) == 0
    assert "now: cd 'my shop' && holdfast dev\n" in capsys.readouterr().out


def test_init_writes_a_project_and_says_how_to_go_on(tmp_path, capsys):
    assert main(["init", str(tmp_path / "shop")]) == 0
    assert all((tmp_path / "shop" / name).is_file() for name in FILES)
    assert "holdfast dev" in capsys.readouterr().out


def test_init_overwrites_nothing(tmp_path, capsys):
    (tmp_path / "README.md").write_text("mine")
    assert main(["init", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kept"] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"
    assert main(["init", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == []


def test_init_does_not_hide_the_settings_of_a_pyproject(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.holdfast]\nnamespace = "shop"\n')
    assert main(["init", str(tmp_path)]) == 0
    assert not (tmp_path / "holdfast.toml").exists()


def test_a_file_is_no_place_for_a_project(tmp_path, capsys):
    (tmp_path / "x").touch()
    assert main(["init", str(tmp_path / "x")]) == 1
    assert "is a file" in capsys.readouterr().err


def test_lint_finds_nothing_in_the_project_that_init_writes(tmp_path):
    main(["init", str(tmp_path)])
    files = [tmp_path / name for name in FILES if name.endswith(".py")]
    assert [one for path in files for one in check(Project(), path)] == []


def test_the_tests_that_init_writes_pass(tmp_path):
    main(["init", str(tmp_path)])
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_run_outlives_the_process_that_dev_started(stage: Stage, project: Path, port: int):
    first = dev(stage, project, port)
    run_id = stage.client.start("order", "4242").id
    stage.until(
        lambda: "wait" in str(stage.client.explain(run_id)) and stage.client.get_run(run_id).status == "waiting",
        "it waits",
    )
    children = stage.children(first)
    first.kill()
    stage.gone(children)
    second = dev(stage, project, port)
    assert ask(port, f"/v1/runs/{run_id}/signals/approved", "fine")[0] < 300
    assert stage.client.get_run(run_id).result(timeout=PATIENCE) == "sent, with receipt for 1200 cents"
    assert (first.output + second.output).count("charging 1200 cents") == 1
    second.send(signal.SIGINT)
    assert second.wait() == 0


def test_dev_serves_rest_and_metrics_beside_the_worker(stage: Stage, project: Path, port: int):
    dev(stage, project, port)
    status, told = ask(port, "/v1/workflows/order/runs", {"input": ["77"]})
    assert status == 201
    stage.client.signal(told["id"], "approved", "yes")
    assert stage.client.get_run(told["id"]).result(timeout=PATIENCE) == "sent, with receipt for 1200 cents"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        assert b"holdfast_runs_completed" in answer.read()


def test_dev_traces_where_the_settings_say_so(stage: Stage, project: Path, port: int):
    with (project / "holdfast.toml").open("a") as settings:
        settings.write("tracing = true\n")
    process = dev(stage, project, port)
    # There is no provider here, and whoever traces says so.
    assert "tracing is on, and no TracerProvider" in process.output


def test_changed_code_is_served_and_the_run_goes_on_in_it(stage: Stage, project: Path, port: int):
    process = dev(stage, project, port)
    run = stage.client.start("order", "4242")
    # Waiting, so the charge is recorded: a step that is in flight when code changes has little time left.
    stage.until(lambda: run.refresh().status == "waiting", "it was charged")
    module = project / "workflows" / "orders.py"
    # Of the same size, and maybe within the same second: Python would take what was compiled before for this.
    assert not (module.parent / "__pycache__").exists()
    module.write_text(module.read_text().replace("sending the parcel", "posting the parcel"))
    stage.until(lambda: process.output.count("ready for") == 2, "it was started again")
    assert "workflows/orders.py changed" in process.output
    run.signal("approved", "yes")
    run.result(timeout=PATIENCE)
    assert "posting the parcel: yes" in process.output
    assert process.output.count("charging") == 1


def test_dev_waits_while_code_cannot_be_loaded(stage: Stage, project: Path, port: int):
    module = project / "workflows" / "orders.py"
    good = module.read_text()
    module.write_text("def order(:\n")
    process = stage.command("dev", "--listen", str(port), cwd=project)
    stage.until(lambda: "waiting for a change" in process.output, "it was refused")
    assert "orders.py, line 1" in process.output
    module.write_text(good)
    stage.ready(process)


def test_dev_refuses_io_in_a_body(stage: Stage, project: Path, port: int):
    shutil.rmtree(project / "workflows")
    (project / "workflows").mkdir()
    (project / "workflows" / "rude.py").write_text(
        "from holdfast import workflow\n\n@workflow\nasync def rude() -> str:\n    return open('x').read()\n"
    )
    dev(stage, project, port)
    run = stage.client.start("rude")
    stage.until(lambda: stage.client.get_run(run.id).record.blocked, "it is blocked")
    assert "open('x') was called" in str(stage.client.explain(run.id))


def test_a_taken_port_is_reported_before_anything_is_started(stage: Stage, project: Path, port: int):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        process = stage.command("dev", "--listen", str(port), cwd=project)
        assert process.wait() == 1
    assert f"127.0.0.1:{port} can't be listened on" in process.output


def test_a_port_that_an_earlier_process_is_about_to_leave_is_waited_for(port: int, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        until_free("127.0.0.1", port, 5.0, clock=lambda: 0.0, sleep=lambda _: taken.close())
    assert capsys.readouterr().err.count("is taken") == 1


def test_a_taken_port_is_waited_for_a_while_and_a_forbidden_one_not_at_all(port: int):
    times = iter([0.0, 1.0, 4.0, 5.0])
    slept: list[float] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(HoldfastError, match="can't be listened on"):
            until_free("127.0.0.1", port, 5.0, clock=lambda: next(times), sleep=slept.append)
    assert len(slept) == 2
    with pytest.raises(HoldfastError, match="can't be listened on"):
        until_free("192.0.2.1", port, 5.0, clock=lambda: 0.0, sleep=slept.append)
    assert len(slept) == 2


def test_dev_leaves_the_database_of_the_settings_alone_if_it_is_no_file(stage: Stage, project: Path, port: int):
    (project / "holdfast.toml").write_text('url = "postgresql://127.0.0.1:9/production"\n')
    process = stage.start("dev", "--listen", str(port), cwd=project)
    stage.ready(process)
    assert "not the database of the settings" in process.output
    assert (project / "holdfast.db").exists()


@pytest.mark.parametrize("stage", ["postgres"], indirect=True)
def test_dev_works_with_the_postgres_that_its_command_line_names(stage: Stage, project: Path, port: int):
    process = dev(stage, project, port)
    assert "not the database of the settings" not in process.output
    assert len(stage.client.workers()) == 1
    assert not (project / "holdfast.db").exists()


def test_serve_answers_until_it_is_told_to_stop(stage: Stage, port: int):
    process = stage.command("serve", "--listen", str(port))
    stage.until(lambda: "ready on" in process.output, "it is ready")
    assert ask(port, "/healthz")[0] == 200
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        assert b"holdfast_client_starts" in answer.read()
    process.send(signal.SIGTERM)
    assert process.wait() == 0


def test_a_key_that_can_not_be_read_is_a_wrong_setting_and_is_not_shown(stage: Stage):
    (stage.folder / "holdfast.toml").write_text('api_keys = ["hf_secret"]\n')
    process = stage.command("serve")
    assert process.wait() == 2
    assert "api_keys: an API key that can't be read" in process.output
    assert "hf_secret" not in process.output
    assert not [*stage.folder.glob("*.db")]


def test_serve_asks_for_a_key_where_there_are_keys(stage: Stage, port: int, capsys):
    assert main(["keys", "ci", "--right", "operate", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    (stage.folder / "holdfast.toml").write_text(f'api_keys = ["{made["kept"]}"]\n')
    process = stage.command("serve", "--listen", str(port))
    stage.until(lambda: "ready on" in process.output, "it is ready")
    assert ask(port, "/v1/workflows")[0] == 401
    assert ask(port, "/v1/workflows", authorization=f"Bearer {made['key']}")[0] == 200


def test_a_new_key_is_shown_once_and_its_hash_is_the_line_to_keep(capsys):
    assert main(["keys", "ci"]) == 0
    key, kept = (line.split()[1] for line in capsys.readouterr().out.splitlines())
    assert key.startswith("hf_ci_")
    assert kept.startswith("ci:read:")
    assert key not in kept


def test_an_invalid_name_of_a_key_is_refused(capsys):
    assert main(["keys", "a b"]) == 2
    assert "digits" in capsys.readouterr().err


def test_a_server_that_is_told_to_stop_ends_open_streams_in_good_order(stage: Stage, port: int):
    server = stage.command("serve", "--listen", str(port))
    stage.until(lambda: "ready on" in server.output, "it answers")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/live", timeout=PATIENCE) as followed:
        assert b"ready" in followed.readline()
        server.send(signal.SIGTERM)
        # Cut off in the middle, this would raise.
        followed.read()
    assert server.wait() == 0
    assert "Traceback" not in server.output


@pytest.mark.parametrize("stage", ["sqlite", "postgres"], indirect=True)
def test_bench_measures_and_leaves_no_runs(stage: Stage, capsys):
    assert main(["bench", "--runs", "20", "--url", stage.url, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["runs"] == 20
    assert min(told.values()) > 0
    assert stage.client.workflows() == []


def test_bench_that_is_interrupted_leaves_no_runs(stage: Stage):
    """They are in a namespace that nobody knows the name of: live ones would stay for ever."""
    bench = stage.command("bench", "--runs", "5000")
    stage.until(lambda: _runs_of_all(stage) > 1_000, "the runs are started")
    bench.send(signal.SIGINT)
    bench.wait()
    assert _runs_of_all(stage) == 0


def _runs_of_all(stage: Stage) -> int:
    """How many runs there are, in whichever namespace."""
    with closing(sqlite3.connect(stage.url.removeprefix("sqlite:///"))) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchone():
            return 0
        return int(database.execute("SELECT count(*) FROM runs").fetchone()[0])
