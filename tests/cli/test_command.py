"""The command as a user types it."""

import os
import sqlite3
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from holdfast.cli import main


def test_version_prints_the_installed_version(capsys):
    assert main(["version"]) == 0
    assert capsys.readouterr().out.strip() == version("holdfast")


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


def test_a_database_that_cannot_be_opened_is_an_error_on_stderr(tmp_path, capsys):
    assert main(["migrate", "--url", f"sqlite:///{tmp_path / 'no' / 'such' / 'directory' / 'x.db'}"]) == 1
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.startswith("holdfast: ")


def test_an_unknown_command_is_wrong_usage():
    with pytest.raises(SystemExit) as refused:
        main(["dance"])
    assert refused.value.code == 2


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
