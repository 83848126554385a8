"""export, import and replay: runs out of a database, into another one, and against other code."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Client, Done, Machine, Next, RunFilter, StoreAway, Worker
from holdfast.cli import main
from holdfast.client import Imported
from holdfast.testing import replay
from tests.cli.halving import code, exported, halve, with_three_runs


@holdfast.workflow
def keeps_odd_things() -> dict[Any, Any]:
    return {(1, 2): float("nan"), "at": datetime(2026, 1, 31, 12)}


@holdfast.workflow
async def holds_on() -> None:
    await holdfast.wait_for_signal("go")


async def driven(url: str, workflow: Any) -> None:
    await Worker(url, workflows=[workflow]).drive()


@pytest.fixture
def client(client: Client, place: Path) -> Client:
    """On a database with a completed run, a failed one and a live one, in a working directory of its own."""
    return with_three_runs(client)


def test_an_export_has_a_line_for_each_run(client, tmp_path, capsys):
    lines = [json.loads(line) for line in exported(tmp_path).read_text().splitlines()]
    assert [line["key"] for line in lines] == ["third", "second", "first"]
    assert [entry["kind"] for entry in lines[2]["journal"]] == [one.kind for one in client.journal(lines[2]["id"])]
    assert capsys.readouterr().err == "exported 3 runs\n"


def test_values_are_exported_as_plain_json(client, tmp_path):
    holdfast.run(keeps_odd_things, key="odd")
    [line] = exported(tmp_path, "--key", "odd").read_text().splitlines()
    told = json.loads(line, parse_constant=pytest.fail)
    assert told["journal"][-1]["value"] == {"[1,2]": None, "at": "2026-01-31T12:00:00"}
    assert datetime.fromisoformat(told["created_at"]).isoformat() == told["created_at"]


def test_an_export_may_be_narrowed_and_printed(client, capsys):
    assert main(["export", "--status", "failed"]) == 0
    assert json.loads(capsys.readouterr().out)["key"] == "second"


def test_an_export_passes_through_pipes_of_any_encoding(client, tmp_path, monkeypatch):
    client.start(halve, 5, key="dritte Hälfte", delay="1h")
    client.cancel(client.get_run(halve, key="dritte Hälfte").id)
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))
    assert main(["export", "--key", "dritte Hälfte"]) == 0
    assert json.loads(written.getvalue())["key"] == "dritte Hälfte"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(written.getvalue()), encoding="ascii"))
    assert main(["import", "-", "--url", f"sqlite:///{tmp_path / 'other.db'}"]) == 0


def test_an_export_overwrites_nothing(client, tmp_path, capsys):
    exported(tmp_path)
    assert main(["export", "--output", str(tmp_path / "runs.jsonl")]) == 1
    assert "runs.jsonl is there already" in capsys.readouterr().err


def test_an_export_that_fails_leaves_no_file_in_the_way_of_the_next(client, tmp_path, capsys):
    known = client.get_run(halve, key="first").id
    assert main(["export", known, "nobody", "--output", str(tmp_path / "runs.jsonl")]) == 1
    assert "nobody" in capsys.readouterr().err
    assert main(["export", known, "--output", str(tmp_path / "runs.jsonl")]) == 0
    assert len((tmp_path / "runs.jsonl").read_text("utf-8").splitlines()) == 1


@pytest.fixture(params=["sqlite", "postgres"])
def other_url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres").create_database()
    return f"sqlite:///{tmp_path / 'other.db'}"


def test_ended_runs_come_back_in_another_database_as_they_were(client, tmp_path, other_url, capsys):
    file = exported(tmp_path, "--status", "completed", "--status", "failed")
    capsys.readouterr()
    assert main(["import", str(file), "--url", other_url]) == 0
    assert capsys.readouterr().out == "imported 2 runs\n"
    with Client(other_url) as other:
        for key in ("first", "second"):
            here, there = client.get_run(halve, key=key), other.get_run(halve, key=key)
            for name in ("id", "status", "created_at", "ended_at", "input", "output", "error", "tags", "queue"):
                assert getattr(there.record, name) == getattr(here.record, name), name
            assert [one.as_dict() | {"seq": 0, "epoch": 0} for one in other.journal(there.id)] == [
                one.as_dict() | {"seq": 0, "epoch": 0} for one in client.journal(here.id)
            ]
        assert other.get_run(halve, key="first").result(timeout=0) == 25


def count(ctx):
    ctx["n"] = ctx.get("n", 0) + 1
    return Next("start") if ctx["n"] < 120 else Done(ctx["n"])


def test_a_machine_whose_older_rows_are_gone_comes_back(client, tmp_path, other_url):
    counting = Machine("counting", {"start": count})
    run = client.start(counting, None)

    async def turns():
        await Worker(client.url, workflows=[counting]).drive(run.id)

    asyncio.run(turns())
    with Client(other_url) as other:
        assert other.import_run(client.export(run.id)) is Imported.IMPORTED
        assert other.get_run(run.id).result(timeout=0) == 120
        assert replay(other.journal(run.id), counting).status == "completed"


def test_a_run_that_ended_before_it_began_comes_back(client, other_url):
    run = client.get_run(halve, key="third")
    run.cancel(reason="enough")
    with Client(other_url) as other:
        assert other.import_run(client.export(run.id)) is Imported.IMPORTED
        assert "because: enough" in str(other.explain(run.id))


def test_empty_lines_of_an_archive_are_ignored(client, tmp_path, other_url):
    file = exported(tmp_path, "--status", "completed")
    file.write_text(f"\n{file.read_text('utf-8')}\n", "utf-8")
    assert main(["import", str(file), "--url", other_url]) == 0
    assert main(["replay", "--file", str(file), "--code", code(tmp_path, "same_lines")]) == 0


def test_an_import_may_be_repeated(client, tmp_path, other_url, capsys):
    file = exported(tmp_path, "--status", "completed")
    for _ in range(2):
        assert main(["import", str(file), "--url", other_url, "--json"]) == 0
    told = json.loads(capsys.readouterr().out.partition("}\n")[2])
    assert (told["imported"], told["known"]) == (0, 1)


def test_a_live_run_is_not_imported(client, tmp_path, other_url, capsys):
    file = exported(tmp_path)
    assert main(["import", str(file), "--url", other_url]) == 1
    seen = capsys.readouterr()
    assert "only ended runs can be imported" in seen.err
    assert seen.out == "imported 2 runs\n"


@pytest.mark.parametrize("is_newest_first", [True, False])
def test_a_run_comes_back_beside_its_retry_which_holds_the_key(client, other_url, is_newest_first):
    first = client.get_run(halve, key="second")
    with pytest.raises(holdfast.RunFailed):
        holdfast.run(halve, 0, key="second")
    retried = client.get_run(halve, key="second")
    lines = [client.export(run.id) for run in ((retried, first) if is_newest_first else (first, retried))]
    with Client(other_url) as other:
        assert [other.import_run(line) for line in lines] == [Imported.IMPORTED] * 2
        assert [other.import_run(line) for line in lines] == [Imported.KNOWN] * 2
        assert other.get_run(halve, key="second").id == retried.id
        assert other.get_run(first.id).status == "failed"


@pytest.mark.parametrize("is_newest_first", [True, False])
def test_a_run_comes_back_beside_the_one_that_was_started_anew_with_its_key(client, other_url, is_newest_first):
    first = client.get_run(halve, key="first")
    anew = client.start(halve, 6, key="first", on_conflict="restart")
    holdfast.run(halve, 6, key="first")
    lines = [client.export(run.id) for run in ((anew, first) if is_newest_first else (first, anew))]
    with Client(other_url) as other:
        assert [other.import_run(line) for line in lines] == [Imported.IMPORTED] * 2
        assert [other.import_run(line) for line in lines] == [Imported.KNOWN] * 2
        assert other.get_run(halve, key="first").id == anew.id
        assert other.get_run(first.id).status == "completed"


def test_an_import_that_was_cut_off_is_finished_by_the_next(client, tmp_path, other_url):
    line = exported(tmp_path, "--status", "completed").read_text()
    with Client(other_url) as other:
        real = other.store.commit_turns

        async def dies(*_args, **_options):
            raise ConnectionError("the process ends here")

        other.store.commit_turns = dies
        with pytest.raises(ConnectionError):
            other.import_run(line)
        other.store.commit_turns = real
        assert other.import_run(line) is Imported.IMPORTED
        assert other.get_run(halve, key="first").result(timeout=0) == 25


def test_an_import_leaves_a_live_run_of_the_same_id_alone_whatever_it_waits_for(client, other_url):
    line = client.export(client.get_run(halve, key="first").id)
    with Client(other_url) as other:
        run = other.start(holds_on, id=client.get_run(halve, key="first").id)
        asyncio.run(driven(other_url, holds_on))
        assert run.refresh().record.due_at is None
        assert other.import_run(line) is Imported.KNOWN
        assert run.refresh().status == "waiting"


def test_a_run_started_while_one_of_its_id_is_imported_lives_on(client, other_url):
    line = client.export(client.get_run(halve, key="first").id)
    with Client(other_url) as other:
        real = other.store.start_runs

        async def beaten(runs, **options):
            await real([msgspec.structs.replace(run, rows=(), key=None, due_at=None) for run in runs])
            return await real(runs, **options)

        other.store.start_runs = beaten
        assert other.import_run(line) is Imported.KNOWN
        [run] = other.runs(RunFilter())
        assert (run.status, other.journal(run.id)) == ("pending", [])


@pytest.mark.parametrize(("answer", "told"), [(False, Imported.KNOWN), (StoreAway("locked"), None)])
def test_a_run_whose_end_was_not_written_is_not_counted_as_imported(client, other_url, answer, told):
    line = client.export(client.get_run(halve, key="first").id)
    with Client(other_url) as other:

        async def answering(*_args, **_options):
            return [answer]

        other.store.commit_turns = answering
        if told is None:
            with pytest.raises(StoreAway, match="locked"):
                other.import_run(line)
        else:
            assert other.import_run(line) is told


def test_no_worker_takes_a_run_whose_import_was_cut_off(client, tmp_path):
    line = exported(tmp_path, "--status", "completed").read_text()
    url = f"sqlite:///{tmp_path / 'other.db'}"
    with Client(url) as other:

        async def dies(*_args, **_options):
            raise ConnectionError("the process ends here")

        other.store.commit_turns = dies
        with pytest.raises(ConnectionError):
            other.import_run(line)
    holdfast.run(halve, 10, url=url)
    with Client(url) as other:
        assert other.get_run(halve, key="first").status == "pending"


def test_a_key_that_another_run_holds_stays_with_it(client, tmp_path, other_url, capsys):
    file = exported(tmp_path, "--status", "completed")
    with Client(other_url) as other:
        there = other.start(halve, 9, key="first")
        assert main(["import", str(file), "--url", other_url]) == 1
        assert other.get_run(halve, key="first").id == there.id
        assert other.count(RunFilter()) == 1
    assert "holds its key" in capsys.readouterr().err


def test_an_imported_run_can_be_retried(client, tmp_path, other_url):
    file = exported(tmp_path, "--status", "failed")
    assert main(["import", str(file), "--url", other_url]) == 0
    with Client(other_url) as other:
        again = other.retry(other.get_run(halve, key="second").id)
        assert again.created


def test_what_was_pruned_can_be_imported(client, tmp_path):
    archive = tmp_path / "old.jsonl"
    assert main(["prune", "--older-than", "0s", "--archive", str(archive), "--yes"]) == 0
    assert client.count(RunFilter()) == 1
    assert main(["import", str(archive)]) == 0
    assert client.count(RunFilter()) == 3


@pytest.mark.parametrize(
    "line", ["nonsense", "{}", '{"format": "holdfast-run/9"}', '{"format": "holdfast-run/1", "data": "AA=="}']
)
def test_a_line_that_is_no_run_is_refused_with_its_number(client, tmp_path, capsys, line):
    (tmp_path / "x.jsonl").write_text(f"{line}\n")
    assert main(["import", "x.jsonl"]) == 1
    assert "line 1: " in capsys.readouterr().err
    assert client.count(RunFilter()) == 3


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("nowhere.jsonl", "there is no file nowhere.jsonl; name one that `export` or `prune --archive` wrote"),
        ("folder", "folder is a folder; name a file in it"),
        ("bytes.jsonl", "bytes.jsonl is not text in UTF-8 (byte 0); name one that `export` or `prune --archive` wrote"),
    ],
)
def test_a_file_that_can_t_be_read_is_named_with_what_to_do(client, tmp_path, capsys, file, told):
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe")
    assert main(["import", file]) == 1
    assert capsys.readouterr().err == f"holdfast: {told}\n"
    assert main(["replay", "--file", file, "--code", code(tmp_path, "unread")]) == 1
    assert capsys.readouterr().err == f"holdfast: {told}\n"


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("new/a.jsonl", "new/a.jsonl can't be written: there is no folder new; make it, or name another file"),
        ("folder", "folder is a folder; name a file in it"),
    ],
)
def test_a_file_that_can_t_be_written_is_named_with_what_to_do(client, tmp_path, capsys, file, told):
    (tmp_path / "folder").mkdir()
    assert main(["export", "--output", file]) == 1
    assert capsys.readouterr().err == f"holdfast: {told}\n"
    assert main(["prune", "--older-than", "0s", "--archive", file, "--yes"]) == 1
    assert capsys.readouterr().err == f"holdfast: {told}\n"
    assert client.count(RunFilter()) == 3
