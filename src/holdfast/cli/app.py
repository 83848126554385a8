"""Puts the command together. Only here do the subcommands get their names."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
import typer.main

from .archives import export, import_command
from .bench import bench
from .changes import cancel, delete, fork, pause, prune, resume, retry
from .dev import dev
from .doctor import doctor
from .exits import DONE
from .journals import journal, why
from .keys import keys
from .linting import lint
from .messages import hook, publish, signal
from .options import Json, grouped
from .output import print_answer
from .projects import init
from .replaying import replay_command
from .runs import runs, show, start
from .schema import migrate
from .servers import serve
from .values import streams, values
from .workers import worker, workers, workflows

app = typer.Typer(
    name="holdfast",
    help="Durable execution for Python. Exit codes: 0 done, 1 refused or wrong, 2 wrong usage, 3 the database is away.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_PANELS: dict[str, Sequence[Callable[..., None]]] = {
    "Begin": (init, dev, doctor),
    "Processes": (worker, serve, workers, workflows),
    "Runs": (start, runs, show, why, journal, values, streams, cancel, retry, fork, pause, resume, delete, prune),
    "Messages": (signal, publish, hook),
    "Code": (lint, replay_command),
    "Database": (migrate, export, import_command, bench, keys),
}


def _paragraphs(command: Callable[..., None]) -> str:
    """A command's docstring with one line per paragraph: Rich would keep the docstring's own line breaks."""
    return "\n\n".join(" ".join(one.split()) for one in (inspect.getdoc(command) or "").split("\n\n"))


for _panel, _subcommands in _PANELS.items():
    for _subcommand in _subcommands:
        _add = app.command(_subcommand.__name__, help=_paragraphs(_subcommand), rich_help_panel=_panel)
        _add(grouped(_subcommand))
app.command("logs", hidden=True)(grouped(journal))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. What Holdfast refuses is raised."""
    try:
        # Not app(...), which would install its own excepthook.
        typer.main.get_command(app)(list(arguments), prog_name="holdfast")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    return DONE


@app.command(rich_help_panel="Database")
def version(*, as_json: Json = False) -> None:
    """Print the version."""
    found = importlib.metadata.version("holdfast")
    print_answer(found, {"version": found}, as_json=as_json)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        version()
        raise typer.Exit


@app.callback()
def command(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show the traceback of an error.")] = False,
) -> None:
    """Options for every command. Both have taken effect before this is called."""
