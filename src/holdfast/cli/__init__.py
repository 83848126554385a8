"""The command `holdfast`. It parses, calls one front door and prints; what things mean is decided elsewhere.

app                        the command and its subcommands
workers, servers, dev      processes: worker ──▶ plan ──▶ fleet, restarts ──▶ child ──▶ serving; serve; dev ──▶ reloads
runs, changes, messages    what the client offers, by noun; journals, timelines, values and waiting for one run
archives, replaying        export, import; replay
schema, doctor ──▶ checks  migrate; what is wrong with a setup
linting ──▶ lint           a static check of workflow bodies
projects ──▶ scaffold      init
bench, keys                a small benchmark; API keys
options, output, exits     how options are written, how answers are ──▶ terminals, which exit code means what
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence

from holdfast.errors import HoldfastError
from holdfast.extras import load_extra

from .exits import INTERRUPTED, code_of
from .terminals import printable_lines

__all__ = ["main"]

_NEEDED_BY = "the command holdfast"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. `--traceback` may stand anywhere; HOLDFAST_TRACEBACK=1 is the same."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    wants_traceback = "--traceback" in given or os.environ.get("HOLDFAST_TRACEBACK", "0") not in ("", "0")
    if "--traceback" in given:
        given.remove("--traceback")
    _ready_streams()
    try:
        for package in ("typer", "rich"):
            load_extra(package, extra="cli", needed_by=_NEEDED_BY)
        code: int = load_extra("holdfast.cli.app", extra="cli", needed_by=_NEEDED_BY).run(given)
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except (HoldfastError, OSError) as error:
        # OSError: what the system refused where no command has better words for it.
        if wants_traceback:
            traceback.print_exc()
        print(f"holdfast: {printable_lines(_said(error))}", file=sys.stderr)
        return code_of(error)
    except Exception as error:
        if wants_traceback:
            raise
        told = f"{type(error).__name__}: {printable_lines(str(error))}"
        print(f"holdfast: this was not expected: {told}; --traceback shows where", file=sys.stderr)
        return code_of(error)


def _said(error: Exception) -> str:
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    if isinstance(error, FileNotFoundError) and error.filename is None:
        # What os.getcwd() says.
        return "the working directory is not there any more; change to one that is"
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def _ready_streams() -> None:
    """See that no command fails because of where it prints: a pipe that is closed, an encoding that lacks a letter."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for as long as the process lasts
        elif isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            # The latter is Python's choice in the C locale, and has no way for a letter that ASCII lacks, either.
            stream.reconfigure(errors="backslashreplace")
