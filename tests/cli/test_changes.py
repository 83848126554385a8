"""The commands that change runs or send to them, one by one and by filter."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import time

import pytest

import holdfast
from holdfast import Client, Worker, workflow
from holdfast.cli import main
from tests.cli.halving import failed, halve


def test_runs_are_cancelled_by_a_filter(client, say):
    ours = client.start(halve, 2, tags={"kind": "gift"})
    other = client.start(halve, 2)
    assert say("cancel", "--tag", "kind=gift", "--yes") == "asked 1 run to end\n"
    assert (ours.refresh().status, other.refresh().status) == ("cancelled", "pending")


def test_a_command_on_many_runs_says_how_many_and_asks_for_confirmation(client, capsys):
    run = client.start(halve, 2)
    assert main(["cancel", "--all"]) == 2
    assert "Cancel 1 run?" in capsys.readouterr().err
    assert run.refresh().status == "pending"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Interrupted(Terminal):
    def readline(self, *_: int) -> str:  # type: ignore[override]
        raise KeyboardInterrupt


def test_ctrl_c_instead_of_an_answer_changes_nothing_and_ends_as_ctrl_c_does(client, monkeypatch, capsys):
    run = client.start(halve, 2)
    monkeypatch.setattr(sys, "stdin", Interrupted())
    assert main(["cancel", "--all"]) == 130
    assert run.refresh().status == "pending"


@pytest.mark.parametrize(("answer", "status", "code"), [("y\n", "cancelled", 0), ("n\n", "pending", 1)])
def test_a_command_on_many_runs_is_carried_out_if_the_answer_is_yes(client, monkeypatch, capsys, answer, status, code):
    run = client.start(halve, 2)
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert main(["cancel", "--all"]) == code
    assert run.refresh().status == status


def test_a_command_on_no_runs_asks_for_no_confirmation(client, say):
    assert json.loads(say("cancel", "--all", "--json")) == {"cancelled": 0}


def test_runs_cancelled_by_force_are_reported_as_ended(client, say):
    client.start(halve, 2)
    assert say("cancel", "--all", "--force", "--yes") == "cancelled 1 run\n"


def test_failed_runs_are_retried_by_a_filter(client, say):
    old = failed(client)
    assert json.loads(say("retry", "--status", "failed", "--yes", "--json")) == {"retried": 1}
    assert [run.record.forked_from for run in client.runs(holdfast.RunFilter(status="pending"))] == [old]


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("retry", "completed"),
        ("cancel", "failed"),
        ("pause", "completed"),
        ("resume", "cancelled"),
        ("delete", "waiting"),
    ],
)
def test_a_command_asks_only_about_runs_that_it_would_change(client, capsys, command, status):
    holdfast.run(halve, 4, url=client.url)
    assert main([command, "--status", status, "--yes"]) == 2
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert f"nothing is done to runs that are {status}; it is for those that are" in said


def test_a_run_is_forked_with_another_input(client, say):
    holdfast.run(halve, 4, url=client.url, key="first")
    old = client.get_run(halve, key="first")
    new = say("fork", old.id, "--input", "[5]").strip()
    assert client.get_run(new).record.forked_from == old.id
    assert json.loads(say("show", new, "--json"))["input"] == {"args": [5], "kwargs": {}}


def test_a_run_is_forked_with_another_result_of_a_step(client, say):
    holdfast.run(halve, 4, url=client.url, key="first")
    old = client.get_run(halve, key="first")
    told = json.loads(say("fork", old.id, "--at", "divide", "--result", "7", "--json"))
    (recorded,) = [one for one in client.journal(told["id"]) if one.kind == "step_completed"]
    assert recorded.value == 7


def test_runs_are_paused_and_resumed(client, say):
    run = client.start(halve, 2)
    assert say("pause", run.id) == f"paused {run.id}\n"
    assert client.get_run(run.id).record.paused
    assert say("pause", run.id) == f"{run.id} was paused already\n"
    assert json.loads(say("resume", run.id, "--json")) == [{"id": run.id, "resumed": True}]
    assert not client.get_run(run.id).record.paused


def test_runs_are_paused_and_resumed_by_a_filter(client, say):
    client.start(halve, 2)
    assert say("pause", "--workflow", "halve", "--yes") == "paused 1 run\n"
    assert say("resume", "--workflow", "halve", "--yes") == "resumed 1 run\n"


def test_a_run_that_cannot_be_paused_does_not_keep_the_others_from_being_paused(client, capsys):
    run = client.start(halve, 2)
    assert main(["pause", "nobody", run.id]) == 1
    seen = capsys.readouterr()
    assert "nobody" in seen.err
    assert seen.out == f"paused {run.id}\n"


def test_one_run_that_is_not_there_does_not_keep_the_others_from_being_cancelled(client, capsys):
    first, second = client.start(halve, 2), client.start(halve, 2)
    assert main(["cancel", first.id, "nobody", second.id]) == 1
    seen = capsys.readouterr()
    assert "nobody" in seen.err
    assert [line.split()[1] for line in seen.out.splitlines()] == [first.id, second.id]
    assert (first.refresh().status, second.refresh().status) == ("cancelled", "cancelled")


def test_a_run_that_is_named_twice_is_reported_once(client, say):
    run = client.start(halve, 2)
    assert [one["id"] for one in json.loads(say("cancel", run.id, run.id, "--json"))] == [run.id]


def test_cancel_reports_the_outcome_of_each_run_as_json(client, capsys):
    run = client.start(halve, 2)
    assert main(["cancel", "nobody", run.id, "--json"]) == 1
    missing, cancelled = json.loads(capsys.readouterr().out)
    assert (missing["id"], "nobody" in missing["error"]) == ("nobody", True)
    assert (cancelled["id"], cancelled["sent"], "error" in cancelled) == (run.id, True, False)


def test_ids_of_retries_are_printed_though_one_run_cannot_be_retried(client, capsys):
    first, second = failed(client), failed(client)
    assert main(["retry", first, "nobody", second]) == 1
    seen = capsys.readouterr()
    assert "nobody" in seen.err
    assert [client.get_run(line).record.forked_from for line in seen.out.splitlines()] == [first, second]
    assert main(["retry", first, "nobody", "--json"]) == 1
    retried, missing = json.loads(capsys.readouterr().out)
    assert client.get_run(retried["id"]).record.forked_from == first
    assert (missing["id"], missing["forked_from"], "nobody" in missing["error"]) == (None, "nobody", True)


def test_an_ended_run_is_deleted_and_a_live_one_is_not(client, say, capsys):
    live = client.start(halve, 2, delay="1h")
    ended = failed(client)
    assert say("delete", ended) == f"deleted {ended}\n"
    assert main(["delete", live.id]) == 1
    assert "cancel it first" in capsys.readouterr().err


def test_ended_runs_are_deleted_by_a_filter(client, say):
    failed(client)
    client.start(halve, 2, delay="1h")
    assert say("delete", "--all", "--yes") == "deleted 1 run\n"
    assert client.count(holdfast.RunFilter()) == 1


def test_old_runs_are_pruned_into_an_archive(client, say, tmp_path):
    run_id = failed(client)
    assert say("prune", "--older-than", "3600", "--yes") == "deleted 0 runs\n"
    told = say("prune", "--older-than", "0s", "--archive", str(tmp_path / "old.jsonl"), "--yes", "--json")
    assert json.loads(told)["deleted"] == 1
    assert json.loads((tmp_path / "old.jsonl").read_text())["id"] == run_id


@pytest.mark.parametrize("command", [["prune", "--older-than"], ["runs", "--since"]], ids=" ".join)
def test_a_duration_that_is_too_long_is_refused_with_the_longest_allowed(command, capsys):
    assert main([*command, "9999999d"]) == 2
    # It stands in a box, whose lines are broken anywhere.
    assert "no more than a thousand years" in " ".join(capsys.readouterr().err.replace("│", "").split())


def test_pruning_counts_runs_by_the_database_s_clock_before_it_asks(client, capsys, monkeypatch):
    failed(client)
    # The runs of this file have ended two hours from now.
    behind = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: behind() - 7_200_000_000_000)
    assert main(["prune", "--older-than", "0s"]) == 0
    assert "Delete" not in capsys.readouterr().err
    assert client.count(holdfast.RunFilter()) == 1


def test_pruning_deletes_no_more_runs_than_it_asked_about(client, monkeypatch):
    failed(client)

    def confirm(question: str, yes: bool) -> None:
        assert question.startswith("Delete 1 run ")
        failed(client)

    monkeypatch.setattr("holdfast.cli.changes.confirm", confirm)
    assert main(["prune", "--older-than", "0s"]) == 0
    assert client.count(holdfast.RunFilter()) == 1


def test_pruning_asks_for_confirmation(client, capsys):
    failed(client)
    assert main(["prune", "--older-than", "0s"]) == 2
    assert "Delete 1 run that ended" in capsys.readouterr().err
    assert client.count(holdfast.RunFilter()) == 1


@workflow
async def waits() -> object:
    first = await holdfast.wait_for_signal("go")
    second = await holdfast.wait_for_event("news")
    hook = holdfast.hook(name="late")
    holdfast.set_value("token", hook.token)
    return [first, second, await hook.wait()]


def drive(client: Client, run_id: str) -> str:
    """Take turns of a run, in a worker that is there for nothing else."""

    async def turns() -> str:
        return (await Worker(client.url, workflows=[waits]).drive(run_id)).reason

    return asyncio.run(turns())


def test_signals_events_and_hook_payloads_reach_a_run(client, say, monkeypatch):
    run = client.start(waits)
    assert say("signal", run.id, "go", "--payload", '{"by": "me"}') == f"sent go to run {run.id}\n"
    assert say("publish", "news", "--payload", "[1]") == "published news\n"
    assert drive(client, run.id) == "waiting"
    monkeypatch.setattr(sys, "stdin", io.StringIO(run.value("token") + "\n"))
    assert say("hook", "-", "--payload", '"done"') == "resumed\n"
    assert drive(client, run.id) == "ended"
    assert run.result() == [{"by": "me"}, [1], "done"]


def test_a_message_with_an_id_is_delivered_once(client, say):
    run = client.start(waits)
    for _ in range(2):
        say("signal", run.id, "go", "--message-id", "mail-7")
    drive(client, run.id)
    assert [one.kind for one in client.journal(run.id)].count("signal") == 1


@pytest.mark.parametrize("given", ["NaN", '{"price": Infinity}', "-Infinity", "[1e400]"])
def test_a_number_that_json_lacks_is_refused_and_not_sent_as_null(client, capsys, given):
    run = client.start(halve, 2, delay="1h")
    assert main(["signal", run.id, "go", "--payload", given]) == 2
    assert "is no number in JSON" in " ".join(capsys.readouterr().err.split())


def test_an_invalid_token_of_a_hook_is_refused(client, capsys):
    assert main(["hook", "nonsense"]) == 1
    assert capsys.readouterr().err.startswith("holdfast: ")
