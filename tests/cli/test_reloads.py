"""Which files changed."""

from __future__ import annotations

import os

from holdfast.cli.reloads import changed, snapshot


def test_a_file_that_was_written_created_or_removed_counts_as_changed(tmp_path):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("1")
    before = snapshot([tmp_path])
    (tmp_path / "a.py").write_text("22")
    (tmp_path / "b.py").unlink()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.py").touch()
    assert changed(before, snapshot([tmp_path])) == [str(tmp_path / name) for name in ("a.py", "b.py", "sub/c.py")]


def test_a_file_of_the_same_size_and_another_time_counts_as_changed(tmp_path):
    (tmp_path / "a.py").write_text("1")
    before = snapshot([tmp_path])
    os.utime(tmp_path / "a.py", ns=(1, 1))
    assert changed(before, snapshot([tmp_path])) == [str(tmp_path / "a.py")]


def test_settings_are_watched_and_other_files_are_not(tmp_path):
    before = snapshot([tmp_path])
    for name in ("holdfast.toml", "pyproject.toml", "holdfast.db", "notes.txt"):
        (tmp_path / name).touch()
    assert changed(before, snapshot([tmp_path])) == [
        str(tmp_path / name) for name in ("holdfast.toml", "pyproject.toml")
    ]


def test_hidden_folders_and_environments_are_not_watched(tmp_path):
    for name in (".venv", "venv", "node_modules", "__pycache__"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").touch()
    assert snapshot([tmp_path]) == {}


def test_a_missing_folder_to_watch_is_no_error(tmp_path):
    assert snapshot([tmp_path / "gone"]) == {}
