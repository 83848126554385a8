"""journal, why: what happened to a run, and why it is not moving."""

from __future__ import annotations

import dataclasses
from typing import Any

from holdfast.client import JournalEntry

from .options import Json, Namespace, RunId, Schema, Url, client_of
from .output import print_json, print_line


def journal(
    run_id: RunId, url: Url = None, namespace: Namespace = None, schema: Schema = None, as_json: Json = False
) -> None:
    """Print everything that a run took in and asked for, in order."""
    with client_of(url, namespace, schema) as client:
        entries = client.journal(run_id)
    if as_json:
        print_json([_told(entry) for entry in entries])
        return
    for entry in entries:
        print_line(str(entry))


def why(
    run_id: RunId, url: Url = None, namespace: Namespace = None, schema: Schema = None, as_json: Json = False
) -> None:
    """Say why a run is not moving."""
    with client_of(url, namespace, schema) as client:
        found = client.explain(run_id)
    if as_json:
        print_json({"id": run_id, "reason": found.reason, "text": found.text, "details": _plain(found.details)})
    else:
        print_line(str(found))


def _told(entry: JournalEntry) -> dict[str, Any]:
    said = {name: getattr(entry, name) for name in ("number", "seq", "epoch", "at", "kind", "key", "attempt", "value")}
    error = None if entry.error is None else f"{type(entry.error).__name__}: {entry.error}"
    return {**said, "error": error, "note": entry.note}


def _plain(value: Any) -> Any:
    """Records inside details as objects."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
