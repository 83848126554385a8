"""The oracle: what steps did, told by themselves in files outside the store.

One file a process, opened for appending; a line is written whole and synced before the step goes on, so that it stays
whatever happens to the process. When a step begins it also looks into the journal, through a connection of its own: it
must have been asked for by a turn that is durable, and its result must not be there yet, or be younger than the step's
first line: the process may be stopped between that and the look. While a server is away nobody can look, and nothing is
said about that.
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from holdfast import current_step
from holdfast.model import Entry, StepAsked, StepCompleted, StepFailed, decode_entries
from holdfast.worker.lease import Lease

FOLDER = "HOLDFAST_TEST_FOLDER"
URL = "HOLDFAST_TEST_URL"
_local = threading.local()


@dataclass(frozen=True)
class Effect:
    """One line: a step did "begin", "end" or "fail", or it was "begun early" or "begun twice"."""

    what: str
    run_id: str
    key: str
    attempt: int
    pid: int
    at: float
    looked: float
    """When its worker had last looked at its lease on that thread: whatever began without a look did so never."""


def folder() -> Path:
    """Where this test's files are."""
    return Path(os.environ[FOLDER])


def database(where: Path) -> Path:
    """The database has a folder of its own, so that it can be taken away."""
    return where / "data" / "holdfast.db"


def url() -> str:
    """The address of this test's database: a file in its folder, unless it has another."""
    return os.environ.get(URL) or f"sqlite:///{database(folder())}"


def begin(*, is_first: bool = False) -> None:
    """The first line of a step. What a first turn asks for follows from the start and need not be in the journal."""
    began = time.time()
    entries = journal()
    key = current_step().key
    if entries is None:
        pass
    elif any(_is_result(entry, key) and entry.at < began * 1_000_000 for entry in entries):
        write("begun twice", began)
    elif not is_first and not any(isinstance(entry, StepAsked) and entry.key == key for entry in entries):
        write("begun early", began)
    write("begin", began)


def note_looks() -> None:
    """From here on, in this process, it is noted when a lease is looked at."""
    holds = Lease.holds

    def noting(lease: Lease) -> bool:
        # Taken before: if the process is stopped behind this line, the answer is not older than that.
        _local.looked = time.time()
        return holds(lease)

    Lease.holds = noting  # type: ignore[method-assign]


def _is_result(entry: Entry, key: str) -> bool:
    return isinstance(entry, (StepCompleted, StepFailed)) and entry.key == key


def end() -> None:
    """Its last one."""
    write("end")


def fail() -> None:
    write("fail")


def write(what: str, at: float | None = None) -> None:
    """Say it, of now unless it says of when."""
    info = current_step()
    moment = repr(time.time() if at is None else at)
    looked = repr(getattr(_local, "looked", math.inf))
    line = "\t".join([what, info.run_id, info.key, str(info.attempt), str(os.getpid()), moment, looked])
    descriptor = os.open(folder() / f"effects-{os.getpid()}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, (line + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(where: Path) -> list[Effect]:
    """Every line of every process, by time."""
    return sorted(_lines(where), key=lambda effect: effect.at)


def _lines(where: Path) -> Iterator[Effect]:
    for path in where.glob("effects-*.log"):
        for line in path.read_text().splitlines():
            what, run_id, key, attempt, pid, at, looked = line.split("\t")
            yield Effect(what, run_id, key, int(attempt), int(pid), float(at), float(looked))


def journal() -> list[Entry] | None:
    """What is durable of the run that asks; None: nobody can tell now."""
    look = _look_into_server if url().startswith("postgresql") else _look_into_file
    rows = look(current_step().run_id)
    return None if rows is None else [entry for data in rows for entry in decode_entries(data)]


def _look_into_file(run_id: str) -> list[bytes]:
    # Kept open: closing and opening for each step would cost more than the step.
    if not hasattr(_local, "connection"):
        _local.connection = sqlite3.connect(database(folder()), timeout=30)
    query = "SELECT journal.data FROM runs JOIN journal ON journal.run = runs.number WHERE runs.id = ? ORDER BY seq"
    return [data for (data,) in _local.connection.execute(query, (run_id,))]


def _look_into_server(run_id: str) -> list[bytes] | None:
    query = """
        SELECT journal.data FROM holdfast.runs JOIN holdfast.journal ON journal.run = runs.number
        WHERE runs.id = %s ORDER BY seq
    """
    try:
        if not hasattr(_local, "connection"):
            # What follows a question mark is for Holdfast; and through a pooler no statement is prepared.
            address = url().partition("?")[0]
            _local.connection = psycopg.connect(address, autocommit=True, connect_timeout=5, prepare_threshold=None)
        return [bytes(data) for (data,) in _local.connection.execute(query, (run_id,))]
    except psycopg.OperationalError:
        with suppress(AttributeError, psycopg.Error):
            _local.connection.close()
        with suppress(AttributeError):
            del _local.connection
        return None
