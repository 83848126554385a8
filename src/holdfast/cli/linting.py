"""lint: a static check of workflow bodies."""

from __future__ import annotations

from pathlib import Path

import typer

from holdfast.model import counted
from holdfast.settings import settings_folder

from .exits import WRONG
from .lint import CODES, Finding, Project, check, files_of
from .options import Json, Targets, settings_of
from .output import print_json, print_line, print_note, print_table, with_progress


def lint(
    targets: Targets = None,
    *,
    codes: bool = typer.Option(False, "--codes", help="List the codes and stop."),
    as_json: Json = False,
) -> None:
    """Look for what would break a replay in workflow bodies: clocks, randomness, I/O, unordered sets, forgotten awaits.

    No module is imported. The comment `# holdfast: allow[code]` exempts its line. The exit code is 1 if anything was
    found.
    """
    if codes:
        _list_codes(as_json)
        return
    settings = settings_of()
    home = settings_folder()
    files = files_of(
        tuple(targets or ()) or settings.workflows or (), ignore=settings.ignore, directory=Path.cwd(), home=home
    )
    project = Project([Path.cwd(), *([] if home is None else [home])])
    found = [one for path in with_progress(files, "checking") for one in check(project, path)]
    if as_json:
        print_json({"files": len(files), "findings": [_as_json(one) for one in found]})
    else:
        for one in found:
            print_line(str(one))
        print_note(f"{counted(len(found), 'finding')} in {counted(len(files), 'file')}")
    if found:
        raise typer.Exit(WRONG)


def _as_json(finding: Finding) -> dict[str, object]:
    return {
        "path": finding.path,
        "line": finding.line,
        "column": finding.column,
        "code": finding.code,
        "message": finding.message,
    }


def _list_codes(as_json: bool) -> None:
    if as_json:
        print_json(CODES)
    else:
        print_table(["CODE", "WHAT IS FOUND"], CODES.items())
