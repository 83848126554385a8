"""Checking names that callers give to signals, events, values and streams; and the error for an unknown run id."""

from __future__ import annotations

from holdfast.errors import DefinitionError, RunNotFound
from holdfast.model import is_name, quoted


def check_name(what: str, name: object) -> None:
    """Refuse a name that no signal, event, value or stream can have: it would be waited for in vain."""
    if not is_name(name, 200):
        raise DefinitionError(f"{what} {quoted(name)}: expected a name of 1 to 200 characters, without a NUL")


def not_found(run_id: str, namespace: str) -> RunNotFound:
    """The error for an id that no run has."""
    return RunNotFound(
        f"there is no run {run_id!r} in the namespace {namespace!r}; it may have been deleted after its retention, or "
        "live in another database or namespace"
    )
