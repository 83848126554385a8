"""The command `holdfast`. A subcommand parses, calls one front door and prints; it decides nothing else.

app                        the command and its subcommands
workers, servers, dev      processes: worker ──▶ plan ──▶ fleet, restarts ──▶ child ──▶ serving; serve; dev ──▶ reloads
runs, changes, messages    what the client offers, by noun; journals, timelines, values and waiting for one run
archives, replaying        export, import; replay
schema, doctor ──▶ checks  migrate; what is wrong with a setup
linting ──▶ lint           a static check of workflow bodies
projects ──▶ scaffold      init
bench, keys                a small benchmark; API keys
options, output, exits     shared options; how answers are printed ──▶ terminals; exit codes
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
    """Run one command and return its exit code. `--traceback` may stand anywhere in it; see also HOLDFAST_TRACEBACK."""
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
        # OSError: the system refused something that no command explains better.
        if wants_traceback:
            traceback.print_exc()
        print(f"holdfast: {printable_lines(_message_of(error))}", file=sys.stderr)
        return code_of(error)
    except Exception as error:
        if wants_traceback:
            raise
        told = printable_lines(f"{type(error).__name__}: {error}{_notes_of(error)}")
        print(f"holdfast: this was not expected: {told}; --traceback shows where", file=sys.stderr)
        return code_of(error)


def _message_of(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if error.strerror is None:
        return str(error) + _notes_of(error)
    if isinstance(error, FileNotFoundError) and error.filename is None:
        # Raised by os.getcwd().
        return "the working directory is not there any more; change to one that is"
    said = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return said + _notes_of(error)


def _notes_of(error: Exception) -> str:
    """The notes on an error that is not Holdfast's own: they say whose it is, such as a resource's."""
    return "".join(f"; {note}" for note in getattr(error, "__notes__", ()))


def _ready_streams() -> None:
    """Keep output from failing: because a stream is closed, or its encoding lacks a character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for as long as the process lasts
        elif isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            # "surrogateescape" is Python's choice in the C locale, and can't write what ASCII lacks, either.
            stream.reconfigure(errors="backslashreplace")
