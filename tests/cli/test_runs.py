"""The commands about runs, beside what the client says about the same ones."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

import holdfast
from holdfast import Client, Worker, workflow
from holdfast.cli import main
from holdfast.cli.output import table_of
from holdfast.cli.runs import Printed
from holdfast.model import new_id
from tests.cli.halving import failed, halve


@workflow
async def passes_on(word: str) -> str:
    if word == "first":
        holdfast.continue_as_new("second")
    return await holdfast.wait_for_signal("go")


@workflow
async def pay(order: dict[str, Any]) -> str:
    return str(order["card"])


@pytest.fixture
def client(client: Client) -> Client:
    """On a database in which `halve` has been executed once."""
    holdfast.run(halve, 4, key="first")
    return client


def test_runs_are_listed_newest_first(client, say):
    second = client.start(halve, 2, key="[bold]second[/bold]")
    lines = say("runs").splitlines()
    assert [line.split()[:1] for line in lines[1:]] == [[second.id], [client.get_run(halve, key="first").id]]
    # What a user wrote is not markup.
    assert "[bold]second[/bold]" in lines[1]


def test_runs_as_json_have_all_fields_of_the_record(client, say):
    first = client.get_run(halve, key="first")
    (told,) = json.loads(say("runs", "--json"))["runs"]
    assert (told["id"], told["status"], told["key"]) == (first.id, "completed", "first")
    assert datetime.fromisoformat(told["created_at"]) == first.record.created_at


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--status", "pending"], ["second"]),
        (["--status", "pending", "--status", "completed"], ["second", "first"]),
        (["--key", "first"], ["first"]),
        (["--workflow", "other"], []),
        (["--tag", "kind=gift"], ["second"]),
        (["--since", "1h"], ["second", "first"]),
        (["--until", "1h"], []),
        (["--since", "2100-01-01T00:00:00+00:00"], []),
        (["--limit", "1"], ["second"]),
        (["--workflow", "halve", "--where", "number=2"], ["second"]),
    ],
    ids=str,
)
def test_runs_are_filtered(client, say, options, expected):
    client.start(halve, 2, key="second", tags={"kind": "gift"})
    told = json.loads(say("runs", "--json", *options))
    assert [run["key"] for run in told["runs"]] == expected


def test_runs_are_filtered_by_fields_inside_an_argument(client, say):
    for card in ("zz", "yy"):
        holdfast.run(pay, {"card": card, "buyer": {"name": "ann", "id": 7}}, key=card)
    for options, expected in (
        (["--where", "order.card=zz"], ["zz"]),
        (["--where", "order.card=zz", "--where", "order.buyer.id=7"], ["zz"]),
        (["--where", "order.buyer.id=8"], []),
        (["--where", 'order={"card": "yy"}'], ["yy"]),
    ):
        told = json.loads(say("runs", "--json", "--workflow", "pay", *options))
        assert [run["key"] for run in told["runs"]] == expected


def test_a_value_nested_too_deeply_for_json_is_printed_as_text(client, say):
    assert say("runs", "--where", f"number={'[' * 5_000}") == "no runs\n"


def test_a_listing_goes_on_at_its_cursor(client, say):
    client.start(halve, 2, key="second")
    cursor = json.loads(say("runs", "--json", "--limit", "1"))["next"]
    assert say("runs", "--limit", "1").splitlines()[-1] == f"there are more: --cursor {cursor}"
    told = json.loads(say("runs", "--json", "--cursor", cursor))
    assert ([run["key"] for run in told["runs"]], told["next"]) == (["first"], None)


@pytest.mark.parametrize("command", [["runs", "--watch"], ["journal", "nobody", "--follow"]])
def test_a_watch_refuses_to_poll_without_a_pause(client, capsys, command):
    assert main([*command, "--interval", "0"]) == 2
    assert "--interval" in capsys.readouterr().err


def told_on(width: int, run_id: str) -> str:
    console = Console(file=io.StringIO(), width=width)
    row = [run_id, "w" * 30, datetime(2026, 1, 31, 12), "1h30m"]
    console.print(table_of(["ID", "WORKFLOW", "CREATED", "TOOK"], [row], width=width))
    return console.file.getvalue()  # type: ignore[attr-defined]  # it is the one from above


def test_an_id_stays_in_one_piece_on_a_usual_terminal():
    run_id = new_id()
    assert run_id in told_on(80, run_id)


@pytest.mark.parametrize(("width", "run_id"), [(30, "x" * 36), (80, "x" * 200)])
def test_ids_are_printed_in_full_on_a_narrow_terminal(width, run_id):
    assert told_on(width, run_id).count("x") == len(run_id)


def listed(width: int, *, created_at: datetime) -> list[str]:
    row = [new_id(), "checkout", "completed", "order-3", created_at, "4.009s"]
    console = Console(file=io.StringIO(), width=width)
    headings = ["ID", "WORKFLOW", "STATUS", "KEY", "CREATED", "TOOK"]
    console.print(table_of(headings, [row], width=width, spare=["TOOK"]))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # it is the one from above


def test_a_run_is_one_line_without_broken_words_on_a_usual_terminal():
    headings, row = listed(80, created_at=datetime(2026, 1, 31, 12, tzinfo=UTC))
    assert row.split()[1:] == ["checkout", "completed", "order-3", "2026-01-31"]
    assert headings.split() == ["ID", "WORKFLOW", "STATUS", "KEY", "CREATED"]
    _, row = listed(80, created_at=datetime.now(UTC).replace(hour=0, minute=1, second=2))
    assert row.split()[-1] == "00:01:02"


def test_all_columns_of_a_run_are_listed_on_a_wide_terminal():
    _, row = listed(120, created_at=datetime(2026, 1, 31, 12, tzinfo=UTC))
    assert row.split()[-3:] == ["2026-01-31", "12:00:00", "4.009s"]


def test_no_line_of_a_list_in_a_pipe_ends_in_blanks(client, say):
    assert [line for line in say("runs").splitlines() if line != line.rstrip()] == []


def test_an_empty_journal_is_printed_as_a_note(client, capsys):
    later = client.start(halve, 4, delay="1h")
    assert main(["journal", later.id]) == 0
    assert capsys.readouterr() == ("", f"nothing is recorded yet; holdfast why {later.id} says why\n")


def test_a_watch_remembers_what_it_printed_of_the_runs_seen_most_recently():
    printed = Printed(most=2)
    assert printed.is_news("one", {"status": "running"})
    assert printed.is_news("two", {"status": "running"})
    assert not printed.is_news("one", {"status": "running"})
    assert printed.is_news("three", {"status": "running"})
    assert not printed.is_news("one", {"status": "running"})
    assert printed.is_news("one", {"status": "completed"})
    # Forgotten: the others were seen after it.
    assert printed.is_news("two", {"status": "running"})


def test_a_watch_is_refused_together_with_a_cursor(client, capsys):
    assert main(["runs", "--watch", "--cursor", "abc"]) == 2
    assert "--cursor" in capsys.readouterr().err


def test_a_run_is_shown_with_its_input_its_result_and_its_journal(client, say):
    first = client.get_run(halve, key="first")
    text = say("show", first.id)
    for entry in client.journal(first.id):
        assert str(entry) in text
    told = json.loads(say("show", first.id, "--json"))
    assert (told["input"], told["result"], told["error"]) == ({"args": [4], "kwargs": {}}, 25, None)
    assert told["why"] == str(client.explain(first.id))


@workflow
async def counts_nothing() -> int:
    return 0


def test_a_result_is_shown_also_if_it_is_zero(client, say):
    holdfast.run(counts_nothing, key="zero", url=client.url)
    assert "result       0\n" in say("show", client.get_run(counts_nothing, key="zero").id)


def test_a_retry_is_shown_with_the_run_with_which_its_life_began(client, say):
    first = failed(client)
    again = client.retry(first)
    told = json.loads(say("show", again.id, "--json"))
    assert (told["origin_id"], told["forked_from"]) == (first, first)
    assert f"origin_id    {first}" in say("show", again.id)
    assert "origin_id" not in say("show", first)


def test_a_failed_run_is_shown_with_its_error(client, say):
    told = json.loads(say("show", failed(client), "--json"))
    assert told["result"] is None
    assert "ZeroDivisionError" in told["error"]


@pytest.mark.parametrize("command", ["show", "why", "journal", "cancel", "retry"])
def test_a_run_that_is_not_there_is_an_error_in_one_line(client, capsys, command):
    assert main([command, "nobody"]) == 1
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.startswith("holdfast: there is no run 'nobody'")
    assert len(seen.err.splitlines()) == 1


def test_why_prints_what_explain_returns(client, say):
    run = client.start(halve, 2, delay="1h")
    assert say("why", run.id).startswith(str(client.explain(run.id))[:20])
    told = json.loads(say("why", run.id, "--json"))
    assert (told["id"], told["reason"]) == (run.id, "not_due")


def test_the_journal_is_printed_entry_by_entry(client, say):
    first = client.get_run(halve, key="first")
    assert say("journal", first.id).splitlines() == [str(entry) for entry in client.journal(first.id)]
    told = json.loads(say("journal", first.id, "--json"))
    assert [entry["kind"] for entry in told] == [entry.kind for entry in client.journal(first.id)]


def test_an_entry_is_the_same_json_wherever_it_is_printed(client, say):
    for run_id in (client.get_run(halve, key="first").id, failed(client)):
        told = json.loads(say("journal", run_id, "--json"))
        assert json.loads(say("show", run_id, "--json"))["journal"] == told
        assert {tuple(entry) for entry in told} == {tuple(told[0])}


@pytest.mark.parametrize("given", ["7", "[7]", '{"number": 7}'])
def test_a_run_is_started_with_arguments_as_json(client, say, given):
    run_id = say("start", "halve", "--input", given).strip()
    assert json.loads(say("show", run_id, "--json"))["input"] in (
        {"args": [7], "kwargs": {}},
        {"args": [], "kwargs": {"number": 7}},
    )


@workflow
async def deliver(key: str, connection: str) -> str:
    return f"{key} over {connection}"


def test_arguments_may_be_named_as_options_are(client, say):
    holdfast.run(deliver, "first", "road")
    run_id = say("start", "deliver", "--input", '{"key": "next", "connection": "rail"}').strip()
    assert json.loads(say("show", run_id, "--json"))["input"] == {"args": ["next", "rail"], "kwargs": {}}


def test_a_run_is_started_with_input_from_stdin(client, say, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("[9]"))
    run_id = say("start", "halve", "--input", "-").strip()
    assert json.loads(say("show", run_id, "--json"))["input"] == {"args": [9], "kwargs": {}}


def test_options_of_a_start_reach_the_run(client, say):
    run_id = say(
        *("start", "halve", "--input", "7", "--key", "k", "--delay", "1h", "--priority", "3", "--tag", "kind=gift")
    ).strip()
    record: Any = client.get_run(run_id).record
    assert (record.key, record.priority, record.tags) == ("k", 3, {"kind": "gift"})
    assert record.due_at - record.created_at == timedelta(hours=1)


def test_a_start_with_a_key_that_is_taken_says_so_in_json(client, say):
    first = client.get_run(halve, key="first")
    told = json.loads(say("start", "halve", "--input", "4", "--key", "first", "--json"))
    assert (told["id"], told["created"]) == (first.id, False)


def test_a_run_that_continued_as_new_is_shown_without_a_result(client, say):
    run = client.start(passes_on, "first")
    asyncio.run(Worker(client.url, workflows=[passes_on]).drive(run.id))
    told = json.loads(say("show", run.id, "--json"))
    assert (told["status"], told["result"], told["error"]) == ("continued", None, None)
    assert "continued" in say("show", run.id)


def test_a_start_may_wait_for_the_result(client, say):
    assert json.loads(say("start", "halve", "--input", "4", "--key", "first", "--wait")) == 25


def test_a_start_that_waits_reports_a_failure_in_json(client, capsys):
    run_id = failed(client, key="zero")
    assert main(["start", "halve", "--input", "0", "--key", "zero", "--wait", "--json"]) == 1
    seen = capsys.readouterr()
    told = json.loads(seen.out)
    assert (told["id"], told["status"], told["result"]) == (run_id, "failed", None)
    assert told["error"] in seen.err


def test_a_start_that_waits_tells_how_the_last_run_of_a_chain_ended(client, capsys):
    run = client.start(passes_on, "first", id="chain")
    worker = Worker(client.url, workflows=[passes_on])
    asyncio.run(worker.drive(run.id))
    last = client.get_run("chain").record.successor_id
    asyncio.run(worker.drive(last))
    client.cancel(last, force=True)
    assert main(["start", "passes_on", "--input", '"first"', "--id", "chain", "--wait", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["id"], told["status"]) == ("chain", "cancelled")


def test_a_start_whose_wait_times_out_names_the_run_in_json(client, capsys):
    assert main(["start", "halve", "--input", "2", "--wait", "--timeout", "0s", "--json"]) == 1
    seen = capsys.readouterr()
    told = json.loads(seen.out)
    assert (client.get_run(told["id"]).status, told["status"], told["result"]) == ("pending", "pending", None)
    assert told["error"] in seen.err


def test_a_start_whose_wait_times_out_shows_the_current_state_of_the_run(client, capsys, monkeypatch):
    def wait(run: holdfast.Run[Any], timeout: float | None = None) -> Any:
        client.cancel(run.id)
        raise TimeoutError("it has not ended")

    monkeypatch.setattr(holdfast.Run, "wait", wait)
    assert main(["start", "halve", "--input", "2", "--wait", "--timeout", "1s", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["status"] == "cancelled"


def test_control_characters_of_an_error_are_escaped_on_a_terminal(client, capsys):
    @workflow
    def paints() -> None:
        raise ValueError("\x1b[2J red")

    with pytest.raises(holdfast.RunFailed):
        holdfast.run(paints, key="k")
    assert main(["start", "paints", "--key", "k", "--wait"]) == 1
    assert "ValueError: \\x1b[2J red;" in capsys.readouterr().err


def test_a_start_that_waits_for_a_run_that_fails_names_the_command_that_shows_where(client, capsys):
    run_id = failed(client, key="zero")
    assert main(["start", "halve", "--input", "0", "--key", "zero", "--wait"]) == 1
    assert f"; `holdfast show {run_id}` shows where, and how to go on" in capsys.readouterr().err


def test_a_start_whose_wait_times_out_names_the_command_that_says_why(client, capsys):
    assert main(["start", "halve", "--id", "this one", "--input", "2", "--wait", "--timeout", "0s"]) == 1
    assert "`holdfast why 'this one'`" in capsys.readouterr().err


def test_why_names_the_command_that_goes_on(client, say):
    run_id = failed(client)
    assert f"`holdfast retry {run_id}`" in say("why", run_id)


def test_a_start_that_waits_for_a_run_that_was_cancelled_names_the_command_that_goes_on(client, capsys):
    run = client.start(halve, 2, key="dropped", delay="1h")
    run.cancel()
    assert main(["start", "halve", "--input", "2", "--key", "dropped", "--wait"]) == 1
    assert f"`holdfast retry {run.id}`" in capsys.readouterr().err


def test_ctrl_c_while_a_start_waits_tells_which_run_goes_on(client, capsys, monkeypatch):
    def interrupted(run: holdfast.Run[Any], timeout: object = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(holdfast.Run, "wait", interrupted)
    assert main(["start", "halve", "--id", "this-one", "--input", "2", "--wait"]) == 130
    seen = capsys.readouterr()
    assert (seen.out, "run this-one goes on" in seen.err) == ("", True)


def test_a_workflow_that_nobody_knows_is_refused(client, capsys):
    assert main(["start", "dance"]) == 1
    assert "dance" in capsys.readouterr().err


def test_runs_are_cancelled(client, say):
    runs = [client.start(halve, 2), client.start(halve, 2)]
    told = json.loads(say("cancel", *(run.id for run in runs), "--reason", "enough", "--json"))
    assert [(one["id"], one["sent"]) for one in told] == [(run.id, True) for run in runs]
    assert [run.refresh().status for run in runs] == ["cancelled", "cancelled"]
    assert "had ended already" in say("cancel", runs[0].id)


def test_a_failed_run_is_retried_as_a_new_one(client, say):
    old = failed(client)
    new = say("retry", old).strip()
    record: Any = client.get_run(new).record
    assert record.forked_from == old


def test_workflows_are_counted(client, say):
    (told,) = json.loads(say("workflows", "--json"))
    assert (told["name"], told["counts"]["completed"]) == ("halve", 1)
    assert say("workflows").splitlines()[1].split()[:2] == ["halve", "1"]


def test_without_a_worker_the_list_says_how_to_start_one(client, say):
    assert say("workers") == "no worker is alive; start one: holdfast worker\n"
    assert json.loads(say("workers", "--json")) == []
