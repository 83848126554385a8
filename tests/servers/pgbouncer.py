"""A real PgBouncer before a Postgres, in transaction mode unless told otherwise.

No package registry of Python carries it. `python -m tests.servers` fetches Debian's or Ubuntu's package into the
project's .venv, without root and without touching the system; `make test` does that by itself. Elsewhere it has to be
installed: a test that needs it fails and says how.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from .account import Account, ServerFailed, ServerMissing, free_port, tail, wait_until

GIVEN = "HOLDFAST_TEST_PGBOUNCER"
FETCHED = Path(__file__).parents[2] / ".venv" / "pgbouncer"
PoolMode = Literal["transaction", "session", "statement"]

CONFIGURATION = """\
[databases]
* = {target}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {pool_mode}
default_pool_size = {pool_size}
max_client_conn = 1000
"""


class PgBouncer:
    """A pooler before the server at `url`, started at once. `url_for` gives the address of a database through it."""

    def __init__(self, url: str, *, pool_mode: PoolMode = "transaction", pool_size: int = 20) -> None:
        program = find()
        self._account = Account()
        self._folder = self._account.folder("holdfast-pgb-")
        self.log = self._folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        # One that nobody closes must not outlive the process.
        atexit.register(self.close)
        self.port = free_port()
        configuration = self._folder / "pgbouncer.ini"
        configuration.write_text(
            CONFIGURATION.format(target=_target(url), port=self.port, pool_mode=pool_mode, pool_size=pool_size)
        )
        self._account.own(configuration)
        try:
            tree = FETCHED if program.is_relative_to(FETCHED) else program.parent
            self._program = self._account.within_reach(program, [tree], self._folder)
            self._tree = self._folder / "programs" if self._program != program else tree
            self.start()
        except BaseException:
            self.close()
            raise

    def url_for(self, database_url: str) -> str:
        """The address of a database of the server, through the pooler."""
        parts = urlsplit(database_url)
        return urlunsplit(parts._replace(netloc=f"{parts.username or 'holdfast'}@127.0.0.1:{self.port}", query=""))

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the pooler that was killed, on the same port."""
        if self.is_running:
            return
        command = [self._program, self._folder / "pgbouncer.ini"]
        self._process = self._account.start(command, self._folder, self.log, _libraries(self._tree))
        wait_until(lambda: self._takes_connections() or not self.is_running, "PgBouncer to listen", self.log)
        if not self.is_running:
            raise ServerFailed(f"PgBouncer did not start. The log ends:\n{tail(self.log)}")

    def kill(self) -> None:
        """kill -9: every connection through it is cut."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _takes_connections(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def find() -> Path:
    """The program: named by HOLDFAST_TEST_PGBOUNCER, fetched, or the system's."""
    given = os.environ.get(GIVEN)
    if given:
        return Path(given)
    fetched = FETCHED / "usr" / "sbin" / "pgbouncer"
    if fetched.exists():
        return fetched
    # Debian and Fedora install it where a plain user's PATH does not reach.
    program = shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    if program:
        return Path(program)
    raise ServerMissing(
        "PgBouncer is not installed. On Debian and Ubuntu, fetch it into .venv: python -m tests.servers "
        "(make test does). Elsewhere install it: dnf, apk or brew install pgbouncer. "
        f"Or name the program: {GIVEN}=/path/to/pgbouncer"
    )


def fetch() -> Path:
    """Unpack the system's own package, and the libraries it needs that are not there, into .venv. No root is needed.

    apt gets folders of its own for its lists and its cache, so that neither the system's state nor its locks matter.
    """
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return find()
    with tempfile.TemporaryDirectory(prefix="holdfast-apt-") as name:
        folder = Path(name)
        unpacked = folder / "unpacked"
        _apt(folder, "apt-get", "update")
        _apt(folder, "apt-get", "download", "pgbouncer", *_missing_libraries(folder))
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, unpacked], check=True)
        shutil.rmtree(FETCHED, ignore_errors=True)
        FETCHED.parent.mkdir(exist_ok=True)
        shutil.move(unpacked, FETCHED)
    return find()


def _missing_libraries(folder: Path) -> list[str]:
    """The libraries that the package asks for and the system does not have."""
    asked = _apt(folder, "apt-cache", "depends", "pgbouncer").splitlines()
    names = [line.partition("Depends: ")[2].strip() for line in asked]
    return [name for name in names if name.startswith("lib") and not _is_installed(name)]


def _is_installed(package: str) -> bool:
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f=${db:Status-Status}", package], capture_output=True, text=True, check=False
    )
    return asked.stdout.startswith("installed")


def _apt(folder: Path, *command: str) -> str:
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::State": folder / "state",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
    }
    given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    ran = subprocess.run(
        [command[0], "-q", *given, *command[1:]], cwd=folder, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise ServerMissing(
            f"Can't fetch PgBouncer: {' '.join(command)} failed with {ran.returncode}:\n{ran.stderr.strip()}\n"
            f"Install it (apt-get install pgbouncer), or name the program: {GIVEN}=/path/to/pgbouncer"
        )
    return ran.stdout


def _target(url: str) -> str:
    """The server as PgBouncer wants to have it. Everybody who comes in goes out as the user of the address."""
    parts = urlsplit(url)
    asked = dict(parse_qsl(parts.query))
    target = {
        "host": parts.hostname or asked.get("host", "127.0.0.1"),
        "port": str(parts.port or asked.get("port", 5432)),
        "user": unquote(parts.username or "holdfast"),
        "password": unquote(parts.password or ""),
    }
    return " ".join(f"{name}='{value.replace(chr(39), chr(39) * 2)}'" for name, value in target.items() if value)


def _libraries(tree: Path) -> dict[str, str]:
    """Where the loader finds the libraries that were unpacked beside the program."""
    folders = [str(folder) for folder in sorted(tree.glob("usr/lib/*")) if any(folder.glob("*.so*"))]
    return {"LD_LIBRARY_PATH": os.pathsep.join(folders)} if folders else {}
