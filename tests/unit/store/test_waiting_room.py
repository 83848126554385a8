"""Processes that wait for SQLite's write lock are seen by the one that has just held it, and get it soon."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.store.locks import WaitingRoom
from holdfast.store.sqlite.connections import Turnstile

pytest.importorskip("fcntl", reason="leases end by lapsing, and nobody gives way, where there is no flock")


def test_a_waiter_is_seen_until_it_leaves(tmp_path: Path):
    waiting, passing = WaitingRoom(str(tmp_path / "h")), WaitingRoom(str(tmp_path / "h"))
    assert not passing.has_others()
    assert waiting.enter()
    assert passing.has_others()
    waiting.leave()
    assert not passing.has_others()


def test_any_number_of_waiters_may_wait(tmp_path: Path):
    first, second, passing = (WaitingRoom(str(tmp_path / "h")) for _ in range(3))
    assert first.enter()
    assert second.enter()
    first.leave()
    assert passing.has_others()
    second.close()
    assert not passing.has_others()


def test_a_process_that_died_while_it_waited_is_seen_no_more(tmp_path: Path):
    passing = WaitingRoom(str(tmp_path / "h"))
    assert not passing.has_others()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if WaitingRoom(str(tmp_path / "h")).enter() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not passing.has_others()


def test_a_forked_child_of_a_waiter_does_not_leave_in_its_place(tmp_path: Path):
    waiting, passing = WaitingRoom(str(tmp_path / "h")), WaitingRoom(str(tmp_path / "h"))
    assert waiting.enter()
    pid = os.fork()
    if pid == 0:
        # The child waits by itself, and leaves by itself.
        is_right = waiting.enter()
        waiting.leave()
        waiting.close()
        os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert passing.has_others()


def test_a_waiting_room_works_without_a_folder_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "h").write_text("a file")
    room = WaitingRoom(str(tmp_path / "h"))
    assert not room.enter()
    assert not room.has_others()
    room.leave()


def test_a_process_that_takes_the_lock_again_and_again_lets_others_have_it(tmp_path: Path):
    path = str(tmp_path / "some.db")
    sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close()
    has_had_it = threading.Event()
    most = 5_000

    def take(turnstile: Turnstile, connection: sqlite3.Connection) -> None:
        turnstile.begin(lambda: connection.execute("BEGIN IMMEDIATE"), path)
        connection.execute("COMMIT")
        turnstile.done()

    def want_it_once() -> None:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as mine:
            take(Turnstile(str(tmp_path / "h")), mine)
        has_had_it.set()

    busy, connection = Turnstile(str(tmp_path / "h")), sqlite3.connect(path, isolation_level=None, timeout=0)
    busy.begin(lambda: connection.execute("BEGIN IMMEDIATE"), path)
    other = threading.Thread(target=want_it_once)
    other.start()
    passing = WaitingRoom(str(tmp_path / "h"))
    while not passing.has_others():
        pass
    connection.execute("COMMIT")
    busy.done()
    taken = 0
    while not has_had_it.is_set() and taken < most:
        take(busy, connection)
        taken += 1
    other.join()
    connection.close()
    assert taken < most / 10
