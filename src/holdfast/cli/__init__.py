"""The command `holdfast`. It parses, calls one front door and prints; what things mean is decided elsewhere.

    app                   the command and its subcommands
    workers               worker: one process, or a fleet of them ──▶ fleet, restarts ──▶ child ──▶ serving
    runs, journals        what the client offers, by noun
    schema                migrate
    options, output       how options are written, how answers are

Exit codes: 0 done, 1 Holdfast refused (its error is on stderr), 2 wrong usage.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from holdfast.errors import HoldfastError
from holdfast.extras import load_extra

__all__ = ["main"]

_NEEDED_BY = "the command holdfast"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. `--traceback` may stand anywhere."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    wants_traceback = "--traceback" in given
    if wants_traceback:
        given.remove("--traceback")
    try:
        for package in ("typer", "rich"):
            load_extra(package, extra="cli", needed_by=_NEEDED_BY)
        code: int = load_extra("holdfast.cli.app", extra="cli", needed_by=_NEEDED_BY).run(given)
        return code
    except HoldfastError as error:
        if wants_traceback:
            traceback.print_exc()
        print(f"holdfast: {error}", file=sys.stderr)
        return 1
