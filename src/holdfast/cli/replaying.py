"""replay: check stored journals against this code, to know before a deploy which runs it would block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.client import Client, Journal, read_archive
from holdfast.codec import Codec
from holdfast.define import Workflow
from holdfast.discovery import discover
from holdfast.errors import DefinitionError, HoldfastError, NotDecodable, RunNotFound, UnknownWorkflow
from holdfast.model import LIVE, counted
from holdfast.settings import settings_folder
from holdfast.testing import replay

from .exits import WRONG
from .options import Chosen, Json, Place, RunIds, codec_of
from .output import lines_of, loading, print_json, print_line, print_note, spinner, with_progress


@dataclass(frozen=True, slots=True)
class _Outcome:
    id: str
    workflow: str | None
    version: str | None
    state: str
    """`matches`; `diverged`; `unknown`: this code lacks the workflow or the version; or `damaged`: the journal can't be
    read."""
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
        bool, typer.Option("--skip-unknown", help="Accept runs whose workflow or version is not in this code.")
    ] = False,
    chosen: Chosen,
    place: Place,
    as_json: Json = False,
) -> None:
    """Replay stored journals against this code: no step is executed and nothing is written.

    The exit code is 1 if a run would not go on as its journal says, or if its workflow is not in this code. For each
    divergence it prints what the journal holds, what the code asked for, and where.
    """
    if sum((bool(run_ids), chosen.is_given or all_live, file is not None)) > 1:
        raise typer.BadParameter("name runs, narrow them by --workflow and so on, or name a --file; not more than one")
    settings = place.settings()
    targets = tuple(code or ()) or settings.workflows
    with loading():
        found = discover(targets, ignore=settings.ignore, home=settings_folder())
    codec = found.codec or codec_of(settings)
    known = {(one.name, one.version): one for one in found.workflows}
    # One after another, keeping only the outcomes: there may be many journals.
    if file is not None:
        outcomes = [_replayed(one, known, codec) for one in _from_file(file, codec)]
    else:
        if not run_ids and not chosen.is_given and not all_live:
            raise typer.BadParameter("which runs? Name them, narrow them by --workflow and so on, or say --all-live")
        with place.client() as client:
            _check_name(chosen.workflow, [one.name for one in found.workflows], client)
            outcomes = list(_from_database(client, run_ids or (), chosen, known, codec))
    fine = {"matches", "unknown"} if skip_unknown else {"matches"}
    wrong = [one for one in outcomes if one.state not in fine]
    if as_json:
        print_json({"ok": not wrong, "runs": [asdict(one) for one in outcomes]})
    else:
        for one in wrong:
            print_line(f"{one.state} {one.id}\n{one.report}\n")
        print_note(f"{counted(len(outcomes), 'run')} replayed, {counted(len(wrong), 'run')} would not go on")
    if wrong:
        raise typer.Exit(WRONG)


replay_command.__name__ = "replay"


def _check_name(workflow: str | None, here: Sequence[str], client: Client) -> None:
    """Refuse a workflow that nobody knows: replaying nothing would look like finding nothing wrong."""
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
        return _Outcome(run.id, run.workflow, run.version, "unknown", report)
    try:
        replay(journal, workflow, codec=codec)
    except HoldfastError as error:
        return _Outcome(run.id, run.workflow, run.version, "diverged", f"{type(error).__name__}: {error}")
    return _Outcome(run.id, run.workflow, run.version, "matches")


def _from_database(
    client: Client,
    run_ids: Sequence[str],
    chosen: Chosen,
    known: dict[tuple[str, str], Workflow[Any, Any]],
    codec: Codec | None,
) -> Iterator[_Outcome]:
    asked = run_ids
    if not asked:
        with spinner("looking for runs"):
            asked = [run.id for run in client.runs(chosen.filter(LIVE))]
    for run_id in with_progress(asked, "replaying"):
        try:
            journal = client.journal(run_id)
        except NotDecodable as error:
            # A damaged journal says nothing about the other runs.
            record = client.get_run(run_id).record
            workflow, version = (record.workflow, record.version) if record is not None else (None, None)
            yield _Outcome(run_id, workflow, version, "damaged", str(error))
        except RunNotFound:
            if run_ids:
                raise
            # The run has ended since the listing, and was removed.
        else:
            yield _replayed(journal, known, codec)


def _from_file(file: Path, codec: Codec | None) -> Iterator[Journal]:
    for number, line in enumerate(lines_of(file, "reading"), 1):
        if not line.strip():
            continue
        try:
            yield read_archive(line, codec=codec)
        except DefinitionError as error:
            raise DefinitionError(f"{file}, line {number}: {error}") from error
