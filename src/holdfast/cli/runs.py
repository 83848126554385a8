"""runs, show, start: list, show and start runs."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.live import Live

from holdfast.client import Client, JournalEntry, Run
from holdfast.codec import Shown, readable_traceback
from holdfast.define import StartOptions
from holdfast.errors import BadCursor, CodecError, HoldfastError, NotDecodable, RunCancelled, RunFailed
from holdfast.model import NOT_GIVEN, OnConflict, Page, RunFilter, RunRecord, RunStatus, spoken

from .journals import entry_as_json
from .options import (
    Chosen,
    Json,
    Place,
    RunId,
    Tags,
    duration_given,
    json_given,
    pause_given,
    span_given,
    tags_of,
    wrong_usage,
)
from .output import json_line, moment, print_json, print_json_line, print_line, print_note, print_table, table_of
from .timelines import timeline
from .waiting import explaining

_FIELDS = (
    *("id", "workflow", "version", "status", "paused", "key", "tags", "queue", "priority", "created_at", "started_at"),
    *("ended_at", "due_at", "deadline_at", "chain_id", "origin_id", "parent_id", "forked_from", "successor_id"),
    *("after_run_id", "owner", "crashes", "blocked"),
)
_LONGEST = 1_000
"""Characters shown of one field: nobody reads more on a terminal."""
_HEADINGS = ("ID", "WORKFLOW", "STATUS", "KEY", "CREATED", "TOOK")
_SPARE = ("TOOK",)
"""Columns that a narrow terminal does without: `show` has them, too."""


def runs(
    *,
    chosen: Chosen,
    limit: Annotated[int, typer.Option("--limit", help="List at most this many.", min=1, max=1000)] = 50,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Continue after an earlier page.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")] = False,
    interval: Annotated[str, typer.Option("--interval", help="How often to refresh.", metavar="DURATION")] = "1s",
    place: Place,
    as_json: Json = False,
) -> None:
    """List runs, newest first. With --watch and --json, a line of JSON is printed for each run that has changed."""
    where = chosen.filter()
    pause = pause_given(interval, "--interval")
    if watch and cursor is not None:
        raise typer.BadParameter("it is for a page; --watch goes on showing the newest runs", param_hint="--cursor")
    with place.client() as client:
        if watch:
            with contextlib.suppress(KeyboardInterrupt):
                _watch(client, where, limit, pause, as_json)
            return
        try:
            page = client.runs(where).page(cursor=cursor, limit=limit)
        except BadCursor as error:
            raise typer.BadParameter(str(error), param_hint="--cursor") from None
    records = [_record(run) for run in page.items]
    if as_json:
        print_json({"runs": [_fields(record) for record in records], "next": page.next})
        return
    if not records:
        print_line("no runs")
        return
    print_table(_HEADINGS, [_row(one) for one in records], spare=_SPARE)
    if page.next is not None:
        print_line(f"there are more: --cursor {page.next}")


def show(run_id: RunId, *, place: Place, as_json: Json = False) -> None:
    """Show one run: its input, its result or error, a timeline of its steps, and why it is where it is.

    For a failed run the traceback is printed, too: where in your code it failed.
    """
    with place.client() as client:
        record = _record(client.get_run(run_id))
        told = {**_fields(record), **_values(client, record), "why": str(client.explain(run_id))}
        entries = _entries(client, run_id)
    if as_json:
        print_json({**told, "journal": [entry_as_json(entry) for entry in entries]})
        return
    for name, value in told.items():
        # Most runs are the first of their chain and of their life: don't say so.
        is_own = name in ("chain_id", "origin_id") and value == run_id
        # A result is always shown: zero and false are results, too.
        is_empty = value is None or (name != "result" and value in ({}, False))
        if not is_empty and name not in ("why", "error", "traceback") and not is_own:
            text = moment(value) if isinstance(value, datetime) else value
            print_line(f"{name:<12} {_shortened(text if isinstance(text, str) else json_line(text))}")
    print_line()
    lines = timeline(entries, until=record.ended_at or datetime.now(UTC), width=min(Console().width, 120))
    for line in [*lines, ""] if lines else []:
        print_line(line)
    for entry in entries:
        print_line(str(entry))
    print_line(f"\n{told['why']}")
    # `why` shows one line of the error. The traceback, if there is one, has all of them.
    where = told["traceback"] or told["error"]
    if record.status is RunStatus.FAILED and where is not None:
        print_line(f"\n{where}")


def _entries(client: Client, run_id: str) -> Sequence[JournalEntry]:
    try:
        return client.journal(run_id)
    except NotDecodable as error:
        # Show the rest of the run nevertheless.
        print_note(f"holdfast: {error}")
        return ()


def start(
    workflow: Annotated[str, typer.Argument(help="The workflow's name.", metavar="NAME")],
    *,
    input: Annotated[
        str | None,
        typer.Option(
            "--input",
            help="Arguments as JSON: a list by position, an object by name, else the only one; '-' reads stdin.",
            metavar="JSON",
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key: there is one run for each workflow and key.")
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="The run's id.")] = None,
    on_conflict: Annotated[
        str | None, typer.Option("--on-conflict", help="If the key is taken: return, raise, replace, restart or retry.")
    ] = None,
    delay: Annotated[str | None, typer.Option("--delay", help="Begin after this long, as '5m'.")] = None,
    deadline: Annotated[str | None, typer.Option("--deadline", help="Fail after this long.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", help="0 to 9; larger goes first.", min=0, max=9)] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="The queue to put it on.")] = None,
    tag: Tags = None,
    retention: Annotated[
        str | None, typer.Option("--retention", help="How long to keep it after its end, as '90d'.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end and print the result.")] = False,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="Wait no longer than this; the run goes on.", metavar="DURATION")
    ] = None,
    place: Place,
    as_json: Json = False,
) -> None:
    """Start a run of a workflow that workers have registered, and print its id.

    With --wait the exit code is 0 if the run completed, and 1 if it failed or was cancelled. While it waits, a note on
    stderr tells if the run is paused or blocked, or if it has no worker.
    """
    if timeout is not None and not wait:
        raise typer.BadParameter("it says how long to wait: give --wait, too", param_hint="--timeout")
    patience = None if timeout is None else duration_given(timeout, "--timeout") / 1_000_000
    args, kwargs = _arguments(input)
    with wrong_usage():
        options = StartOptions(
            id=id, key=key, on_conflict=cast("OnConflict | None", on_conflict),
            delay=span_given(delay, "--delay"), deadline=span_given(deadline, "--deadline"),
            priority=priority, tags=tags_of(tag) or None, queue=queue,
            retention=NOT_GIVEN if retention is None else span_given(retention, "--retention"),
        )  # fmt: skip  # one line a group reads better here
    with place.client() as client:
        with wrong_usage():
            run = client.start_call(workflow, args, kwargs, options=options)
        told: dict[str, Any] = {"id": run.id, "workflow": run.workflow, "created": run.created}
        if wait:
            told |= {"result": None, "error": None}
            try:
                with explaining(client, run.id):
                    status = run.wait(timeout=patience)
                if status is RunStatus.COMPLETED:
                    told["result"] = _result(client, run)
                else:
                    run.result(timeout=0)
            except (RunFailed, RunCancelled, TimeoutError) as error:
                if as_json:
                    # Refresh only a run that goes on: read by its id, a continued run does not say how its chain ended.
                    status = run.refresh().status if isinstance(error, TimeoutError) else run.status
                    print_json({**told, "error": str(error), "status": status})
                if isinstance(error, RunFailed):
                    first = str(error).partition("\n")[0]
                    advice = f"`holdfast show {shlex.quote(error.run_id)}` shows where, and how to go on"
                    raise HoldfastError(f"{first}; {advice}") from error
                raise
            except KeyboardInterrupt:
                print_note(f"holdfast: nobody waits any more, and run {run.id} goes on: holdfast show {run.id}")
                raise
        if as_json:
            print_json({**told, "status": run.status})
        elif wait:
            print_json(told["result"])
        else:
            print_line(run.id)


def _watch(client: Client, where: RunFilter, limit: int, pause: float, as_json: bool) -> None:
    if as_json:
        printed = Printed()
        for page in _pages(client, where, limit, pause):
            for record in map(_record, reversed(page.items)):
                fields = _fields(record)
                if printed.is_news(record.id, fields):
                    print_json_line(fields)
        return
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        for page in _pages(client, where, limit, pause):
            print_table(_HEADINGS, [_row(_record(run)) for run in page.items])
        return
    with Live(console=console, auto_refresh=False, screen=True) as live:
        for page in _pages(client, where, limit, pause):
            rows = [_row(_record(run)) for run in page.items]
            live.update(table_of(_HEADINGS, rows, width=console.width, spare=_SPARE), refresh=True)


class Printed:
    """What was printed of the most recently seen runs. Older ones are forgotten: a watch may last for ever."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._fields: dict[str, dict[str, Any]] = {}

    def is_news(self, run_id: str, fields: dict[str, Any]) -> bool:
        """Whether the run is new or has changed, and so is to be printed. It counts as printed from here on."""
        before = self._fields.pop(run_id, None)
        self._fields[run_id] = fields
        if len(self._fields) > self._most:
            del self._fields[next(iter(self._fields))]
        return before != fields


def _pages(client: Client, where: RunFilter, limit: int, pause: float) -> Iterator[Page[Run[Any]]]:
    while True:
        yield client.runs(where).page(limit=limit)
        time.sleep(pause)


def _row(record: RunRecord) -> Sequence[object]:
    return [record.id, record.workflow, _status(record), record.key, record.created_at, _took(record)]


def _record(run: Run[Any]) -> RunRecord:
    record = run.record
    assert record is not None, "a run that was read has a record"
    return record


def _fields(record: RunRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _FIELDS}


def _values(client: Client, record: RunRecord) -> dict[str, Any]:
    """Input, result, error and traceback as plain data, as far as they can be read here."""
    told: dict[str, Any] = {"input": None, "result": None, "error": None, "traceback": None}
    try:
        positional, named = client.codec.plain_arguments(record.input)
        told["input"] = {"args": positional, "kwargs": named}
    except CodecError as unreadable:
        told["input"] = str(unreadable)
    if record.status.is_final:
        run = client.get_run(record.id)
        try:
            if run.wait(timeout=0) is RunStatus.COMPLETED:
                told["result"] = _result(client, run)
            else:
                run.result(timeout=0)
        except CodecError as unreadable:
            # The run has completed, so this is no error of its own.
            told["result"] = str(unreadable)
        except HoldfastError as error:
            told |= {"error": str(error), "traceback": readable_traceback(client.codec, record.error)}
        except TimeoutError:
            # The run continued as another one, and the last run of the chain has not ended.
            pass
    return told


def _result(client: Client, run: Run[Any]) -> Any:
    """The result of a completed run, or of its chain's last run, as plain data: its classes are not loaded here."""
    output = _record(run).output
    return None if output is None else client.codec.value(Shown).decode(output)


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 1]}… ({len(text):,} characters; --json has them all)"


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
    value = json_given(given, "--input")
    if isinstance(value, dict):
        return [], value
    return (value, {}) if isinstance(value, list) else ([value], {})
