"""The command and its subcommands, put together. Only here are they given their names."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import Annotated

import typer
import typer.main

from .journals import journal, why
from .runs import cancel, retry, runs, show, start
from .schema import migrate
from .workers import worker, workers, workflows

app = typer.Typer(
    name="holdfast",
    help="Durable execution for Python. Exit codes: 0 done, 1 refused, 2 wrong usage.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for subcommand in (worker, workers, workflows, start, runs, show, why, journal, cancel, retry, migrate):
    app.command()(subcommand)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; what Holdfast refuses is raised."""
    try:
        # Not app(...): that would put an excepthook of its own into the process.
        typer.main.get_command(app)(list(arguments), prog_name="holdfast")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    return 0


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(importlib.metadata.version("holdfast"))


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        version()
        raise typer.Exit


@app.callback()
def command(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error comes from.")] = False,
) -> None:
    """Options for every command. Both have acted by now."""
