"""Which runs `replay` takes: a name that nobody knows is no reason to be content."""

from __future__ import annotations

import holdfast
from holdfast import Client, RunNotFound, workflow
from holdfast.cli import main
from holdfast.client import Journal
from tests.cli.halving import halve


@workflow
async def forgotten() -> None:
    pass


def test_a_workflow_that_neither_the_code_nor_the_database_knows_is_refused(client, capsys):
    holdfast.run(halve, 4, url=client.url)
    assert main(["replay", "--workflow", "halv", "--code", "tests.cli.halving"]) == 1
    assert "no workflow 'halv' is in this code or in the database; known are: halve" in capsys.readouterr().err


def test_replaying_a_workflow_that_has_no_runs_yet_succeeds(client, capsys):
    assert main(["replay", "--workflow", "halve", "--code", "tests.cli.halving"]) == 0
    assert capsys.readouterr().err == "0 runs replayed, 0 runs would not go on\n"


def test_replaying_looks_at_runs_of_a_workflow_that_only_the_database_knows(client, capsys):
    client.start(forgotten)
    assert main(["replay", "--workflow", "forgotten", "--code", "tests.cli.halving"]) == 1
    assert "1 run replayed, 1 run would not go on" in capsys.readouterr().err


def test_replay_leaves_out_a_run_deleted_meanwhile_and_fails_if_it_was_named(client, capsys, monkeypatch):
    holdfast.run(halve, 4, url=client.url)
    gone = client.start(halve, 6, delay="1h")
    read = Client.journal

    def journal(self: Client, run_id: str) -> Journal:
        if run_id == gone.id:
            raise RunNotFound(f"no run {run_id!r}")
        return read(self, run_id)

    monkeypatch.setattr(Client, "journal", journal)
    assert main(["replay", "--workflow", "halve", "--code", "tests.cli.halving"]) == 0
    assert capsys.readouterr().err == "0 runs replayed, 0 runs would not go on\n"
    assert main(["replay", gone.id, "--code", "tests.cli.halving"]) == 1
    assert f"no run {gone.id!r}" in capsys.readouterr().err
