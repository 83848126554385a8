"""Commands in places that lack something: a database, an encoding, a standard input."""

from __future__ import annotations

from holdfast.cli import main


def test_a_start_leaves_no_new_database_behind(place, monkeypatch, capsys):
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    assert main(["start", "nobody"]) == 3
    assert "there is no database holdfast.db" in capsys.readouterr().err
    assert list(place.iterdir()) == []
