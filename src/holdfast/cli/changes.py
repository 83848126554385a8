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
from holdfast.model import ENDED, LIVE, NOT_GIVEN, RunFilter, RunStatus, counted, spoken

from .exits import WRONG
from .options import Chosen, Json, Meant, Place, RunId, Yes, duration_given, json_given
from .output import agreed, print_answer, print_json, print_line, print_note, working

_STOPPED = (RunStatus.FAILED, RunStatus.CANCELLED)


def cancel(
    *,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; kept in the journal.")] = None,
    force: Annotated[bool, typer.Option("--force", help="End at once, without cleanup.")] = False,
    meant: Meant,
    place: Place,
    as_json: Json = False,
) -> None:
    """Ask runs to end. They may clean up, unless --force is given."""
    where = meant.which(LIVE)
    with place.client() as client:
        if where is not None:
            deed = ("end by force" if force else "cancel", "cancelled")
            _to_many(client, where, deed, lambda: client.cancel(where, reason=reason, force=force), meant.yes, as_json)
            return
        answers = [client.cancel(run_id, reason=reason, force=force) for run_id in meant.run_ids or ()]
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


def retry(*, meant: Meant, place: Place, as_json: Json = False) -> None:
    """Go on where failed or cancelled runs stopped, as new runs, and print their ids."""
    where = meant.which(_STOPPED)
    with place.client() as client:
        if where is not None:
            _to_many(client, where, ("retry", "retried"), lambda: client.retry(where), meant.yes, as_json)
            return
        told = []
        for run_id in meant.run_ids or ():
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
    print_answer(run.id, {"id": run.id, "workflow": run.workflow, "forked_from": run_id}, as_json=as_json)


def pause(*, meant: Meant, place: Place, as_json: Json = False) -> None:
    """Take no turns of these runs until they are resumed. Steps in flight end and are recorded."""
    _each(meant, LIVE, ("pause", "paused"), Client.pause, place, as_json)


def resume(*, meant: Meant, place: Place, as_json: Json = False) -> None:
    """Let paused runs go on."""
    _each(meant, LIVE, ("resume", "resumed"), Client.resume, place, as_json)


def delete(*, meant: Meant, place: Place, as_json: Json = False) -> None:
    """Remove ended runs with all they own. A live run is never deleted: cancel it first."""
    _each(meant, ENDED, ("delete", "deleted"), Client.delete, place, as_json)


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
    where = chosen.filter(ENDED)
    with place.client() as client:
        before = datetime.now(UTC) - timedelta(microseconds=age)
        with working("counting"):
            ended = (run.record.ended_at for run in client.runs(where) if run.record is not None)
            count = sum(at is not None and at <= before for at in ended)
        if count:
            agreed(f"Delete {counted(count, 'run')} that ended more than {spoken(age)} ago?", yes)
        with working("deleting"):
            pruned = client.prune(older_than=timedelta(microseconds=age), where=where, archive=archive)
    told = {"deleted": pruned.runs, "archive": None if archive is None else str(archive)}
    print_answer(f"deleted {counted(pruned.runs, 'run')}", told, as_json=as_json)


def _each(
    meant: Meant,
    statuses: Sequence[RunStatus],
    words: tuple[str, str],
    act: Callable[[Client, Any], int],
    place: Place,
    as_json: bool,
) -> None:
    """Do something to the runs named, one by one, or to all that the filter lets through."""
    where = meant.which(statuses)
    done = words[1]
    told = []
    with place.client() as client:
        if where is not None:
            _to_many(client, where, words, lambda: act(client, where), meant.yes, as_json)
            return
        for run_id in meant.run_ids or ():
            try:
                told.append({"id": run_id, done: bool(act(client, run_id))})
            except HoldfastError as error:
                # The others are done all the same.
                if len(meant.run_ids or ()) == 1:
                    raise
                told.append({"id": run_id, done: False, "error": str(error)})
                print_note(f"holdfast: {error}")
    if as_json:
        print_json(told)
    else:
        for one in told:
            if "error" not in one:
                print_line(f"{done} {one['id']}" if one[done] else f"{one['id']} was {done} already")
    if any("error" in one for one in told):
        raise typer.Exit(WRONG)


def _to_many(
    client: Client, where: RunFilter, words: tuple[str, str], act: Callable[[], int], yes: bool, as_json: bool
) -> None:
    """Say to how many runs it is done, ask, do it, and say to how many it was done."""
    deed, done = words
    with working("counting"):
        found = client.count(where)
    if found:
        agreed(f"{deed.capitalize()} {counted(found, 'run')}?", yes)
    with working(f"{deed}: {counted(found, 'run')}"):
        count = act() if found else 0
    print_answer(f"{done} {counted(count, 'run')}", {done: count}, as_json=as_json)
