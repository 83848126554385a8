"""Processes of the command, the children that they start, and ways to watch and to kill them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from holdfast import Client
from tests.processes import PATIENCE, ROOT, Process

PROJECT = Path(__file__).parent / "project"
T = TypeVar("T")

on_every_store = pytest.mark.parametrize("stage", ["sqlite", "postgres"], indirect=True)


@dataclass(frozen=True)
class Note:
    """What a step of the project did."""

    what: str
    run_id: str
    key: str
    pid: int
    at: float


class Stage:
    """One folder, one database, the processes on it, and a client to look with."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.client = Client(url)
        self._processes: list[Process] = []
        self._seen: set[int] = set()

    def worker(self, *options: str, cwd: Path = PROJECT) -> Process:
        """`holdfast worker` in a project."""
        return self.start("worker", "--url", self.url, *options, cwd=cwd)

    def command(self, *arguments: str, cwd: Path | None = None) -> Process:
        """Another subcommand, on this database."""
        return self.start(*arguments, "--url", self.url, cwd=cwd or self.folder)

    def start(self, *arguments: str, cwd: Path, flags: Sequence[str] = ()) -> Process:
        """`holdfast` with these arguments; it ends with the test at the latest."""
        process = Process(
            f"command-{len(self._processes)}",
            [*flags, "-m", "holdfast", *arguments],
            self.folder,
            cwd=cwd,
            environ={"PYTHONPATH": str(ROOT / "src"), "ERRANDS_FOLDER": str(self.folder)},
        )
        self._processes.append(process)
        return process

    def ready(self, process: Process) -> list[int]:
        """Wait for the ready line; the processes that work."""
        self.until(lambda: "ready for" in process.output or not process.is_alive, "it is ready")
        assert process.is_alive, process.output
        pids = self.children(process)
        self._seen.update(pids)
        return pids

    def children(self, process: Process) -> list[int]:
        return [child.pid for child in psutil.Process(process.pid).children()]

    def working(self) -> set[int]:
        """The processes of the workers that are registered."""
        return {record.pid for record in self.client.workers()}

    def begun(self, run_id: str, key: str, times: int = 1) -> list[Note]:
        """Wait until a step of a run has begun so many times."""
        self.until(lambda: len(self.notes("begin", run_id, key)) >= times, f"{key} has begun {times} times")
        return self.notes("begin", run_id, key)

    def notes(self, what: str, run_id: str, key: str) -> list[Note]:
        """What the steps of that key did, by time."""
        lines = [line for path in self.folder.glob("notes-*.log") for line in path.read_text().splitlines()]
        found = [Note(*words[:3], int(words[3]), float(words[4])) for words in (line.split("\t") for line in lines)]
        found = [note for note in found if (note.what, note.run_id, note.key) == (what, run_id, key)]
        return sorted(found, key=lambda note: note.at)

    def takeovers(self, run_id: str) -> int:
        return sum(entry.kind == "claimed" for entry in self.client.journal(run_id))

    def allow(self) -> None:
        """Let the gated steps go on."""
        (self.folder / "gate").touch()

    def gone(self, pids: list[int]) -> None:
        """Wait until these processes have ended."""
        self.until(lambda: not any(map(_is_alive, pids)), f"{pids} have ended")

    def until(self, found: Callable[[], T], what: str) -> T:
        """Poll until it is true, and return it."""
        deadline = time.monotonic() + PATIENCE
        while not (value := found()):
            assert time.monotonic() < deadline, f"not within {PATIENCE:.0f} s: {what}\n{self.outputs()}"
            time.sleep(0.02)
        return value

    def outputs(self) -> str:
        return "\n".join(
            f"--- {process.name} ({process.pid}):\n{process.output[-3000:]}" for process in self._processes
        )

    def close(self) -> None:
        for process in self._processes:
            if process.is_alive:
                self._seen.update(self.children(process))
                process.kill()
        for pid in filter(_is_alive, self._seen):
            # Whatever a failed test left behind. A pid that another program has by now is not ours to end.
            with contextlib.suppress(psutil.NoSuchProcess):
                child = psutil.Process(pid)
                if {"holdfast.cli.child", "holdfast.cli.developing"} & set(child.cmdline()):
                    child.kill()
        self.client.close()


def _is_alive(pid: int) -> bool:
    # A container without an init leaves the dead whose parent has died as zombies.
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
