"""Who a server runs as, and where. Database servers refuse root, so root lends them to an account without rights.

A server has a folder of its own, which belongs to its account, and a port that no outgoing connection takes by chance.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PATIENCE = 60.0
LENT_TO = ("postgres", "nobody")
# Below the range from which systems take the ports of outgoing connections: while a server is down for a restart,
# nobody is given its port.
PORTS = range(12000, 32000)


class ServerMissing(Exception):
    """A server that a test needs is not on this machine."""


class ServerFailed(Exception):
    """A server did not do what it was told. The message ends with its log."""


class Account:
    """The user that servers run as: this one, or for root one that owns nothing."""

    def __init__(self) -> None:
        self._user: pwd.struct_passwd | None = None
        if os.geteuid() == 0:
            self._user = _first_user(LENT_TO)

    def folder(self, prefix: str) -> Path:
        """A fresh folder under the system's temporary one. Its path is short: that of a socket fits in 100 bytes."""
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        self.own(folder)
        return folder

    def own(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def run(self, command: Sequence[str | Path], cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a command to its end and return what it said, whether it succeeded or not."""
        return subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            user=self._user and self._user.pw_uid,
            group=self._user and self._user.pw_gid,
            extra_groups=self._user and [],
        )

    def start(
        self, command: Sequence[str | Path], cwd: Path, log: Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a server that writes to `log`. A Ctrl-C at the terminal is for the tests, not for it."""
        with log.open("ab") as output:
            return subprocess.Popen(
                [str(part) for part in command],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                user=self._user and self._user.pw_uid,
                group=self._user and self._user.pw_gid,
                extra_groups=self._user and [],
            )

    def within_reach(self, program: Path, trees: Sequence[Path], folder: Path) -> Path:
        """`program`, or its copy in `folder` if it lies where this account may not go, such as in root's home.

        `trees` are what is copied, as they lie to each other: the program with all that it needs beside it.
        """
        try:
            self.run([program, "--version"], folder)
        except PermissionError:
            copy = folder / "programs"
            root = os.path.commonpath(trees)
            for tree in trees:
                shutil.copytree(tree, copy / tree.relative_to(root), symlinks=True)
            return copy / program.relative_to(root)
        return program


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    for port in random.SystemRandom().sample(PORTS, 50):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerFailed(
        f"Found no free port between {PORTS.start} and {PORTS.stop}. Is something listening on all of them?"
    )


def wait_until(condition: Callable[[], bool], what: str, log: Path) -> None:
    """Poll for a condition. What takes longer than a minute is an error with the end of the server's log."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise ServerFailed(f"Waited {PATIENCE:.0f} s for {what}, in vain. The log ends:\n{tail(log)}")
        time.sleep(0.01)


def tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log.exists() else "(no log)"


def _first_user(names: Sequence[str]) -> pwd.struct_passwd:
    for name in names:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServerMissing(
        f"Database servers refuse to run as root, and none of the accounts {', '.join(names)} is there to run them. "
        "Run the tests as another user, or add one: useradd --system postgres"
    )
