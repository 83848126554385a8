"""replay: stored journals against this code, to know before a deploy which runs it would block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.client import Client, Journal, read_archive
from holdfast.codec import Codec
from holdfast.define import Workflow
from holdfast.discovery import discover
from holdfast.errors import DefinitionError, HoldfastError, UnknownWorkflow
from holdfast.model import LIVE, counted
from holdfast.settings import settings_folder
from holdfast.testing import replay

from .exits import WRONG
from .options import Chosen, Json, Place, RunIds, codec_of
from .output import lines_of, print_json, print_line, print_note, tracked, working


@dataclass(frozen=True, slots=True)
class _Outcome:
    journal: Journal
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
    if sum((bool(run_ids), chosen.is_given or all_live, file is not None)) > 1:
        raise typer.BadParameter("name runs, narrow them by --workflow and so on, or name a --file; not more than one")
    settings = place.settings()
    targets = tuple(code or ()) or settings.workflows
    found = discover(targets, ignore=settings.ignore, home=settings_folder())
    codec = found.codec or codec_of(settings)
    if file is not None:
        stored = list(_from_file(file, codec))
    else:
        if not run_ids and not chosen.is_given and not all_live:
            raise typer.BadParameter("which runs? Name them, narrow them by --workflow and so on, or say --all-live")
        with working("reading journals"), place.client() as client:
            _check_name(chosen.workflow, [one.name for one in found.workflows], client)
            stored = list(_from_database(client, run_ids or (), chosen))
    known = {(one.name, one.version): one for one in found.workflows}
    outcomes = [_replayed(one, known, codec) for one in tracked(stored, "replaying")]
    wrong = [one for one in outcomes if one.state == "diverged" or (one.state == "unknown" and not skip_unknown)]
    if as_json:
        print_json({"ok": not wrong, "runs": [_told(one) for one in outcomes]})
    else:
        for one in wrong:
            print_line(f"{one.state} {one.journal.run.id}\n{one.report}\n")
        print_note(f"{counted(len(outcomes), 'run')} replayed, {counted(len(wrong), 'run')} would not go on")
    if wrong:
        raise typer.Exit(WRONG)


replay_command.__name__ = "replay"


def _check_name(workflow: str | None, here: Sequence[str], client: Client) -> None:
    """Refuse a name that nobody knows: nothing to replay would count as nothing that is wrong."""
    if workflow is None or workflow in here:
        return
    there = [one.name for one in client.workflows()]
    if workflow not in there:
        known = ", ".join(dict.fromkeys([*here, *there])) or "none"
        raise UnknownWorkflow(f"no workflow {workflow!r} is in this code or in the database; known are: {known}")


def _replayed(journal: Journal, known: dict[tuple[str, str], Workflow[Any, Any]], codec: Codec | None) -> _Outcome:
    run = journal.run
    workflow = known.get((run.workflow, run.version))
    if workflow is None:
        versions = ", ".join(version for name, version in known if name == run.workflow)
        has = f"it has version {versions}" if versions else "it has no workflow of that name"
        report = f"{run.workflow!r} in version {run.version!r} is not in this code: {has}"
        return _Outcome(journal, "unknown", report)
    try:
        replay(journal, workflow, codec=codec)
    except HoldfastError as error:
        return _Outcome(journal, "diverged", f"{type(error).__name__}: {error}")
    return _Outcome(journal, "matches")


def _from_database(client: Client, run_ids: Sequence[str], chosen: Chosen) -> Iterator[Journal]:
    ids = run_ids or [run.id for run in client.runs(chosen.filter(LIVE))]
    return (client.journal(run_id) for run_id in ids)


def _from_file(file: Path, codec: Codec | None) -> Iterator[Journal]:
    for number, line in enumerate(lines_of(file, "reading"), 1):
        if not line.strip():
            continue
        try:
            yield read_archive(line, codec=codec)
        except DefinitionError as error:
            raise DefinitionError(f"{file}, line {number}: {error}") from error


def _told(outcome: _Outcome) -> dict[str, Any]:
    run = outcome.journal.run
    return {
        "id": run.id,
        "workflow": run.workflow,
        "version": run.version,
        "state": outcome.state,
        "report": outcome.report,
    }
