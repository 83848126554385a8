"""The command as a user types it."""

import asyncio
import io
import json
import os
import socket
import sqlite3
import subprocess
import sys
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import pytest

import holdfast
from holdfast import Client, Worker, workflow
from holdfast.cli import main
from holdfast.cli.app import app
from holdfast.store import redact_url


@workflow
async def says_it() -> str:
    holdfast.set_value("said", "ü")
    return "ü"


def test_version_prints_the_installed_version(capsys):
    assert main(["version"]) == 0
    assert capsys.readouterr().out.strip() == version("holdfast")


@pytest.mark.parametrize("command", [one.name or one.callback.__name__ for one in app.registered_commands])
def test_help_breaks_lines_where_the_terminal_ends_and_nowhere_else(command, capsys, monkeypatch):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 1_000)
    assert main([command, "--help"]) == 0
    printed = [line.strip() for line in capsys.readouterr().out.splitlines()]
    said = printed[: printed.index(next(line for line in printed if line.startswith("╭")))]
    assert len([line for line in said if line]) <= 3, "usage, what it does, and a paragraph of more"


def test_migrate_creates_the_schema_and_may_be_repeated(database_url, tmp_path, capsys):
    assert main(["migrate", "--url", database_url]) == 0
    assert main(["migrate", "--url", database_url]) == 0
    with sqlite3.connect(tmp_path / "holdfast.db") as database:
        tables = database.execute("select count(*) from sqlite_master where type = 'table'").fetchone()
    database.close()
    assert tables[0] > 0


def test_migrate_sql_prints_statements_and_touches_no_database(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["migrate", "--sql"]) == 0
    assert "create table" in capsys.readouterr().out.lower()
    assert list(tmp_path.iterdir()) == []


def test_migrate_sql_prints_what_a_schema_of_a_given_version_lacks(capsys):
    assert main(["migrate", "--sql", "--from", "1"]) == 0
    assert "create table runs" not in capsys.readouterr().out.lower()


@pytest.mark.parametrize("number", ["99", "9999"])
def test_migrate_sql_refuses_an_unknown_schema_version(number, capsys):
    assert main(["migrate", "--sql", "--from", number]) == 1
    seen = capsys.readouterr()
    assert seen.out == ""
    assert f"its schema is number {number}, and this Holdfast knows up to " in seen.err


def test_migrate_refuses_from_without_sql(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["migrate", "--from", "1"]) == 2
    assert "it goes with --sql" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_cannot_be_opened_is_an_error_on_stderr(tmp_path, capsys):
    assert main(["migrate", "--url", f"sqlite:///{tmp_path / 'no' / 'such' / 'directory' / 'x.db'}"]) == 3
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.startswith("holdfast: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["runs"],
        ["show", "one"],
        ["workers"],
        ["export"],
        ["cancel", "one"],
        ["prune", "--yes"],
        ["publish", "paid"],
    ],
    ids=" ".join,
)
def test_a_command_on_a_missing_database_names_it_and_creates_none(arguments, tmp_path, capsys):
    assert main([*arguments, "--url", f"sqlite:///{tmp_path / 'mistyped.db'}"]) == 3
    assert f"there is no database {tmp_path / 'mistyped.db'}; " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["runs"], ["start", "order"], ["migrate"]], ids=" ".join)
def test_a_missing_folder_of_a_database_is_named_as_such(arguments, tmp_path, capsys):
    assert main([*arguments, "--url", f"sqlite:///{tmp_path / 'mistyped' / 'shop.db'}"]) == 3
    told = capsys.readouterr().err
    assert f"there is no folder {tmp_path / 'mistyped'}; create it" in told
    assert "holdfast migrate" not in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["dance"],
        ["migrate", "--sideways"],
        ["worker", "--lease", "soon"],
        ["worker", "--processes", "0"],
        ["worker", "--concurrency", "many"],
        ["runs", "--since", "yesterday"],
        ["runs", "--tag", "gift"],
        ["start", "order", "--input", "{"],
        ["start", "order", "--delay", "soon"],
        ["runs", "--status", "happy"],
        ["runs", "--where", "order"],
        ["runs", "--where", "order.=1"],
        ["runs", "--where", ".card=1"],
        ["runs", "--where", "order=1", "--where", "order.card=2"],
        ["runs", "--where", "order.card=2", "--where", "order=1"],
        ["runs", "--watch", "--interval", "often"],
        ["cancel"],
        ["cancel", "one", "--all"],
        ["pause", "one", "--workflow", "order"],
        ["fork", "one", "--result", "1"],
        ["fork", "one", "--input", "{}"],
        ["signal", "one", "go", "--payload", "{"],
        ["prune", "--older-than", "long"],
        ["runs", "--url", "mysql://host/x"],
        ["runs", "--url", "postgresql://nowhere/x", "--schema", "My Shop"],
        ["migrate", "--sql", "--url", "postgresql://nowhere/x", "--schema", "pg_shop"],
        ["start", "order", "--priority", "11"],
        ["start", "order", "--tag", "a=1", "--tag", "a=2"],
        ["start", "order", "--timeout", "5s"],
        ["start", "order", "--input", "[" * 5_000],
        ["publish", "paid", "--payload", "[" * 5_000],
        ["runs", "--until", "0001-01-01T00:00+14:00"],
        ["runs", "--since", "9999-12-31T23:00-14:00"],
        ["runs", "--key", "\udcff"],
        ["cancel", "--workflow", "\udcff"],
        ["serve", "--cors", "app.example.com"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_wrong_usage_and_a_refusal_have_different_exit_codes(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "Traceback" not in seen.err
    assert list(tmp_path.iterdir()) == []


def test_a_duration_may_be_given_in_seconds(database_url):
    with Client(database_url) as client:
        asyncio.run(Worker(database_url, workflows=[says_it]).drive(client.start(says_it).id))
        spans = ["--delay", "90", "--deadline", "120.5", "--retention", "3600"]
        assert main(["start", "says_it", "--key", "later", *spans, "--url", database_url]) == 0
        made = client.get_run(says_it, key="later").record
    assert made.due_at == made.created_at + timedelta(seconds=90)
    assert made.deadline_at == made.created_at + timedelta(seconds=120.5)
    assert made.retention == 3_600_000_000


@pytest.mark.parametrize(
    "arguments",
    [
        ["start", "order", "--on-conflict", "panic"],
        ["start", "order", "--key", ""],
        ["start", "order", "--queue", "x" * 201],
        ["signal", "one", ""],
        ["publish", ""],
        ["hook", ""],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_an_invalid_name_or_option_is_wrong_usage(arguments, client, capsys):
    client.workers()
    assert main(arguments) == 2
    assert "expected" in capsys.readouterr().err


def test_a_traceback_is_shown_only_when_asked_for(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'no' / 'such' / 'directory' / 'x.db'}"
    assert main(["migrate", "--url", url]) == 3
    assert "Traceback" not in capsys.readouterr().err
    assert main(["migrate", "--url", url, "--traceback"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_a_traceback_may_be_asked_for_by_the_environment(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOLDFAST_TRACEBACK", "1")
    assert main(["migrate", "--url", f"sqlite:///{tmp_path / 'no' / 'such' / 'directory' / 'x.db'}"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_a_wrong_setting_in_a_file_is_wrong_usage_and_names_the_file_and_the_key(tmp_path, monkeypatch, capsys):
    (tmp_path / "holdfast.toml").write_text('ulr = "sqlite:///x.db"\n')
    monkeypatch.chdir(tmp_path)
    assert main(["runs"]) == 2
    told = capsys.readouterr().err
    assert str(tmp_path / "holdfast.toml") in told
    assert "ulr" in told
    assert "did you mean 'url'?" in told


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_command_completes_in_shells(shell):
    ran = subprocess.run(
        [sys.executable, "-m", "holdfast"],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            "_HOLDFAST_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": "holdfast jou",
            "COMP_CWORD": "1",
            "_TYPER_COMPLETE_ARGS": "holdfast jou",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "journal" in ran.stdout


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_its_extra_the_command_says_how_to_install_it(package):
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules[{package!r}] = None; import holdfast.__main__"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert f"needs the {package} package" in ran.stderr
    assert ran.stderr.rstrip().endswith("pip install 'holdfast[cli]'")
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_serve_without_its_extra_says_how_to_install_it_and_makes_no_database(package, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["serve", "--url", f"sqlite:///{tmp_path}/holdfast.db"]) == 1
    assert capsys.readouterr().err.rstrip().endswith("pip install 'holdfast[web]'")
    assert not [*tmp_path.iterdir()]


def test_serve_on_a_port_that_can_t_be_had_says_so_and_creates_no_database(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--url", f"sqlite:///{tmp_path}/holdfast.db", "--listen", str(port)]) == 1
    assert f"127.0.0.1:{port} can't be listened on" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("is_postgres", [False, True])
def test_migrate_says_as_json_whether_there_was_anything_to_do(is_postgres, database_url, request, capsys):
    url = request.getfixturevalue("postgres").create_database() if is_postgres else database_url
    for is_first in (True, False):
        assert main(["migrate", "--url", url, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"url": redact_url(url), "migrated": is_first}


def test_migrate_creates_the_schema_that_was_named(postgres, capsys):
    url = postgres.create_database()
    assert main(["migrate", "--url", url, "--schema", "shop"]) == 0
    assert main(["runs", "--url", url, "--schema", "shop", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2]) == {"runs": [], "next": None}


def test_migrate_sql_prints_the_statements_for_the_schema_that_was_named(capsys):
    assert main(["migrate", "--url", "postgresql://nowhere/x", "--schema", "shop", "--sql"]) == 0
    assert "shop" in capsys.readouterr().out


def test_a_stdout_that_is_closed_is_no_error(client, monkeypatch, capsys):
    client.workers()
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["runs", "--json"]) == 0
    sys.stdout.close()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("command", "expected"), [("show", "\\u2192 '\\xfc'"), ("values", '"\\u00fc"')])
def test_characters_that_an_encoding_lacks_are_escaped(database_url, monkeypatch, command, expected):
    with Client(database_url) as client:
        run = client.start(says_it)
        asyncio.run(Worker(database_url, workflows=[says_it]).drive(run.id))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))
    assert main([command, run.id, *(["said"] if command == "values" else []), "--url", database_url]) == 0
    assert expected in written.getvalue().decode("ascii")


def test_the_package_runs_as_a_module():
    source = Path(__file__).parents[2] / "src"
    ran = subprocess.run(
        [sys.executable, "-m", "holdfast", "--version"],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == version("holdfast")
