"""The oracle: what steps did, told by themselves in files outside the store.

One file a process, opened for appending; a line is written whole and synced before the step goes on, so that it stays
whatever happens to the process. When a step begins it also looks, through a connection of its own, whether its
result stands in the journal already: that must never be.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast import current_step
from holdfast.model import StepCompleted, StepFailed, decode_entries

FOLDER = "HOLDFAST_TEST_FOLDER"
_local = threading.local()


@dataclass(frozen=True)
class Effect:
    """One line: a step began, ended, failed, or should not have begun."""

    what: str
    run_id: str
    key: str
    attempt: int
    pid: int
    at: float


def folder() -> Path:
    """Where this test's files are."""
    return Path(os.environ[FOLDER])


def database(where: Path) -> Path:
    """The database has a folder of its own, so that it can be taken away."""
    return where / "data" / "holdfast.db"


def url() -> str:
    """The address of this test's database."""
    return f"sqlite:///{database(folder())}"


def begin() -> None:
    """The first line of a step."""
    write("begun twice" if is_recorded() else "begin")


def end() -> None:
    """Its last one."""
    write("end")


def fail() -> None:
    write("fail")


def write(what: str) -> None:
    info = current_step()
    line = "\t".join([what, info.run_id, info.key, str(info.attempt), str(os.getpid()), repr(time.time())])
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
            what, run_id, key, attempt, pid, at = line.split("\t")
            yield Effect(what, run_id, key, int(attempt), int(pid), float(at))


def is_recorded() -> bool:
    """Whether the step that asks has a result in the journal."""
    info = current_step()
    # Kept open: closing and opening for each step would cost more than the step.
    if not hasattr(_local, "connection"):
        _local.connection = sqlite3.connect(database(folder()), timeout=30)
    rows = _local.connection.execute(
        "SELECT journal.data FROM runs JOIN journal ON journal.run = runs.number WHERE runs.id = ?", (info.run_id,)
    ).fetchall()
    entries = [entry for (data,) in rows for entry in decode_entries(data)]
    return any(isinstance(entry, (StepCompleted, StepFailed)) and entry.key == info.key for entry in entries)
