"""dev: a worker and the REST API in one process, restarted when code changes.

The parent only watches. A fresh interpreter loads the code each time, so nothing of the old code is left. A change
stops the process in good order, so runs go on where they were, in the new code. A step that does not end within the
grace period executes again, as after a crash. The settings are resolved anew each time, too; while there is a mistake
in them, nothing is started.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from holdfast.errors import HoldfastError
from holdfast.extras import load_extra
from holdfast.settings import Settings, settings_folder
from holdfast.worker import Interrupts

from .fleet import Child
from .options import Place, Targets
from .output import print_line, print_note
from .plan import ServingPlan, plan_of, set_up_logging
from .reloads import changed, snapshot
from .servers import Listen, address_of, until_free
from .serving import Ready
from .workers import LogLevel

_log = logging.getLogger("holdfast.dev")
_CHILD = "holdfast.cli.developing"
_LOOK = 0.3
_GRACE = 2_000_000
_LEAVING = 5.0
"""Seconds that an earlier process may need to leave: its grace period and some more."""
_FILE = "holdfast.db"


def dev(
    targets: Targets = None,
    *,
    listen: Listen = None,
    reload: Annotated[bool, typer.Option("--reload/--no-reload", help="Restart when code changes.")] = True,
    place: Place,
    log_level: Annotated[LogLevel, typer.Option("--log-level", help="How much to log, to stderr.")] = LogLevel.INFO,
) -> None:
    """Work on a project: a worker and the REST API in one process, on SQLite, started again when code changes.

    I/O in a workflow's body is refused, as in tests. A database that is no SQLite file is used only if --url names it.
    Ctrl-C ends it, and runs go on with the next `holdfast dev`.
    """
    if os.name != "posix":
        raise HoldfastError(
            "dev starts processes as only POSIX systems can; run `holdfast worker` and `holdfast serve`"
        )

    def resolved(*, is_told: bool) -> ServingPlan:
        settings = _local(place, place.settings(listen=listen), is_told=is_told)
        return plan_of(settings, targets or (), log_level)

    plan = resolved(is_told=False)
    set_up_logging(log_level)
    # Before anything starts: no change of code mends a missing package or a port that is taken.
    for package in ("fastapi", "uvicorn"):
        load_extra(package, extra="web", needed_by="holdfast dev")
    # If an earlier parent was killed, its child listens until its steps have ended or their grace is over.
    until_free(*plan.listen, _LEAVING)
    raise typer.Exit(asyncio.run(Development(plan, partial(resolved, is_told=True), reloads=reload).run()))


def _local(place: Place, settings: Settings, *, is_told: bool) -> Settings:
    """The settings with a local database, unless the command line names one: the settings may name production's.

    That is said unless it was told before.
    """
    grace = _GRACE if settings.grace is None else settings.grace
    if place.url is None and not settings.url.startswith("sqlite:"):
        path = (settings_folder() or Path.cwd()) / _FILE
        if not is_told:
            print_note(f"dev uses {path}, not the database of the settings; name that with --url if you mean it")
        return replace(settings, url=f"sqlite:///{quote(str(path))}", schema=None, grace=grace)
    return replace(settings, grace=grace)


class Development:
    """Runs one process at a time, until a signal says to stop."""

    def __init__(self, plan: ServingPlan, resolved: Callable[[], ServingPlan], *, reloads: bool) -> None:
        """`resolved` makes the plan anew, by the settings as they are then."""
        self._plan = plan
        self._resolved = resolved
        self._reloads = reloads
        self._roots = _roots(plan)
        self._stopping = asyncio.Event()
        self._child: Child | None = None
        self._told = ""
        """Where the REST API was last said to be."""

    async def run(self) -> int:
        """Serve until SIGTERM or SIGINT; a second one kills the process. Returns the exit code."""
        loop = asyncio.get_running_loop()
        signalled = Interrupts(self._stopping.set, self._kill, _log)
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, signalled)
        before = snapshot(self._roots)
        while not self._stopping.is_set():
            code = await self._serve_once(before)
            if code is not None and not self._reloads:
                return code
            before = await self._renewed()
        return 0

    async def _renewed(self) -> dict[str, tuple[int, int]]:
        """Make the plan anew, once there is no mistake in the settings; returns what files there are."""
        while True:
            # Before the settings are read: whatever is written after that is a change.
            before = snapshot(self._roots)
            try:
                self._plan = self._resolved()
            except (HoldfastError, OSError) as error:
                print_note(f"holdfast: {error}")
            else:
                self._roots = _roots(self._plan)
                return {path: before.get(path, stamp) for path, stamp in snapshot(self._roots).items()}
            if not self._stopping.is_set():
                print_line("waiting for a change")
            await self._changed_or_stopped(before)
            if self._stopping.is_set():
                return before

    async def _changed_or_stopped(self, before: dict[str, tuple[int, int]]) -> None:
        watching = asyncio.ensure_future(self._change(before))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([watching, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            stopping.cancel()

    async def _serve_once(self, before: dict[str, tuple[int, int]]) -> int | None:
        """Serve until code changes. Returns the exit code if the process ended by itself and nothing is watched."""
        child = self._child = await Child.start(self._plan, module=_CHILD)
        ending = asyncio.ensure_future(child.ended(lambda: self._heard(child)))
        watching = asyncio.ensure_future(self._change(before))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([ending, watching, stopping], return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                self._print_end(child, ending.result()[0])
                if not self._reloads:
                    return ending.result()[0] or 0
                await asyncio.wait([watching, stopping], return_when=asyncio.FIRST_COMPLETED)
            child.stop()
            await ending
            return None
        finally:
            self._child = None
            watching.cancel()
            stopping.cancel()

    async def _change(self, before: dict[str, tuple[int, int]]) -> None:
        """Wait for a change, and then until no more follow: an editor may write several files."""
        now = before
        while True:
            await asyncio.sleep(_LOOK)
            if not self._reloads:
                continue
            last, now = now, await asyncio.to_thread(snapshot, self._roots)
            files = changed(before, now)
            if files and last == now:
                print_line(f"{self._names_of(files)} changed: starting again")
                return

    def _names_of(self, files: list[str]) -> str:
        names = [path.removeprefix(self._plan.directory).lstrip(os.sep) for path in files]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    def _heard(self, child: Child) -> None:
        if child.ready is not None:
            self._print_ready(child.ready)

    def _print_ready(self, ready: Ready) -> None:
        where = address_of(*self._plan.listen)
        print_line(f"ready for {', '.join(ready.workflows)} on {ready.url}")
        if self._told != where:
            self._told = where
            print_line(f"REST on {where}/v1, its documentation on {where}/docs")

    def _print_end(self, child: Child, code: int) -> None:
        if child.refused is not None:
            print_note(f"holdfast: {child.refused.text}")
        elif code:
            print_note(f"holdfast: the process ended with exit code {code}; see the lines above")
        if self._reloads and not self._stopping.is_set():
            print_line("waiting for a change")

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()


def _roots(plan: ServingPlan) -> list[Path]:
    """The folders to watch: the working directory and those of the settings and targets. None is inside another."""
    named = [Path(plan.directory) / target for target in plan.targets]
    found = [Path(plan.directory), *([] if plan.home is None else [Path(plan.home)])]
    found += [path.parent if path.is_file() else path for path in named if path.exists()]
    real = sorted({path.resolve() for path in found})
    return [one for one in real if not any(other != one and one.is_relative_to(other) for other in real)]
