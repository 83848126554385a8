"""runs, show, start, cancel, retry: what the client offers for runs, in words."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from holdfast.client import Client, Run
from holdfast.errors import CodecError, DefinitionError, HoldfastError
from holdfast.model import RunFilter, RunRecord, microseconds, spoken

from .options import Json, Namespace, RunId, Schema, Tags, Url, client_of, tags_of
from .output import moment, print_json, print_line, print_table

_FIELDS = (
    *("id", "workflow", "version", "status", "paused", "key", "tags", "queue", "priority", "created_at", "started_at"),
    *("ended_at", "due_at", "deadline_at", "chain_id", "parent_id", "forked_from", "after_run_id", "owner", "crashes"),
    "blocked",
)


def runs(
    workflow: Annotated[str | None, typer.Option("--workflow", help="Only runs of this workflow.")] = None,
    status: Annotated[list[str] | None, typer.Option("--status", help="Only these; may be repeated.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only the run with this key.")] = None,
    tag: Tags = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Created since: a time, or '1h' for an hour ago.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Created before: a time, or '1h' for an hour ago.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many.", min=1, max=1000)] = 50,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on where a page ended.")] = None,
    url: Url = None,
    namespace: Namespace = None,
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    where = RunFilter(
        workflow=workflow,
        status=tuple(status) if status else None,
        key=key,
        tags=tags_of(tag),
        since=_moment(since, "--since"),
        until=_moment(until, "--until"),
    )
    with client_of(url, namespace, schema) as client:
        page = client.runs(where).page(cursor=cursor, limit=limit)
    records = [_record(run) for run in page.items]
    if as_json:
        print_json({"runs": [_fields(record) for record in records], "next": page.next})
        return
    if not records:
        print_line("no runs")
        return
    print_table(
        ["ID", "WORKFLOW", "STATUS", "KEY", "CREATED", "TOOK"],
        [[one.id, one.workflow, _status(one), one.key, one.created_at, _took(one)] for one in records],
    )
    if page.next is not None:
        print_line(f"there are more: --cursor {page.next}")


def show(
    run_id: RunId, url: Url = None, namespace: Namespace = None, schema: Schema = None, as_json: Json = False
) -> None:
    """Show one run: what it was given, what it came to, and why it is where it is."""
    with client_of(url, namespace, schema) as client:
        record = _record(client.get_run(run_id))
        told = {**_fields(record), **_values(client, record), "why": str(client.explain(run_id))}
        entries = client.journal(run_id)
    if as_json:
        print_json(told)
        return
    for name, value in told.items():
        if value not in (None, {}, False) and name not in ("why", "error") and (name, value) != ("chain_id", run_id):
            text = moment(value) if isinstance(value, datetime) else value
            print_line(f"{name:<12} {text if isinstance(text, str) else json.dumps(text, default=str)}")
    print_line()
    for entry in entries:
        print_line(str(entry))
    print_line(f"\n{told['why']}")


def start(
    workflow: Annotated[str, typer.Argument(help="The workflow's name.", metavar="NAME")],
    input: Annotated[
        str | None,
        typer.Option(
            "--input",
            help="Arguments as JSON: a list by position, an object by name, else the only one; - reads stdin.",
            metavar="JSON",
        ),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="One run for a workflow and a key.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="The run's id.")] = None,
    on_conflict: Annotated[
        str | None, typer.Option("--on-conflict", help="If the key is taken: return, raise, replace, restart or retry.")
    ] = None,
    delay: Annotated[str | None, typer.Option("--delay", help="Begin after this long, as '5m'.")] = None,
    deadline: Annotated[str | None, typer.Option("--deadline", help="Fail after this long.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", help="0 to 9, larger first.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="The queue that it goes to.")] = None,
    tag: Tags = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end and print the result.")] = False,
    url: Url = None,
    namespace: Namespace = None,
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """Start a run of a workflow that workers have registered, and print its id."""
    args, kwargs = _arguments(input)
    options: dict[str, Any] = {
        "key": key, "id": id, "on_conflict": on_conflict, "delay": delay, "deadline": deadline, "priority": priority,
        "queue": queue, "tags": tags_of(tag) or None, "retention": None,
    }  # fmt: skip  # one line a group reads better here
    for name in options.keys() & kwargs.keys():
        raise typer.BadParameter(
            f"an argument named {name!r} would be taken for the option; give the arguments as a list, by position",
            param_hint="--input",
        )
    with client_of(url, namespace, schema) as client:
        given = {name: value for name, value in options.items() if value is not None}
        run = client.start(workflow, *args, **kwargs, **given)
        told = {"id": run.id, "workflow": run.workflow, "created": run.created}
        if wait:
            told["result"] = run.result()
        if as_json:
            print_json({**told, "status": run.status})
        elif wait:
            print_json(told["result"])
        else:
            print_line(run.id)


def cancel(
    run_ids: Annotated[list[str], typer.Argument(help="Ids of runs.", metavar="RUN_ID...")],
    reason: Annotated[str | None, typer.Option("--reason", help="Why; kept in the journal.")] = None,
    force: Annotated[bool, typer.Option("--force", help="End at once, without cleanup.")] = False,
    url: Url = None,
    namespace: Namespace = None,
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """Ask runs to end. They may clean up, unless --force is given."""
    with client_of(url, namespace, schema) as client:
        answers = [client.cancel(run_id, reason=reason, force=force) for run_id in run_ids]
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
    run_id: RunId, url: Url = None, namespace: Namespace = None, schema: Schema = None, as_json: Json = False
) -> None:
    """Go on where a failed or cancelled run stopped, as a new run, and print its id."""
    with client_of(url, namespace, schema) as client:
        run = client.retry(run_id)
    if as_json:
        print_json({"id": run.id, "workflow": run.workflow, "forked_from": run_id, "created": run.created})
    else:
        print_line(run.id)


def _record(run: Run[Any]) -> RunRecord:
    record = run.record
    assert record is not None, "a run that was read has a record"
    return record


def _fields(record: RunRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _FIELDS}


def _values(client: Client, record: RunRecord) -> dict[str, Any]:
    """Input, result and error as plain data, as far as they can be read here."""
    told: dict[str, Any] = {"input": None, "result": None, "error": None}
    try:
        positional, named = client.codec.plain_arguments(record.input)
        told["input"] = {"args": positional, "kwargs": named}
    except CodecError as unreadable:
        told["input"] = str(unreadable)
    if record.status.is_final:
        try:
            told["result"] = client.get_run(record.id).result(timeout=0)
        except HoldfastError as error:
            told["error"] = str(error)
    return told


def _status(record: RunRecord) -> str:
    if record.blocked is not None:
        return f"{record.status} (blocked)"
    return f"{record.status} (paused)" if record.paused else str(record.status)


def _took(record: RunRecord) -> str:
    if record.started_at is None or record.ended_at is None:
        return ""
    return spoken((record.ended_at - record.started_at) // timedelta(microseconds=1))


def _arguments(given: str | None) -> tuple[list[Any], dict[str, Any]]:
    if given is None:
        return [], {}
    try:
        value = json.loads(sys.stdin.read() if given == "-" else given)
    except ValueError as error:
        raise typer.BadParameter(f"it is no JSON: {error}", param_hint="--input") from None
    if isinstance(value, dict):
        return [], value
    return (value, {}) if isinstance(value, list) else ([value], {})


def _moment(given: str | None, option: str) -> datetime | None:
    """A time, or so long ago."""
    if given is None:
        return None
    try:
        at = datetime.fromisoformat(given)
        return at if at.tzinfo is not None else at.astimezone()
    except ValueError:
        pass
    try:
        return datetime.now(UTC) - timedelta(microseconds=microseconds(given))
    except DefinitionError:
        raise typer.BadParameter(
            f"{given!r}: expected a time, as 2026-01-31T12:00, or how long ago, as 1h30m", param_hint=option
        ) from None
