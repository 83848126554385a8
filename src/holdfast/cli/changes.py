"""cancel, retry, fork, pause, resume, delete, prune: what changes runs, one by its id or many by a filter.

Before something is done to many runs the command says to how many, and asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.client import Client
from holdfast.errors import HoldfastError
from holdfast.model import NOT_GIVEN, RunFilter, RunStatus

from .exits import WRONG
from .options import Chosen, Json, Place, RunId, RunIds, Yes, duration_given, json_given
from .output import agreed, counted, print_json, print_line, print_note, working

_LIVE = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING)
_STOPPED = (RunStatus.FAILED, RunStatus.CANCELLED)
_ENDED = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.CONTINUED)

All = Annotated[bool, typer.Option("--all", help="All runs, without a filter.")]


def cancel(
    run_ids: RunIds = None,
    *,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; kept in the journal.")] = None,
    force: Annotated[bool, typer.Option("--force", help="End at once, without cleanup.")] = False,
    chosen: Chosen,
    every: All = False,
    yes: Yes = False,
    place: Place,
    as_json: Json = False,
) -> None:
    """Ask runs to end. They may clean up, unless --force is given."""
    where = _which(run_ids, chosen, every, _LIVE)
    with place.client() as client:
        if where is not None:
            deed = "end by force" if force else "cancel"
            _to_many(
                client, where, deed, "cancelled", yes, as_json, lambda: client.cancel(where, reason=reason, force=force)
            )
            return
        answers = [client.cancel(run_id, reason=reason, force=force) for run_id in run_ids or ()]
    if as_json:
        print_json(
            [
                {"id": one.run_id, "sent": one.is_sent, "was": one.status, "skipped": list(one.skipped)}
                for one in answers
            ]
        )
        return
    for one in answers:
        print_line(str(one))


def retry(
    run_ids: RunIds = None,
    *,
    chosen: Chosen,
    every: All = False,
    yes: Yes = False,
    place: Place,
    as_json: Json = False,
) -> None:
    """Go on where failed or cancelled runs stopped, as new runs, and print their ids."""
    where = _which(run_ids, chosen, every, _STOPPED)
    with place.client() as client:
        if where is not None:
            _to_many(client, where, "retry", "retried", yes, as_json, lambda: client.retry(where))
            return
        told = []
        for run_id in run_ids or ():
            run = client.retry(run_id)
            told.append({"id": run.id, "workflow": run.workflow, "forked_from": run_id, "created": run.created})
    if as_json:
        print_json(told[0] if len(told) == 1 else told)
        return
    for one in told:
        print_line(str(one["id"]))


def fork(
    run_id: RunId,
    *,
    at: Annotated[
        str | None, typer.Option("--at", help="The key of the step to go on from; else the start.", metavar="STEP")
    ] = None,
    input: Annotated[
        str | None, typer.Option("--input", help="Other arguments, as a JSON list; '-' reads stdin.", metavar="JSON")
    ] = None,
    result: Annotated[
        str | None, typer.Option("--result", help="As if the step had come to this, as JSON.", metavar="JSON")
    ] = None,
    place: Place,
    as_json: Json = False,
) -> None:
    """Make a new run that shares this one's history up to a step, and print its id. The old one stays as it was."""
    given = NOT_GIVEN if input is None else json_given(input, "--input")
    if input is not None and not isinstance(given, list):
        raise typer.BadParameter("expected the arguments as a JSON list, by position", param_hint="--input")
    came_to = NOT_GIVEN if result is None else json_given(result, "--result")
    if result is not None and at is None:
        raise typer.BadParameter("it needs --at, the key of the step whose result it is", param_hint="--result")
    with place.client() as client:
        run = client.fork(run_id, at=at, input=given, result=came_to)
    if as_json:
        print_json({"id": run.id, "workflow": run.workflow, "forked_from": run_id})
    else:
        print_line(run.id)


def pause(
    run_ids: RunIds = None,
    *,
    chosen: Chosen,
    every: All = False,
    yes: Yes = False,
    place: Place,
    as_json: Json = False,
) -> None:
    """Take no turns of these runs until they are resumed. Steps in flight end and are recorded."""
    _each(run_ids, chosen, every, _LIVE, ("pause", "paused"), yes, place, as_json, lambda client: client.pause)


def resume(
    run_ids: RunIds = None,
    *,
    chosen: Chosen,
    every: All = False,
    yes: Yes = False,
    place: Place,
    as_json: Json = False,
) -> None:
    """Let paused runs go on."""
    _each(run_ids, chosen, every, _LIVE, ("resume", "resumed"), yes, place, as_json, lambda client: client.resume)


def delete(
    run_ids: RunIds = None,
    *,
    chosen: Chosen,
    every: All = False,
    yes: Yes = False,
    place: Place,
    as_json: Json = False,
) -> None:
    """Remove ended runs with all they own. A live run is never deleted: cancel it first."""
    _each(run_ids, chosen, every, _ENDED, ("delete", "deleted"), yes, place, as_json, lambda client: client.delete)


def prune(
    *,
    older_than: Annotated[str, typer.Option("--older-than", help="Ended so long ago.", metavar="DURATION")] = "30d",
    archive: Annotated[
        Path | None, typer.Option("--archive", help="Write each to this file first, as a line of JSON.", metavar="FILE")
    ] = None,
    chosen: Chosen,
    yes: Yes = False,
    place: Place,
    as_json: Json = False,
) -> None:
    """Remove runs that ended long ago, before their retention is over."""
    age = duration_given(older_than, "--older-than")
    where = chosen.filter(_ENDED)
    with place.client() as client:
        before = datetime.now(UTC) - timedelta(microseconds=age)
        with working("counting"):
            ended = (run.record.ended_at for run in client.runs(where) if run.record is not None)
            count = sum(at is not None and at <= before for at in ended)
        if count:
            agreed(f"Delete {counted(count, 'run')} that ended more than {older_than} ago?", yes)
        with working("deleting"):
            pruned = client.prune(older_than=older_than, where=where, archive=archive)
    if as_json:
        print_json({"deleted": pruned.runs, "archive": None if archive is None else str(archive)})
    else:
        print_line(f"deleted {counted(pruned.runs, 'run')}")


def _which(
    run_ids: Sequence[str] | None, chosen: Chosen, every: bool, statuses: Sequence[RunStatus]
) -> RunFilter | None:
    """The filter that was meant; None: the runs that were named."""
    if run_ids:
        if chosen.is_given or every:
            raise typer.BadParameter("name runs, or say which by --workflow, --status and so on; not both")
        return None
    if not chosen.is_given and not every:
        raise typer.BadParameter("which runs? Name them, narrow them by --workflow, --status and so on, or say --all")
    return chosen.filter(statuses)


def _each(
    run_ids: Sequence[str] | None,
    chosen: Chosen,
    every: bool,
    statuses: Sequence[RunStatus],
    words: tuple[str, str],
    yes: bool,
    place: Place,
    as_json: bool,
    deed: Callable[[Client], Callable[[Any], int]],
) -> None:
    """Do something to the runs named, one by one, or to all that the filter lets through."""
    where = _which(run_ids, chosen, every, statuses)
    with place.client() as client:
        if where is not None:
            _to_many(client, where, words[0], words[1], yes, as_json, lambda: deed(client)(where))
            return
        failed = False
        told = []
        for run_id in run_ids or ():
            try:
                told.append({"id": run_id, words[1]: bool(deed(client)(run_id))})
            except HoldfastError as error:
                # The others are done all the same.
                if len(run_ids or ()) == 1:
                    raise
                failed = True
                told.append({"id": run_id, words[1]: False, "error": str(error)})
                print_note(f"holdfast: {error}")
    if as_json:
        print_json(told)
    else:
        for one in told:
            if "error" not in one:
                print_line(f"{words[1]} {one['id']}" if one[words[1]] else f"{one['id']} was {words[1]} already")
    if failed:
        raise typer.Exit(WRONG)


def _to_many(
    client: Client, where: RunFilter, deed: str, done: str, yes: bool, as_json: bool, act: Callable[[], int]
) -> None:
    with working("counting"):
        found = client.count(where)
    if found:
        agreed(f"{deed.capitalize()} {counted(found, 'run')}?", yes)
    with working(f"{deed}: {counted(found, 'run')}"):
        count = act() if found else 0
    if as_json:
        print_json({done: count})
    else:
        print_line(f"{done} {counted(count, 'run')}")
