"""`replay`: stored journals against code that is the same, or has changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.cli import main
from tests.cli.halving import code, exported, halve, with_three_runs


@pytest.fixture
def client(client: Client, place: Path) -> Client:
    """On a database with a completed run, a failed one and a live one, in a working directory of its own."""
    return with_three_runs(client)


def test_journals_that_match_this_code_end_with_zero(client, tmp_path, capsys):
    target = code(tmp_path, "same")
    assert main(["replay", "--workflow", "halve", "--status", "completed", "--status", "failed", "--code", target]) == 0
    assert capsys.readouterr().err == "2 runs replayed, 0 runs would not go on\n"


def test_a_journal_that_this_code_does_not_match_is_reported(client, tmp_path, capsys):
    target = code(tmp_path, "changed", "return await divide(number + 1)")
    run = client.get_run(halve, key="first")
    assert main(["replay", run.id, "--code", target]) == 1
    told = capsys.readouterr().out
    assert told.startswith(f"diverged {run.id}\nJournalDiverged: ")
    assert "the journal holds" in told


def test_a_replay_says_as_json_what_became_of_each_run(client, tmp_path, capsys):
    target = code(tmp_path, "changed_json", "return 1")
    run = client.get_run(halve, key="first")
    assert main(["replay", run.id, "--code", target, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["runs"][0]["id"], told["runs"][0]["state"]) == (False, run.id, "diverged")


def test_a_version_missing_from_the_code_is_an_error_unless_skipped(client, tmp_path, capsys):
    target = code(tmp_path, "newer", options='(version="2")')
    assert main(["replay", "--all-live", "--code", target]) == 1
    assert "it has version 2" in capsys.readouterr().out
    assert main(["replay", "--all-live", "--code", target, "--skip-unknown"]) == 0


def test_exported_journals_are_replayed_from_their_file(client, tmp_path):
    file = exported(tmp_path, "--status", "completed")
    assert main(["replay", "--file", str(file), "--code", code(tmp_path, "same_file")]) == 0
    assert main(["replay", "--file", str(file), "--code", code(tmp_path, "other_file", "return 1")]) == 1


@pytest.mark.parametrize(
    "which", [["--file", "x", "--workflow", "halve"], ["--file", "x", "one"], ["one", "--status", "failed"]]
)
def test_runs_to_replay_can_t_be_chosen_in_two_ways_at_once(client, tmp_path, which):
    assert main(["replay", *which, "--code", code(tmp_path, "asked")]) == 2


def test_replay_refuses_to_run_without_a_choice_of_runs(client, tmp_path):
    assert main(["replay", "--code", code(tmp_path, "asked")]) == 2
