"""A journal as a timeline, and the commands that follow runs."""

from __future__ import annotations

import asyncio
import json
import signal
from datetime import timedelta

import pytest

import holdfast
from holdfast import Client, Retry, Worker, step, workflow
from holdfast.cli import main
from holdfast.cli.timelines import rows_of, timeline
from tests.cli.stage import Stage


@step(retry=Retry(attempts=2, initial="0.01s"))
async def charge(number: int) -> int:
    return 100 // number


@step
async def endless() -> None:
    await asyncio.Event().wait()


@workflow
async def order(number: int) -> int:
    first, _ = await asyncio.gather(charge(2), charge(5))
    try:
        await charge(number)
    except ZeroDivisionError:
        await holdfast.wait_for_signal("go")
    return first


@pytest.fixture
def journal(database_url, monkeypatch):
    monkeypatch.setenv("HOLDFAST_URL", database_url)
    with Client(database_url) as client:
        run = client.start(order, 0, id="order-1")
        client.signal(run.id, "go")

        async def turns():
            worker = Worker(database_url, workflows=[order])
            while not (await worker.drive(run.id)).done:
                pass

        asyncio.run(turns())
        yield client.journal(run.id)


def test_every_step_has_a_row_and_messages_are_points(journal):
    rows = rows_of(journal)
    assert [row.label for row in rows if not row.is_point] == ["charge", "charge:1", "charge:2"]
    assert [row.label for row in rows if row.is_point] == ["signal go"]
    assert [row.is_failed for row in rows if not row.is_point] == [False, False, True]
    assert len(rows[2].attempts) == 1


class Luck:
    runs_out = True


@step(retry=Retry(attempts=1))
async def ship() -> str:
    if Luck.runs_out:
        raise ConnectionError("no ship")
    return "shipped"


@workflow
async def delivery() -> str:
    await charge(2)
    return await ship()


def test_a_step_that_a_retry_opened_again_has_a_row_for_each_try(database_url, monkeypatch):
    worker = Worker(database_url, workflows=[delivery])
    with Client(database_url) as client:
        monkeypatch.setattr(Luck, "runs_out", True)
        run = client.start(delivery)
        asyncio.run(worker.drive(run.id))
        again = client.retry(run.id)
        going = rows_of(client.journal(again.id))
        monkeypatch.setattr(Luck, "runs_out", False)
        asyncio.run(worker.drive(again.id))
        done = rows_of(client.journal(again.id))
    labels = ["charge", "ship", "run retrying again at once", "ship"]
    assert [row.label for row in going] == [row.label for row in done] == labels
    assert [(row.ended is None, row.is_failed) for row in going] == [
        (False, False), (False, True), (False, False), (True, False),
    ]  # fmt: skip
    assert [(row.ended is None, row.is_failed) for row in done] == [
        (False, False), (False, True), (False, False), (False, False),
    ]  # fmt: skip


def test_bars_of_a_timeline_stand_at_their_times(journal):
    lines = timeline(journal, until=journal[-1].at, width=80)
    assert len(lines) == 5
    assert all(len(line) <= 80 for line in lines)
    bars = {line.split()[0]: line for line in lines[:3]}
    assert "✗" in bars["charge:2"]
    assert "✗" not in bars["charge"]
    assert bars["charge:2"].index("✗") > bars["charge"].index("━")


def test_a_step_in_flight_has_a_bar_without_an_end(journal):
    begun = [entry for entry in journal if entry.seq == journal[0].seq and entry.kind != "step_completed"][:3]
    lines = timeline(begun, until=begun[0].at + timedelta(seconds=5), width=60)
    assert lines[0].endswith("5s so far")
    assert "…" in lines[0]


def test_a_step_cut_off_by_a_forced_cancel_is_not_shown_as_going_on(database_url, monkeypatch, capsys):
    @workflow
    async def waits_long() -> None:
        await asyncio.gather(charge(2), endless())

    async def begun(client: Client) -> None:
        async with Worker(client.url, workflows=[waits_long], grace="0s"):
            while not any(entry.key == "endless" for entry in client.journal("this-one")):
                await asyncio.sleep(0.01)

    monkeypatch.setenv("HOLDFAST_URL", database_url)
    with Client(database_url) as client:
        client.start(waits_long, id="this-one")
        asyncio.run(begun(client))
        assert main(["show", "this-one"]) == 0
        assert " so far\n" in capsys.readouterr().out
        client.cancel("this-one", force=True)
    assert main(["show", "this-one"]) == 0
    shown = capsys.readouterr().out
    assert (", unfinished\n" in shown, "so far" in shown) == (True, False)


def test_an_empty_journal_has_no_timeline():
    assert timeline([], until=None) == []


def test_show_draws_the_timeline(journal, capsys):
    assert main(["show", "order-1"]) == 0
    assert "━" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["journal", "logs"])
def test_following_an_ended_run_prints_its_journal_and_ends(journal, capsys, name):
    assert main([name, "order-1", "--follow"]) == 0
    assert capsys.readouterr().out.splitlines() == [str(entry) for entry in journal]


def test_a_watch_prints_each_change_as_a_line(stage: Stage):
    process = stage.command("runs", "--watch", "--json", "--interval", "0.05s")
    run = stage.client.start(order, 1)
    stage.until(lambda: run.id in process.output, "the run was seen")
    run.cancel()
    stage.until(lambda: "cancelled" in process.output, "its end was seen")
    told = [json.loads(line) for line in process.output.splitlines()]
    assert [one["status"] for one in told] == ["pending", "cancelled"]


def test_a_journal_is_followed_until_the_run_ends(stage: Stage):
    run = stage.client.start(order, 1)
    process = stage.command("journal", run.id, "--follow", "--interval", "0.05s")
    run.cancel()
    assert process.wait() == 0
    assert process.output.splitlines() == [str(entry) for entry in stage.client.journal(run.id)]


def test_ctrl_c_ends_a_watch_in_good_order(stage: Stage):
    watch = stage.command("runs", "--watch", "--json", "--interval", "0.05s")
    run = stage.client.start(order, 1)
    stage.client.pause(run.id)
    table = stage.command("runs", "--watch", "--interval", "0.05s")
    stage.until(lambda: run.id in watch.output and run.id in table.output, "the run was seen")
    for process in (watch, table):
        process.send(signal.SIGINT)
        assert process.wait() == 0
        assert "Traceback" not in process.output


def test_ctrl_c_ends_following_with_an_exit_code_of_its_own(stage: Stage):
    run = stage.client.start(order, 0)

    async def turns():
        await Worker(stage.url, workflows=[order]).drive(run.id, budget="5s")

    asyncio.run(turns())
    process = stage.command("journal", run.id, "--follow", "--interval", "0.05s")
    stage.until(lambda: "started" in process.output, "it follows")
    process.send(signal.SIGINT)
    assert process.wait() == 130
    assert "Traceback" not in process.output
