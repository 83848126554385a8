"""Lines of archives that no Holdfast has written: refused as one error that says why, and nothing is changed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Client, DefinitionError
from holdfast.cli import main
from holdfast.client import read_archive
from holdfast.model import RunFilter, decode_entries
from tests.cli.halving import halve

DEEP = "[" * 100_000


@pytest.fixture
def line(tmp_path) -> str:
    """The line of a run that has completed, in a database of its own."""
    url = f"sqlite:///{tmp_path / 'first.db'}"
    holdfast.run(halve, 4, url=url, key="four")
    with Client(url) as client:
        return client.export(client.get_run(halve, key="four").id)


def changed(line: str, change: Callable[[dict[str, Any]], object]) -> str:
    """The line with what is under `data` changed."""
    told = json.loads(line)
    data = msgspec.msgpack.decode(base64.b64decode(told["data"]))
    change(data)
    return json.dumps(told | {"data": base64.b64encode(msgspec.msgpack.encode(data)).decode()})


def with_entries_at(at: int) -> Callable[[dict[str, Any]], object]:
    def change(data: dict[str, Any]) -> None:
        row = data["rows"][0]
        entries = msgspec.msgpack.decode(row["data"])
        entries[0]["at" if isinstance(entries[0], dict) else 1] = at
        row["data"] = msgspec.msgpack.encode(entries)
        assert decode_entries(row["data"])[0].at == at

    return change


WRONG = {
    "a priority": lambda data: data["run"].update(priority=10),
    "a priority below": lambda data: data["run"].update(priority=-1),
    "a time": lambda data: data["rows"][0].update(at=10**18),
    "the time of an entry": with_entries_at(10**18),
    "an id without text": lambda data: data["run"].update(id=""),
    "an id with a NUL": lambda data: data["run"].update(id="a\0b"),
    "an id that is too long": lambda data: data["run"].update(id="x" * 501),
    "a key with a NUL": lambda data: data["run"].update(key="\0"),
    "a tag with a NUL": lambda data: data["run"].update(tags={"a": "\0"}),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_line_with_what_no_run_can_have_is_refused(database_url, line, change):
    wrong = changed(line, change)
    with Client(database_url) as client:
        with pytest.raises(DefinitionError, match="this line is not an exported run"):
            client.import_run(wrong)
        assert client.count(RunFilter()) == 0
    with pytest.raises(DefinitionError, match="this line is not an exported run"):
        read_archive(wrong)


def test_a_line_whose_data_is_only_written_anew_is_taken(database_url, line):
    with Client(database_url) as client:
        client.import_run(changed(line, lambda _: None))
        assert client.count(RunFilter()) == 1


def test_the_lines_around_one_that_is_nested_too_deeply_are_imported(database_url, line, tmp_path, capsys):
    other = changed(
        line, lambda data: data["run"].update(id="another", key="other", chain_id="another", origin_id="another")
    )
    file = tmp_path / "runs.jsonl"
    file.write_text(f"{line}\n{DEEP}\n{other}\n")
    assert main(["import", str(file), "--url", database_url]) == 1
    seen = capsys.readouterr()
    assert seen.out == "imported 2 runs\n"
    assert "line 2: this line is not an exported run: RecursionError" in seen.err


def test_a_replay_names_the_line_that_is_nested_too_deeply(tmp_path, capsys):
    file = tmp_path / "deep.jsonl"
    file.write_text(f"{DEEP}\n")
    (tmp_path / "none.py").write_text("from holdfast import workflow\n\n@workflow\nasync def nothing() -> None: ...\n")
    assert main(["replay", "--file", str(file), "--code", str(tmp_path / "none.py")]) == 1
    assert "line 1: this line is not an exported run: RecursionError" in capsys.readouterr().err
