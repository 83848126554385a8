"""holdfast doctor: what it finds wrong, and what it says to do."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from holdfast import Client, step, workflow
from holdfast.cli import main
from holdfast.cli.checks import State, check_file, check_fleet
from holdfast.cli.checks.places import file_system_of

GOOD = "from holdfast import workflow\n\n@workflow\nasync def {name}() -> None: ...\n"


@step
async def nothing() -> None: ...


@workflow
async def errand() -> None:
    await nothing()


@pytest.fixture
def project(place, monkeypatch):
    """A folder with settings and a workflow."""
    tmp_path = place
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "holdfast.toml").write_text('url = "sqlite:///x.db"\nworkflows = ["./jobs"]\n')
    (tmp_path / "jobs" / "good.py").write_text(GOOD.format(name="good"))
    return tmp_path


@pytest.fixture
def doctor(project, capsys):
    """Run it; its exit code, and what it found by the name of the check."""

    def doctor(*options: str) -> tuple[int, dict[str, list[dict]]]:
        capsys.readouterr()
        code = main(["doctor", "--json", *options])
        told = json.loads(capsys.readouterr().out)
        assert told["ok"] == (code == 0)
        found: dict[str, list[dict]] = {}
        for one in told["checks"]:
            found.setdefault(one["name"], []).append(one)
        return code, found

    return doctor


def states(checks: list[dict]) -> list[str]:
    return [one["state"] for one in checks]


def test_a_sound_project_has_nothing_to_mend(doctor, project):
    code, found = doctor()
    assert code == 0
    assert states(found["python"] + found["packages"] + found["workflows"]) == ["ok", "ok", "ok"]
    assert found["settings file"][0]["told"] == str(project / "holdfast.toml")


def test_doctor_creates_no_database(doctor, project):
    _, found = doctor()
    assert states(found["database"]) == ["note"]
    assert not (project / "x.db").exists()


def test_a_schema_that_is_this_version_s_is_fine(doctor):
    assert main(["migrate"]) == 0
    code, found = doctor()
    assert (code, states(found["database"]), states(found["schema"])) == (0, ["ok"], ["ok"])


def test_an_old_schema_is_reported_with_the_advice_to_migrate(doctor, project):
    (project / "x.db").touch()
    code, found = doctor()
    assert (code, states(found["schema"])) == (1, ["mend"])
    assert found["schema"][0]["advice"] == "holdfast migrate"


def test_every_module_that_cannot_be_loaded_is_named_with_its_error(doctor, project):
    (project / "jobs" / "bad.py").write_text("import nowhere_at_all\n")
    (project / "jobs" / "worse.py").write_text("1 / 0\n")
    code, found = doctor()
    assert code == 1
    told = [one["told"] for one in found["module"]]
    assert any("bad.py, line 1" in one and "nowhere_at_all" in one for one in told)
    assert any("worse.py, line 1" in one and "ZeroDivisionError" in one for one in told)
    assert found["workflows"][0]["told"] == "good"


def test_doctor_can_leave_modules_unloaded(doctor, project):
    (project / "jobs" / "bad.py").write_text("import nowhere_at_all\n")
    assert doctor("--no-modules")[0] == 0


def test_two_workflows_of_one_name_are_reported(doctor, project):
    (project / "jobs" / "twin.py").write_text(GOOD.format(name="good"))
    code, found = doctor()
    assert (code, states(found["duplicate workflow"])) == (1, ["mend"])


def test_a_wrong_setting_is_told_with_its_file(doctor, project):
    (project / "holdfast.toml").write_text("concurency = 5\n")
    code, found = doctor()
    assert code == 1
    assert "holdfast.toml: concurency" in found["settings"][0]["told"]
    assert "did you mean 'concurrency'?" in found["settings"][0]["told"]


@pytest.mark.parametrize("settings", ['url = "mysql://host/x"', 'url = "sqlite:///x.db"\nschema = "x"'], ids=str)
def test_a_url_that_names_no_store_is_a_wrong_setting(doctor, project, settings):
    (project / "holdfast.toml").write_text(f"{settings}\n")
    code, found = doctor()
    assert (code, states(found["settings"])) == (1, ["mend"])


def test_a_missing_codec_is_reported(doctor, project):
    with (project / "holdfast.toml").open("a") as file:
        file.write('codec = "storage:codec"\n')
    code, found = doctor()
    assert (code, states(found["codec"])) == (1, ["mend"])
    (project / "storage.py").write_text("import holdfast\n\ncodec = holdfast.Codec()\n")
    code, found = doctor()
    assert (code, states(found["codec"])) == (0, ["ok"])


def test_unreadable_api_keys_are_reported_and_not_shown(doctor, monkeypatch):
    monkeypatch.setenv("HOLDFAST_API_KEYS", f"ci:read:{'0' * 64},hf_ci_secret")
    code, found = doctor()
    assert (code, states(found["api_keys"])) == (1, ["mend"])
    assert found["api_keys"][0]["told"].startswith("number 2: ")
    assert "secret" not in found["api_keys"][0]["told"]


def test_a_file_that_is_no_database_is_reported_without_the_advice_to_migrate(doctor, project):
    (project / "x.db").write_text("not a database " * 100)
    code, found = doctor()
    assert (code, states(found["database"]), found["database"][0]["advice"]) == (1, ["mend"], None)


def test_a_path_in_a_url_is_the_file_that_it_means(doctor, project):
    assert main(["migrate", "--url", "sqlite:///a%20b.db"]) == 0
    code, found = doctor("--url", "sqlite:///a%20b.db")
    assert (code, states(found["database"])) == (0, ["ok"])
    assert (project / "a b.db").exists()


def test_an_environment_variable_unlike_any_setting_is_not_reported(doctor, monkeypatch):
    monkeypatch.setenv("HOLDFAST_FOO", "5")
    assert doctor()[1]["environment"][0]["advice"] == "unset it if it is not another program's"


def test_an_unknown_environment_variable_is_reported(doctor, monkeypatch):
    monkeypatch.setenv("HOLDFAST_CONCURENCY", "5")
    code, found = doctor()
    assert (code, found["environment"][0]["advice"]) == (0, "did you mean HOLDFAST_CONCURRENCY?")


def test_a_database_that_is_away_is_a_fault(doctor):
    code, found = doctor("--url", "postgresql://127.0.0.1:9/x")
    assert (code, states(found["database"])) == (1, ["mend"])


def test_runs_that_no_worker_serves_are_reported(doctor, project):
    with Client() as client:
        client.start(errand, delay="1h")
    code, found = doctor()
    assert (code, states(found["workers"])) == (1, ["note"])
    assert "1 live run of 'errand', version '1', queue 'default'" in found["runs without a worker"][0]["told"]


def test_runs_that_no_worker_serves_are_reported_by_workflow_and_queue(doctor, project):
    with Client() as client:
        for queue in ("mail", "default", "mail"):
            client.start(errand, delay="1h", queue=queue)
    _, found = doctor()
    told = [one["told"] for one in found["runs without a worker"]]
    assert [text.partition(":")[0] for text in told] == [
        "1 live run of 'errand', version '1', queue 'default'",
        "2 live runs of 'errand', version '1', queue 'mail'",
    ]


def test_doctor_says_so_if_there_are_more_runs_than_it_looks_at(project):
    with Client() as client:
        client.start_many(errand, [()] * 3, delay="1h")
        found = {one.name: one for one in check_fleet(client, most=2)}
        assert found["live runs"].state is State.NOTE
        assert found["live runs"].told.startswith("the newest 2 of 3 were looked at")
        assert "live runs" not in {one.name for one in check_fleet(client, most=4)}


def test_a_server_is_shown_with_the_user_and_its_time(doctor, postgres):
    url = postgres.create_database()
    assert main(["migrate", "--url", url]) == 0
    code, found = doctor("--url", url)
    assert code == 0
    assert states(found["clock"]) == ["ok"]
    assert found["server"][0]["told"].startswith("Postgres ")
    assert len(found["rights"]) == 1


@pytest.mark.parametrize(("kind", "state"), [("nfs4", State.MEND), ("cifs", State.MEND), ("ext4", State.OK)])
def test_a_network_file_system_is_no_place_for_sqlite(tmp_path, kind, state):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"none / ext4 rw 0 0\nserver:/x {tmp_path} {kind} rw 0 0\n")
    (check,) = check_file(f"sqlite:///{tmp_path / 'x.db'}", mounts=mounts)
    assert check.state is state


def test_the_file_system_of_the_innermost_mount_counts(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"c {tmp_path}/a/b xfs rw 0 0\na / ext4 rw 0 0\nb {tmp_path}/a nfs rw 0 0\n")
    assert file_system_of(tmp_path / "a" / "b" / "x.db", mounts) == "xfs"
    assert file_system_of(tmp_path / "ab" / "x.db", mounts) == "ext4"
    assert file_system_of(tmp_path / "x.db", Path("/nowhere/mounts")) is None


def test_a_file_that_everybody_may_read_is_reported(tmp_path):
    file = tmp_path / "x.db"
    file.touch(0o666)
    file.chmod(0o666)
    assert [one.name for one in check_file(f"sqlite:///{file}", mounts=tmp_path / "none")] == ["file rights"]
    file.chmod(0o600)
    assert list(check_file(f"sqlite:///{file}", mounts=tmp_path / "none")) == []


@pytest.fixture
def ordinary_folder():
    """A folder that any user may enter, and for as long as the test this user is one whom rights can stop."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        yield folder
        os.seteuid(os.getuid())
        folder.chmod(0o755)


def _become_ordinary() -> None:
    if os.getuid() == 0:
        os.seteuid(65534)


def test_a_file_that_can_t_be_written_is_reported(ordinary_folder):
    file = ordinary_folder / "x.db"
    file.touch()
    file.chmod(0o444)
    ordinary_folder.chmod(0o555)
    _become_ordinary()
    found = check_file(f"sqlite:///{file}", mounts=ordinary_folder / "none")
    told = [one.told for one in found if one.state is State.MEND]
    assert told == [f"{file} can't be written by this user", f"{ordinary_folder} can't be written by this user"]


def test_a_folder_in_which_no_file_can_be_created_is_reported(ordinary_folder):
    ordinary_folder.chmod(0o555)
    _become_ordinary()
    (check,) = check_file(f"sqlite:///{ordinary_folder / 'x.db'}", mounts=ordinary_folder / "none")
    assert (check.name, check.state) == ("file rights", State.MEND)


def test_a_file_that_can_t_be_inspected_is_one_fault_among_others(doctor, project):
    (project / "holdfast.toml").write_text(f'url = "sqlite:///{"x" * 300}.db"\nworkflows = ["./jobs"]\n')
    code, found = doctor()
    assert code == 1
    assert [one["state"] for one in found["database"]] == ["mend"]
    assert [one["state"] for one in found["workflows"]] == ["ok"]


def test_the_output_for_people_is_a_table_with_advice(project, capsys):
    (project / "x.db").touch()
    assert main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "→ holdfast migrate" in told
    assert told.rstrip().endswith("1 thing to mend")
