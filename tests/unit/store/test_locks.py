"""Locks stand in a folder beside the database, and nowhere else."""

import fcntl
import os
import subprocess
import sys
import tempfile

import pytest

from holdfast.store import open_store
from holdfast.store.locks import ProcessLocks, WaitingRoom


def test_a_lock_is_held_in_a_folder_made_for_it(tmp_path):
    locks = ProcessLocks(str(tmp_path / "a.db.holdfast"), "default")
    assert locks.hold("w") is True
    locks.release_all()


def test_a_lock_is_held_in_a_namespace_of_whatever_letters(tmp_path):
    here, there = (ProcessLocks(str(tmp_path / "locks"), "\N{CJK UNIFIED IDEOGRAPH-5BA2}" * 200) for _ in range(2))
    assert here.hold("w") is True
    assert there.take_if_dead("w") is None
    here.release_all()
    assert there.is_dead("w")


def test_a_missing_folder_of_the_database_is_not_created_for_a_lock(tmp_path):
    folder = str(tmp_path / "away" / "a.db.holdfast")
    assert ProcessLocks(folder, "default").hold("w") is False
    assert WaitingRoom(folder).enter() is False
    assert not (tmp_path / "away").exists()


def test_a_folder_among_temporary_files_is_made_with_the_user_s_own_above_it(tmp_path):
    locks = ProcessLocks(str(tmp_path / "user" / "name"), "default", is_temporary=True)
    assert locks.hold("w") is True
    locks.release_all()


def test_a_worker_without_a_folder_for_its_lock_logs_the_consequence(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "user" / "name")
    assert ProcessLocks(folder, "default", is_temporary=True).hold("w") is False
    assert ProcessLocks(None, "default", is_temporary=True).hold("w") is False
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith(f"the folder {folder} can't be written, so other processes can't tell")
    assert second.startswith("there is no folder for temporary files, so other processes can't tell")


@pytest.mark.parametrize("kind", ["writable", "link", "stranger"])
def test_a_lock_folder_that_others_may_write_to_is_no_evidence_of_death(tmp_path, monkeypatch, caplog, kind):
    """Another user of this host can guess the folder's name and create it first."""
    own = tmp_path / "user"
    if kind == "link":
        (tmp_path / "theirs").mkdir()
        own.symlink_to(tmp_path / "theirs")
    else:
        own.mkdir()
        own.chmod(0o777 if kind == "writable" else 0o755)
    (own / "name").mkdir()
    (own / "name" / "default.w.lock").touch()
    if kind == "stranger":
        uid = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    locks = ProcessLocks(str(own / "name"), "default", is_temporary=True)
    assert locks.is_dead("w") is False
    assert locks.hold("other") is False
    assert caplog.records[0].getMessage().startswith(f"the folder {own} is not this user's alone, so other processes")


def test_a_lock_shows_whether_its_holder_lives(tmp_path):
    here, there = (ProcessLocks(str(tmp_path / "locks"), "default") for _ in range(2))
    assert here.hold("w") is True
    assert there.take_if_dead("w") is None
    here.release_all()
    descriptor = there.take_if_dead("w")
    assert descriptor is not None
    there.drop("w", descriptor)


def test_asking_for_the_lock_of_a_living_holder_leaves_no_file_open(tmp_path):
    here, there = (ProcessLocks(str(tmp_path / "locks"), "default") for _ in range(2))
    here.hold("w")
    before = len(os.listdir("/dev/fd"))
    assert [there.take_if_dead("w") for _ in range(10)] == [None] * 10
    assert len(os.listdir("/dev/fd")) == before
    here.release_all()


def test_workers_of_other_namespaces_have_locks_of_their_own(tmp_path):
    one, other = (ProcessLocks(str(tmp_path / "locks"), namespace) for namespace in ("one", "other"))
    assert (one.hold("w"), other.hold("w")) == (True, True)
    one.release_all()
    other.release_all()


def test_a_file_that_was_removed_before_its_lock_was_had_is_no_lock(tmp_path, monkeypatch):
    """As a process does that has found the former holder dead."""
    here, there = (ProcessLocks(str(tmp_path / "locks"), "default") for _ in range(2))
    lock, replaced = fcntl.flock, []

    def remove_first(descriptor: int, kind: int) -> None:
        if not replaced:
            [path] = (tmp_path / "locks").iterdir()
            path.unlink()
            path.touch()
            replaced.append(path)
        lock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    assert here.hold("w") is True
    assert replaced
    assert there.take_if_dead("w") is None
    here.release_all()


def test_a_database_in_memory_needs_no_lock(caplog):
    assert ProcessLocks(None, "default").hold("w") is False
    assert not caplog.records


def test_a_host_without_a_folder_for_temporary_files_can_use_a_server(monkeypatch):
    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert open_store("postgresql://127.0.0.1:9/x").url == "postgresql://127.0.0.1:9/x"


HOLDS_AND_FORKS = """
import os, sys
from holdfast.store.locks import ProcessLocks

locks = ProcessLocks(sys.argv[1], "default")
assert locks.hold("w")
heard, told = os.pipe()
if os.fork() == 0:
    os.write(told, b".")  # what a forked child does first is behind it
    os.read(0, 1)  # until the test lets go of it
    os._exit(0)
os.read(heard, 1)
print(ProcessLocks(sys.argv[1], "default").take_if_dead("w"), flush=True)
os._exit(0)
"""


def test_a_child_that_outlives_a_process_does_not_hold_its_lock(tmp_path):
    """A pool of processes that a step has started outlives its worker when that is killed."""
    folder = str(tmp_path / "a.db.holdfast")
    command = [sys.executable, "-c", HOLDS_AND_FORKS, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "None\n"
        process.wait()
        descriptor = ProcessLocks(folder, "default").take_if_dead("w")
        assert descriptor is not None
        os.close(descriptor)


WAITS_AND_FORKS = """
import os, sys
from holdfast.store.locks import WaitingRoom

room = WaitingRoom(sys.argv[1])
assert room.enter()
heard, told = os.pipe()
if os.fork() == 0:
    os.write(told, b".")  # what a forked child does first is behind it
    os.read(0, 1)  # until the test lets go of it
    os._exit(0)
os.read(heard, 1)
print(WaitingRoom(sys.argv[1]).has_others(), flush=True)
os._exit(0)
"""


def test_a_child_that_outlives_a_process_does_not_wait_in_its_place(tmp_path):
    folder = str(tmp_path / "a.db.holdfast")
    command = [sys.executable, "-c", WAITS_AND_FORKS, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        process.wait()
        room = WaitingRoom(folder)
        assert not room.has_others()
        room.close()
