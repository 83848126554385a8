"""Where the command takes its settings from: the option, the environment, the nearest file, the default."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from holdfast import AsyncClient, Client, workflow
from holdfast.cli import main
from holdfast.cli.exits import WrongSettings
from holdfast.cli.servers import offer
from holdfast.discovery import find_codec


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder inside a project, and no variables that would be in the way."""
    for name in ("HOLDFAST_URL", "HOLDFAST_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    inner = tmp_path / "project" / "deep" / "deeper"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    return tmp_path / "project"


def used(capsys, *options: str) -> str:
    """The database that a command opened."""
    capsys.readouterr()
    assert main(["migrate", *options]) == 0
    return capsys.readouterr().out.partition(" has this")[0]


def test_the_nearest_file_upward_names_the_database(place, capsys):
    (place / "holdfast.toml").write_text('url = "sqlite:///far.db"\n')
    (place / "deep" / "pyproject.toml").write_text('[tool.holdfast]\nurl = "sqlite:///near.db"\n')
    assert used(capsys) == f"sqlite:///{place / 'deep' / 'near.db'}"


def test_a_pyproject_without_the_table_is_passed_by(place, capsys):
    (place / "holdfast.toml").write_text('url = "sqlite:///far.db"\n')
    (place / "deep" / "pyproject.toml").write_text("[tool.other]\n")
    assert used(capsys) == f"sqlite:///{place / 'far.db'}"


def test_the_environment_comes_before_files_and_options_before_both(place, capsys, monkeypatch, tmp_path):
    (place / "holdfast.toml").write_text('url = "sqlite:///file.db"\n')
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{tmp_path / 'variable.db'}")
    assert used(capsys).endswith("variable.db")
    assert used(capsys, "--url", f"sqlite:///{tmp_path / 'option.db'}").endswith("option.db")


def test_a_namespace_of_the_settings_holds_for_every_command(place, capsys):
    (place / "holdfast.toml").write_text('url = "sqlite:///x.db"\nnamespace = "shop"\n')
    with Client() as client:
        assert client.namespace == "shop"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("workers = 5", "workers is not a setting"),
        ("conccurrency = 5", "did you mean 'concurrency'?"),
        ('concurrency = "many"', "concurrency 'many': expected a whole number"),
        ("lease = true", "lease"),
        ('listen = "everywhere"', "expected a port"),
        ("queues = 5", "expected names"),
        ('migrate = "perhaps"', "expected true or false"),
        ("url = 5", "expected the address of a database"),
        ("[worker]\nconcurrency = 5", "worker is not a setting"),
        ("url = ", "can't be read"),
    ],
    ids=lambda text: text.split()[0],
)
def test_a_wrong_setting_is_reported_with_its_file_key_and_expectation(place, capsys, text, told):
    (place / "holdfast.toml").write_text(f"{text}\n")
    assert main(["runs"]) == 2
    seen = capsys.readouterr()
    assert str(place / "holdfast.toml") in seen.err
    assert told in seen.err
    assert len(seen.err.splitlines()) == 1


def test_a_key_in_a_table_is_named_in_full(place, capsys):
    (place / "pyproject.toml").write_text("[tool.holdfast]\nconcurrency = 0\n")
    assert main(["runs"]) == 2
    assert "tool.holdfast.concurrency 0: expected" in capsys.readouterr().err


def test_an_invalid_schema_name_is_refused_before_the_database_is_asked(place, capsys, monkeypatch):
    monkeypatch.setenv("HOLDFAST_URL", "postgresql://nowhere/x")
    monkeypatch.setenv("HOLDFAST_SCHEMA", "My Shop")
    assert main(["runs"]) == 2
    assert "the environment variable HOLDFAST_SCHEMA 'My Shop': expected lower-case" in capsys.readouterr().err


def test_a_wrong_environment_variable_is_named(place, capsys, monkeypatch):
    monkeypatch.setenv("HOLDFAST_CONCURRENCY", "many")
    assert main(["runs"]) == 2
    assert "the environment variable HOLDFAST_CONCURRENCY 'many'" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["url = ['hunter2']", "api_keys = ['', 'hunter2']"])
def test_settings_that_may_be_secret_are_not_shown(place, capsys, text):
    (place / "holdfast.toml").write_text(f"{text}\n")
    assert main(["runs"]) == 2
    assert "hunter2" not in capsys.readouterr().err


STORAGE = (
    "from holdfast import AesGcm, Codec\ncodec = Codec(chain=[AesGcm({'k1': bytes(32)}, primary='k1')])\nother = 1\n"
)


@workflow
async def whisper(word: str) -> str:
    return word


def test_the_codec_of_the_settings_reads_what_was_encrypted(place, capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (place / "storage_of_whispers.py").write_text(STORAGE)
    (place / "holdfast.toml").write_text('url = "sqlite:///x.db"\ncodec = "storage_of_whispers:codec"\n')
    codec = find_codec("storage_of_whispers:codec", home=place)
    with Client(codec=codec) as client:
        client.start(whisper, "psst", id="one")
    assert main(["show", "one", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["input"] == {"args": ["psst"], "kwargs": {}}


@pytest.mark.parametrize("name", ["storage_of_whispers", "storage_of_whispers:other", "nowhere_at_all:codec", ":codec"])
def test_a_codec_setting_that_names_no_codec_is_refused(place, capsys, monkeypatch, name):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (place / "storage_of_whispers.py").write_text(STORAGE)
    (place / "holdfast.toml").write_text(f'codec = "{name}"\n')
    assert main(["runs"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("holdfast: codec ")
    assert "workflows" not in told


def test_a_working_directory_that_is_gone_is_reported_as_such(place, capsys, monkeypatch):
    gone = place / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["runs"]) == 1
    assert capsys.readouterr().err == "holdfast: the working directory is not there any more; change to one that is\n"


def test_a_folder_in_the_place_of_a_database_is_reported_as_such(place, capsys):
    (place / "shop.db").mkdir()
    assert main(["runs", "--url", f"sqlite:///{place / 'shop.db'}"]) == 3
    assert capsys.readouterr().err.endswith("shop.db is a folder; name a file in it\n")


def test_a_setting_of_the_rest_api_that_is_wrong_is_not_called_an_api_key():
    settings = SimpleNamespace(api_keys=(), allow_remote="yes", cors=(), listen=("127.0.0.1", 1))
    with pytest.raises(WrongSettings, match=r"^allow_remote='yes': expected True or False"):
        offer(settings, AsyncClient("sqlite:///:memory:"))
