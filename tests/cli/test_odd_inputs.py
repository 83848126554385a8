"""Input that a shell may hand to the command by mistake: it is refused in words, and nothing is changed."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast import Client, DefinitionError
from holdfast.cli import main
from holdfast.settings import resolve
from tests.cli.halving import code, halve

WORKFLOW = "from holdfast import step, workflow\n\n@step\ndef s(x): return x\n\n@workflow\nasync def body(n: int):\n"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with a run that has completed, in a folder that is the working directory."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'here.db'}"
    holdfast.run(halve, 4, key="four", url=url)
    return url


@pytest.mark.parametrize("command", [["import", "-"], ["hook", "-"]], ids=lambda command: command[0])
def test_a_closed_stdin_is_reported(url, command, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert main([*command, "--url", url]) == 2
    assert "stdin is closed; pipe into it" in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("file", ["nowhere.jsonl", "-"])
def test_an_import_of_nothing_creates_no_database(url, tmp_path, monkeypatch, file):
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["import", file, "--url", f"sqlite:///{tmp_path / 'new.db'}"]) != 0
    assert not (tmp_path / "new.db").exists()


def test_a_pipe_can_be_imported(url, tmp_path):

    with Client(url) as client:
        line = client.export(client.get_run(halve, key="four").id)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=(f"{line}\n",))
    writing.start()
    assert main(["import", str(pipe), "--url", f"sqlite:///{tmp_path / 'new.db'}"]) == 0
    writing.join()


@pytest.mark.parametrize("depth", [100, 300, 400, 900, 100_000])
def test_a_filter_that_nests_too_deeply_is_refused_and_ends_no_command_otherwise(url, depth, capsys):
    ended = main(["runs", "--where", f"number={'[' * depth}{']' * depth}", "--url", url])
    assert ended in (0, 2)
    assert "RecursionError" not in capsys.readouterr().err


def test_a_filter_that_nests_too_deeply_says_so():
    deep: list[object] = []
    for _ in range(900):
        deep = [deep]
    with pytest.raises(DefinitionError, match="it nests too deeply"):
        holdfast.RunFilter(input={"number": deep})


def test_doctor_lists_a_folder_that_it_may_not_read_and_goes_on(url, tmp_path, monkeypatch, capsys):
    (tmp_path / "workflows").mkdir()
    real = Path.iterdir

    def refused(folder):
        # Tests may be run by root, who may read every folder.
        if folder.name == "workflows":
            raise PermissionError(13, "Permission denied")
        return real(folder)

    monkeypatch.setattr(Path, "iterdir", refused)
    assert main(["doctor", "--url", url, "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    [found] = [one for one in checks if one["name"] == "module"]
    assert "workflows can't be read: Permission denied" in found["told"]
    assert checks[-1]["name"] == "workers"


def test_lint_reports_a_body_that_nests_too_deeply_and_goes_on(url, tmp_path, capsys):
    (tmp_path / "deep.py").write_text(f"{WORKFLOW}    return s({' + '.join(['1'] * 1000)})\n")
    (tmp_path / "late.py").write_text(f"import time\n{WORKFLOW}    return s(time.time())\n")
    assert main(["lint", "deep.py", "late.py", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(Path(one["path"]).name, one["code"]) for one in found] == [("deep.py", "syntax"), ("late.py", "clock")]
    assert "nests too deeply" in found[0]["message"]


def test_the_version_may_be_asked_for_as_json(capsys):
    assert main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": importlib.metadata.version("holdfast")}


def test_a_prune_that_finds_nothing_names_no_archive(url, tmp_path, capsys):
    arguments = ["prune", "--archive", str(tmp_path / "old.jsonl"), "--yes", "--json", "--url", url]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["archive"] is None
    assert main([*arguments, "--older-than", "0s"]) == 0
    assert json.loads(capsys.readouterr().out)["archive"] == str(tmp_path / "old.jsonl")


@pytest.mark.parametrize("written", ["::1", "::1:8000", "fe80::1:80"])
def test_an_ipv6_address_without_brackets_is_refused(written):
    with pytest.raises(DefinitionError, match=r"such as \[::1\]:9464"):
        resolve(listen=written)


def test_an_ipv6_address_in_brackets_is_taken():
    assert resolve(listen="[::1]:8000").listen == ("::1", 8000)


def test_what_a_module_prints_while_it_is_loaded_is_no_part_of_the_json(url, tmp_path, capsys):
    module = tmp_path / code(tmp_path, "talks")
    module.write_text(f"print('I am loaded')\nfrom holdfast import Codec\ncodec = Codec()\n{module.read_text()}")
    (tmp_path / "holdfast.toml").write_text('codec = "talks:codec"\n')
    for command in (["doctor", "talks.py"], ["replay", "--status", "completed", "--code", "talks.py"], ["runs"]):
        sys.modules.pop("talks", None)
        main([*command, "--url", url, "--json"])
        seen = capsys.readouterr()
        json.loads(seen.out)
        assert "I am loaded" in seen.err
