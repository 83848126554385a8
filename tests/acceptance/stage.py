"""Real processes on one database, and ways to start, watch and kill them. Conditions are polled, with a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from holdfast import Client
from holdfast.client import JournalEntry
from tests.acceptance import effects
from tests.acceptance.effects import Effect
from tests.processes import PATIENCE, ROOT, Process

T = TypeVar("T")
on_every_store = pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)


class Stage:
    """One folder, one database, its processes and a client to look with. Without a url the database is a file."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.data = effects.database(folder).parent
        self.data.mkdir()
        self.url = url or f"sqlite:///{effects.database(folder)}"
        # A file is found by its folder, and a process may give its children another one.
        self._server = url or ""
        self.client = Client(self.url)
        self.processes: list[Process] = []

    def worker(self, **options: object) -> Process:
        """A worker process. It is ready when `ready` says so."""
        return self.start("-m", "tests.acceptance.serve", json.dumps(options))

    def start(self, *arguments: str, name: str = "", cwd: Path = ROOT) -> Process:
        environ = {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            effects.FOLDER: str(self.folder),
            effects.URL: self._server,
            "PYTHONUNBUFFERED": "1",
        }
        name = name or f"process-{len(self.processes)}"
        process = Process(name, arguments, self.folder, cwd=cwd, environ=environ)
        self.processes.append(process)
        return process

    def ready(self, *workers: Process) -> None:
        """Wait until these have registered."""
        pids = {worker.pid for worker in workers}
        self.until(lambda: pids <= {record.pid for record in self.client.workers()}, "the workers have registered")

    def stop(self, process: Process) -> None:
        """SIGSTOP, and wait until it has stopped: outside of any write, for nobody else could write meanwhile."""
        with self.no_writes():
            process.send(signal.SIGSTOP)
            self.has_stopped(process)

    def has_stopped(self, process: Process) -> None:
        """Wait until SIGSTOP, whoever sent it, has stopped this one."""
        stopped = psutil.STATUS_STOPPED
        self.until(lambda: psutil.Process(process.pid).status() == stopped, f"{process.name} has stopped")

    @contextlib.contextmanager
    def no_writes(self) -> Iterator[None]:
        """Inside, no process is in the middle of a write to the file. A server needs nobody to end a write."""
        if self._server:
            yield
            return
        file = sqlite3.connect(effects.database(self.folder), isolation_level=None, timeout=PATIENCE)
        with contextlib.closing(file):
            file.execute("BEGIN IMMEDIATE")
            yield
            file.execute("ROLLBACK")

    def allow(self, name: str) -> None:
        """Let steps that wait for this file go on."""
        (self.folder / name).touch()

    def until(self, found: Callable[[], T], what: str, timeout: float = PATIENCE) -> T:
        """Poll until it is true, and return it."""
        deadline = time.monotonic() + timeout
        while True:
            value = found()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout:.0f} s: {what}\n{self.outputs()}")
            time.sleep(0.02)

    def effects(self, what: str | None = None, *, run_id: str | None = None, key: str | None = None) -> list[Effect]:
        """What steps did, in order."""
        return [
            effect
            for effect in effects.read(self.folder)
            if (what is None or effect.what == what)
            and (run_id is None or effect.run_id == run_id)
            and (key is None or effect.key == key)
        ]

    def wrongs(self) -> list[Effect]:
        """Steps that began before they were asked for durably, or after they had a result."""
        return [effect for effect in self.effects() if effect.what.startswith("begun")]

    def begun(self, run_id: str, key: str, times: int = 1) -> list[Effect]:
        """Wait until a step of a run has begun so many times."""
        found = lambda: self.effects("begin", run_id=run_id, key=key)  # noqa: E731
        self.until(lambda: len(found()) >= times, f"{key} of {run_id} has begun {times} times")
        return found()

    def journal(self, run_id: str, *kinds: str) -> list[JournalEntry]:
        return [entry for entry in self.client.journal(run_id) if not kinds or entry.kind in kinds]

    def keys(self, run_id: str, kind: str = "step_completed") -> list[str]:
        """The keys of the steps that have an entry of that kind, in order."""
        return [str(entry.key) for entry in self.journal(run_id, kind)]

    def outputs(self) -> str:
        return "\n".join(f"--- {process.name} ({process.pid}):\n{process.output[-3000:]}" for process in self.processes)

    def close(self) -> None:
        for process in self.processes:
            if process.is_alive:
                # A stopped process takes no SIGTERM, but SIGKILL reaches it.
                process.kill()
        self.client.close()
