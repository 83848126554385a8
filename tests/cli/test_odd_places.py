"""Commands in places that lack something: a database, an encoding, a standard input."""

from __future__ import annotations

import os
import subprocess
import sys

import holdfast
from holdfast.cli import main
from tests.cli.halving import halve
from tests.processes import ROOT


def ran(*arguments: str, url: str, **options: object) -> subprocess.CompletedProcess[str]:
    """A real command, with what a shell would give it."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOLDFAST_URL": url, "LC_ALL": "C", "PYTHONUTF8": "0"}
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        env=environ, capture_output=True, text=True, check=False, timeout=60, **options,
    )  # type: ignore[call-overload, no-any-return]  # fmt: skip  # one line a group reads better here


def test_a_start_leaves_no_new_database_behind(place, monkeypatch, capsys):
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    assert main(["start", "nobody"]) == 3
    assert "there is no database holdfast.db" in capsys.readouterr().err
    assert list(place.iterdir()) == []


def test_a_run_is_shown_where_the_locale_has_ascii_only(client):
    holdfast.run(halve, 4, key="first", url=client.url)
    shown = ran("show", client.get_run(halve, key="first").id, url=client.url)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\\u2192 25" in shown.stdout


def test_an_input_from_a_closed_stdin_is_refused(client, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["start", "halve", "--input", "-"]) == 2
    assert "stdin is closed" in capsys.readouterr().err


def test_a_command_on_many_runs_is_refused_without_confirmation_if_stdin_is_closed(client, monkeypatch, capsys):
    run = client.start(halve, 2)
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["cancel", "--all"]) == 2
    assert "say --yes" in capsys.readouterr().err
    assert run.refresh().status == "pending"
