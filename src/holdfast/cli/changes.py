"""cancel, retry, fork, pause, resume, delete, prune: commands that change one run by its id, or many by a filter.

A command that changes many runs says how many, and asks first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from holdfast.client import Client
from holdfast.errors import HoldfastError
from holdfast.model import ENDED, LIVE, NOT_GIVEN, RunFilter, RunStatus, counted, spoken

from .exits import WRONG
from .options import Chosen, Json, Meant, Place, RunId, Yes, duration_given, json_given
from .output import confirm, print_answer, print_json, print_line, print_note, spinner, writing

T = TypeVar("T")
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
            # After a forced cancel the runs have ended; others may clean up for any length of time.
            say = "cancelled {}" if force else "asked {} to end"

            def act() -> int:
                return client.cancel(where, reason=reason, force=force)

            _to_many(client, where, deed, act, meant.yes, as_json, say=say)
            return
        named = _Named(meant)
        answers = [(run_id, named.act(run_id, client.cancel, reason=reason, force=force)) for run_id in named.run_ids]
    if as_json:
        print_json(
            [
                {"id": run_id, "error": named.errors[run_id]}
                if one is None
                else {"id": one.run_id, "sent": one.is_sent, "was": one.status, "skipped": list(one.skipped)}
                for run_id, one in answers
            ]
        )
    else:
        for _, one in answers:
            if one is not None:
                print_line(str(one))
    named.exit()


def retry(*, meant: Meant, place: Place, as_json: Json = False) -> None:
    """Go on where failed or cancelled runs stopped, as new runs, and print their ids."""
    where = meant.which(_STOPPED)
    with place.client() as client:
        if where is not None:
            _to_many(client, where, ("retry", "retried"), lambda: client.retry(where), meant.yes, as_json)
            return
        named = _Named(meant)
        told: list[dict[str, Any]] = []
        for run_id in named.run_ids:
            run = named.act(run_id, client.retry)
            if run is None:
                told.append({"id": None, "forked_from": run_id, "error": named.errors[run_id]})
            else:
                told.append({"id": run.id, "workflow": run.workflow, "forked_from": run_id, "created": run.created})
    if as_json:
        print_json(told[0] if len(told) == 1 else told)
    else:
        for one in told:
            if one["id"] is not None:
                print_line(one["id"])
    named.exit()


def fork(
    run_id: RunId,
    *,
    at: Annotated[
        str | None,
        typer.Option("--at", help="Fork at the step with this key; the default is the start.", metavar="STEP"),
    ] = None,
    input: Annotated[
        str | None, typer.Option("--input", help="New arguments, as a JSON list; '-' reads stdin.", metavar="JSON")
    ] = None,
    result: Annotated[
        str | None, typer.Option("--result", help="A new result for the step at --at, as JSON.", metavar="JSON")
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
    _to_each(meant, LIVE, ("pause", "paused"), Client.pause, place, as_json)


def resume(*, meant: Meant, place: Place, as_json: Json = False) -> None:
    """Let paused runs go on."""
    _to_each(meant, LIVE, ("resume", "resumed"), Client.resume, place, as_json)


def delete(*, meant: Meant, place: Place, as_json: Json = False) -> None:
    """Remove ended runs with all they own. A live run is never deleted: cancel it first."""
    _to_each(meant, ENDED, ("delete", "deleted"), Client.delete, place, as_json)


def prune(
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", help="Only runs that ended at least this long ago.", metavar="DURATION")
    ] = "30d",
    archive: Annotated[
        Path | None,
        typer.Option("--archive", help="First write each run to this file, as a line of JSON.", metavar="FILE"),
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
        # A fixed moment by the database's clock: exactly the runs that were counted are deleted.
        before = client.now() - timedelta(microseconds=age)
        with spinner("counting"):
            ended = (run.record.ended_at for run in client.runs(where) if run.record is not None)
            count = sum(at is not None and at <= before for at in ended)
        if count:
            confirm(f"Delete {counted(count, 'run')} that ended more than {spoken(age)} ago?", yes)
        with spinner("deleting"), writing(archive):
            pruned = client.prune(older_than=before, where=where, archive=archive)
    if pruned.unreadable:
        left = ", ".join(pruned.unreadable)
        print_note(f"holdfast: left, for their journals can't be read: {left}; `holdfast delete` takes them unarchived")
    told = {
        "deleted": pruned.runs,
        "archive": None if pruned.archived is None else str(pruned.archived),
        "unreadable": list(pruned.unreadable),
    }
    print_answer(f"deleted {counted(pruned.runs, 'run')}", told, as_json=as_json)


def _to_each(
    meant: Meant,
    statuses: Sequence[RunStatus],
    words: tuple[str, str],
    act: Callable[[Client, Any], int],
    place: Place,
    as_json: bool,
) -> None:
    """Do something to the named runs one by one, or to all that the filter selects."""
    where = meant.which(statuses)
    done = words[1]
    told: list[dict[str, Any]] = []
    with place.client() as client:
        if where is not None:
            _to_many(client, where, words, lambda: act(client, where), meant.yes, as_json)
            return
        named = _Named(meant)
        for run_id in named.run_ids:
            is_done = named.act(run_id, lambda run_id: act(client, run_id))
            error = {"error": named.errors[run_id]} if is_done is None else {}
            told.append({"id": run_id, done: bool(is_done), **error})
    if as_json:
        print_json(told)
    else:
        for one in told:
            if "error" not in one:
                print_line(f"{done} {one['id']}" if one[done] else f"{one['id']} was {done} already")
    named.exit()


class _Named:
    """The named runs, handled one by one. A refused one does not stop the others: the user must learn what happened to
    each."""

    def __init__(self, meant: Meant) -> None:
        self.run_ids = tuple(dict.fromkeys(meant.run_ids or ()))
        self.errors: dict[str, str] = {}

    def act(self, run_id: str, act: Callable[..., T], **options: Any) -> T | None:
        """Act on one run. If it is refused, say so and return None; if it is the only one, raise."""
        try:
            return act(run_id, **options)
        except HoldfastError as error:
            if len(self.run_ids) == 1:
                raise
            self.errors[run_id] = str(error)
            print_note(f"holdfast: {error}")
            return None

    def exit(self) -> None:
        """End the command, with the exit code for refusals if there was one."""
        if self.errors:
            raise typer.Exit(WRONG)


def _to_many(
    client: Client,
    where: RunFilter,
    words: tuple[str, str],
    act: Callable[[], int],
    yes: bool,
    as_json: bool,
    *,
    say: str | None = None,
) -> None:
    """Say how many runs there are, ask, act, and report the count. `say` is the report's text, if not the usual one."""
    deed, done = words
    with spinner("counting"):
        found = client.count(where)
    if found:
        confirm(f"{deed.capitalize()} {counted(found, 'run')}?", yes)
    with spinner(f"{deed}: {counted(found, 'run')}"):
        count = act() if found else 0
    text = (say or f"{done} {{}}").format(counted(count, "run"))
    print_answer(text, {done: count}, as_json=as_json)
