"""Commands about runs of which one has a journal that can't be read."""

from __future__ import annotations

import json

import pytest

import holdfast
from holdfast.cli import main
from tests.cli.halving import failed
from tests.client.hands import damage


@pytest.fixture
def damaged(client) -> str:
    run_id = failed(client)
    damage(client, run_id)
    return run_id


def test_why_and_show_print_what_is_readable_of_a_run_with_a_damaged_journal(damaged, capsys):
    assert main(["why", damaged]) == 0
    assert "failed at" in capsys.readouterr().out
    assert main(["show", damaged]) == 0
    shown = capsys.readouterr()
    assert "ZeroDivisionError" in shown.out
    assert f"the journal of run {damaged} can't be read at row 0" in shown.err


def test_printing_a_damaged_journal_fails_with_the_run_and_the_row(damaged, capsys):
    assert main(["journal", damaged]) == 1
    assert f"the journal of run {damaged} can't be read at row 0" in capsys.readouterr().err


def test_a_prune_names_the_run_with_a_damaged_journal_that_it_leaves(damaged, client, capsys, tmp_path):
    other = failed(client)
    assert main(["prune", "--older-than", "0s", "--archive", str(tmp_path / "old.jsonl"), "--yes", "--json"]) == 0
    seen = capsys.readouterr()
    assert json.loads(seen.out)["deleted"] == 1
    assert json.loads(seen.out)["unreadable"] == [damaged]
    assert f"left, for their journals can't be read: {damaged}; `holdfast delete` takes them" in seen.err
    assert json.loads((tmp_path / "old.jsonl").read_text())["id"] == other
    assert client.count(holdfast.RunFilter()) == 1


def test_an_export_of_all_runs_leaves_out_one_with_a_damaged_journal_and_says_so(damaged, client, capsys):
    other = failed(client)
    assert main(["export"]) == 0
    seen = capsys.readouterr()
    assert json.loads(seen.out)["id"] == other
    assert f"left out: the journal of run {damaged} can't be read" in seen.err
    assert main(["export", damaged]) == 1


def test_a_replay_names_the_run_with_a_damaged_journal_and_replays_the_others(damaged, client, capsys):
    other = failed(client)
    chosen = ["--status", "failed", "--code", "tests.cli.halving", "--json"]
    assert main(["replay", *chosen]) == 1
    told = json.loads(capsys.readouterr().out)
    assert {one["id"]: (one["state"], one["workflow"], one["version"]) for one in told["runs"]} == {
        damaged: ("damaged", "halve", "1"),
        other: ("matches", "halve", "1"),
    }
    assert main(["replay", damaged, "--code", "tests.cli.halving"]) == 1
    assert f"damaged {damaged}\nthe journal of run {damaged} can't be read at row 0" in capsys.readouterr().out
