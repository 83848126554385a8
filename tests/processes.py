"""Python processes that tests start, watch and kill. What they print goes to a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0
"""Seconds. How long something that must happen is waited for."""


class Process:
    """One process, from its start to its end; `environ` is added to this process's own."""

    def __init__(
        self, name: str, arguments: Sequence[str], folder: Path, *, cwd: Path, environ: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.out"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=cwd,
                env={**os.environ, **environ},
            )
        self.pid = self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for its end; its exit code."""
        return self._process.wait(timeout)
