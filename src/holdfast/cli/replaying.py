"""replay: stored journals against this code, to know before a deploy which runs it would block."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.client import Client
from holdfast.define import Workflow
from holdfast.discovery import Found, discover
from holdfast.errors import DefinitionError, HoldfastError
from holdfast.model import RunRecord, RunStatus
from holdfast.settings import settings_file
from holdfast.testing import export_journal, replay

from .exits import WRONG
from .options import Chosen, Json, Place, RunIds
from .output import counted, print_json, print_line, print_note, tracked, working

_LIVE = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING)


@dataclass(frozen=True, slots=True)
class _Stored:
    """One journal to replay."""

    id: str
    workflow: str
    version: str
    data: bytes


@dataclass(frozen=True, slots=True)
class _Outcome:
    stored: _Stored
    state: str
    """`matches`, `diverged`, or `unknown`: this code has no such workflow in that version."""
    report: str | None = None


def replay_command(
    run_ids: RunIds = None,
    *,
    all_live: Annotated[bool, typer.Option("--all-live", help="All runs that have not ended.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", help="Journals that `holdfast export` wrote.", metavar="FILE")
    ] = None,
    code: Annotated[
        list[str] | None,
        typer.Option("--code", help="Where the workflows are, as for `worker`; may be repeated.", metavar="TARGET"),
    ] = None,
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="Runs whose workflow or version is not in this code are no fault.")
    ] = False,
    chosen: Chosen,
    place: Place,
    as_json: Json = False,
) -> None:
    """Replay stored journals against this code: no step is executed and nothing is written.

    The exit code is 1 if any run would not go on as its journal says, or if its workflow is not in this code. Each
    divergence is printed with what the journal holds, what the code asked for, and where.
    """
    settings = place.settings()
    home = settings_file()
    found = discover(
        tuple(code or ()) or settings.workflows, ignore=settings.ignore, home=None if home is None else home.parent
    )
    if file is not None:
        stored: Sequence[_Stored] = list(_from_file(file))
    else:
        if not run_ids and not chosen.is_given and not all_live:
            raise typer.BadParameter("which runs? Name them, narrow them by --workflow and so on, or say --all-live")
        with working("reading journals"), place.client() as client:
            stored = list(_from_database(client, run_ids or (), chosen))
    known = {(one.name, one.version): one for one in found.workflows}
    outcomes = [_replayed(one, known, found) for one in tracked(stored, "replaying")]
    wrong = [one for one in outcomes if one.state == "diverged" or (one.state == "unknown" and not skip_unknown)]
    if as_json:
        print_json({"ok": not wrong, "runs": [_told(one) for one in outcomes]})
    else:
        for one in wrong:
            print_line(f"{one.state} {one.stored.id}\n{one.report}\n")
        print_note(f"{counted(len(outcomes), 'run')} replayed, {counted(len(wrong), 'run')} would not go on")
    if wrong:
        raise typer.Exit(WRONG)


replay_command.__name__ = "replay"


def _replayed(stored: _Stored, known: dict[tuple[str, str], Workflow[Any, Any]], found: Found) -> _Outcome:
    workflow = known.get((stored.workflow, stored.version))
    if workflow is None:
        versions = ", ".join(version for name, version in known if name == stored.workflow)
        has = f"it has version {versions}" if versions else "it has no workflow of that name"
        report = f"{stored.workflow!r} in version {stored.version!r} is not in this code: {has}"
        return _Outcome(stored, "unknown", report)
    try:
        replay(stored.data, workflow, codec=found.codec)
    except HoldfastError as error:
        return _Outcome(stored, "diverged", f"{type(error).__name__}: {error}")
    return _Outcome(stored, "matches")


def _from_database(client: Client, run_ids: Sequence[str], chosen: Chosen) -> Iterator[_Stored]:
    records: list[RunRecord] = []
    if run_ids:
        records = [record for one in run_ids if (record := client.get_run(one).record) is not None]
    else:
        where = chosen.filter(_LIVE)
        records = [run.record for run in client.runs(where) if run.record is not None]
    for record in records:
        yield _Stored(record.id, record.workflow, record.version, export_journal(client.journal(record.id)))


def _from_file(file: Path) -> Iterator[_Stored]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                told = json.loads(line)
                data = base64.b64decode(told["data"], validate=True)
                yield _Stored(told["id"], told["workflow"], told["version"], data)
            except (ValueError, KeyError, TypeError, binascii.Error) as error:
                raise DefinitionError(
                    f"{file}, line {number}: this is no run that `holdfast export` wrote ({error!r})"
                ) from error


def _told(outcome: _Outcome) -> dict[str, Any]:
    stored = outcome.stored
    return {
        "id": stored.id,
        "workflow": stored.workflow,
        "version": stored.version,
        "state": outcome.state,
        "report": outcome.report,
    }
