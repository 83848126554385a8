"""journal, logs, why: what happened to a run, and why it is not moving."""

from __future__ import annotations

import shlex
import time
from typing import Annotated, Any

import typer

from holdfast.client import Client, JournalEntry

from .options import Json, Place, RunId, pause_given
from .output import print_answer, print_json, print_json_line, print_line, print_note

Interval = Annotated[str, typer.Option("--interval", help="How often to refresh.", metavar="DURATION")]


def journal(
    run_id: RunId,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on printing until the run ends.")] = False,
    interval: Interval = "1s",
    place: Place,
    as_json: Json = False,
) -> None:
    """Print everything that a run took in and asked for, in order. `logs` is another name for this command."""
    pause = pause_given(interval, "--interval")
    with place.client() as client:
        if follow:
            _follow(client, run_id, pause, as_json)
            return
        entries = client.journal(run_id)
    if as_json:
        print_json([entry_as_json(entry) for entry in entries])
        return
    for entry in entries:
        print_line(str(entry))
    if not entries:
        print_note(f"nothing is recorded yet; holdfast why {shlex.quote(run_id)} says why")


def why(run_id: RunId, *, place: Place, as_json: Json = False) -> None:
    """Say why a run is not moving."""
    with place.client() as client:
        found = client.explain(run_id)
    told = {"id": run_id, "reason": found.reason, "text": found.text, "details": found.details}
    print_answer(str(found), told, as_json=as_json)


def _follow(client: Client, run_id: str, pause: float, as_json: bool) -> None:
    last = -1
    while True:
        # Read the status first: then the journal has all that was written before the run ended.
        is_over = client.get_run(run_id).status.is_final
        entries = client.journal(run_id)
        for entry in entries:
            # Compare turns: they are written whole, and a machine's older ones go when it writes a checkpoint.
            if entry.seq > last:
                print_json_line(entry_as_json(entry)) if as_json else print_line(str(entry))
        last = entries[-1].seq if entries else last
        if is_over:
            return
        time.sleep(pause)


def entry_as_json(entry: JournalEntry) -> dict[str, Any]:
    """An entry as JSON. It has the same fields wherever it is printed."""
    said = {name: getattr(entry, name) for name in ("number", "seq", "epoch", "at", "kind", "key", "attempt", "value")}
    return {**said, "error": entry.error_text, "note": entry.note}
