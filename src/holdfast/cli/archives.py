"""export, import: runs with their journals as lines of JSON, from one database into another."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from holdfast.client import Imported
from holdfast.errors import DefinitionError, NotDecodable, RunNotFound
from holdfast.model import counted

from .exits import WRONG
from .options import NOT_BOTH, Chosen, Json, Place, RunIds
from .output import (
    check_readable,
    in_utf8,
    lines_of,
    print_json,
    print_line,
    print_note,
    reading,
    spinner,
    stdin_for,
    with_progress,
    writing,
)


def export(
    run_ids: RunIds = None,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; stdout by default.", metavar="FILE")
    ] = None,
    chosen: Chosen,
    place: Place,
) -> None:
    """Write runs with their journals, one line of JSON each; by default all.

    A line holds the run in readable form, and under `data` all that `import` and `replay --file` need. Payloads stay as
    they are stored: if the codec encrypts, only holders of its keys can read them, and the readable form has none.
    """
    if run_ids and chosen.is_given:
        raise typer.BadParameter(NOT_BOTH)
    with place.client() as client:
        with spinner("listing runs"):
            ids = list(run_ids or ()) or [run.id for run in client.runs(chosen.filter())]
        count = 0
        with writing(output):
            # "x": an earlier export is never overwritten.
            target = in_utf8(sys.stdout) if output is None else output.open("x", encoding="utf-8")
            try:
                for run_id in with_progress(ids, "exporting"):
                    try:
                        target.write(client.export(run_id) + "\n")
                        count += 1
                    except RunNotFound:
                        # A listed run may be gone by now; a named run must exist.
                        if run_ids:
                            raise
                    except NotDecodable as error:
                        if run_ids:
                            raise
                        print_note(f"holdfast: left out: {error}")
            except BaseException:
                if output is not None:
                    # Half an export looks like a whole one, and would keep the next export from using the name.
                    output.unlink()
                raise
            finally:
                if output is not None:
                    target.close()
    print_note(f"exported {counted(count, 'run')}")


def import_command(
    file: Annotated[
        Path, typer.Argument(help="What `export` or `prune --archive` wrote; '-' reads stdin.", metavar="FILE")
    ],
    *,
    place: Place,
    as_json: Json = False,
) -> None:
    """Bring ended runs back, with their ids, keys and journals. Repeating it changes nothing.

    Runs that had not ended, or have continued as another run, are passed by: two databases that both own a live run
    would both execute its steps. Existing runs stay as they are, and so do keys that other runs hold. The exit code is
    1 if a run was passed by for any reason but that it exists already.
    """
    counts: Counter[str] = Counter()
    passed_by: list[str] = []
    # Before the database, which this may create.
    if str(file) == "-":
        stdin_for("FILE")
    else:
        check_readable(file)
    with place.client(may_create=True) as client:
        for number, line in enumerate(_lines(file), 1):
            if not line.strip():
                continue
            try:
                became = client.import_run(line)
            except DefinitionError as error:
                counts["refused"] += 1
                passed_by.append(f"line {number}: {error}")
                continue
            counts[became.value] += 1
            if became is Imported.KEY_TAKEN:
                passed_by.append(f"line {number}: another run holds its key; delete that one first")
    told = {name: counts[name] for name in (*Imported, "refused")}
    if as_json:
        print_json({**told, "passed_by": passed_by})
    else:
        for text in passed_by:
            print_note(f"holdfast: {text}")
        known = f", {counts['known']} were there already" if counts["known"] else ""
        print_line(f"imported {counted(counts['imported'], 'run')}{known}")
    if passed_by:
        raise typer.Exit(WRONG)


import_command.__name__ = "import"


def _lines(file: Path) -> Iterator[str]:
    if str(file) == "-":
        with reading("stdin"):
            yield from in_utf8(stdin_for("FILE"))
        return
    yield from lines_of(file, "importing")
