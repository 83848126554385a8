"""Workers in child processes. Each prints `ready`, then what it measures, and leaves when its input ends."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from .databases import PATIENCE

ROOT = Path(__file__).parent.parent


class Child:
    """One child process."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin
        self._output = process.stdout

    async def line(self) -> str:
        """The next line that it prints."""
        async with asyncio.timeout(PATIENCE):
            line = await self._output.readline()
        if not line:
            raise RuntimeError(f"a child process ended with {await self._process.wait()} before it was told to")
        return line.decode().rstrip("\n")

    def tell(self) -> None:
        """Tell it to begin, if it waits for that."""
        self._input.write(b"\n")

    async def end(self) -> None:
        self._input.close()
        await self._process.wait()


def leave_in_order() -> None:
    """Let SIGTERM raise an exception in this process, so that servers are stopped and folders deleted."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


async def started(module: str, *arguments: str) -> Child:
    """Start a child, and wait until it is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, cwd=ROOT, stdin=PIPE, stdout=PIPE
    )
    child = Child(process)
    said = await child.line()
    if said != "ready":
        raise RuntimeError(f"{module} said {said!r}; expected ready")
    return child
