"""Names of what runs send and are sent, as callers give them, and ids that nobody has."""

from __future__ import annotations

from holdfast.errors import DefinitionError, RunNotFound
from holdfast.model import is_name, quoted


def check_name(what: str, name: object) -> None:
    """Refuse what no signal, event, value or stream can be called: it would be waited for in vain."""
    if not is_name(name, 200):
        raise DefinitionError(f"{what} {quoted(name)}: expected a name of 1 to 200 characters, without a NUL")


def not_found(run_id: str, namespace: str) -> RunNotFound:
    """The error for an id that is not there."""
    return RunNotFound(
        f"there is no run {run_id!r} in the namespace {namespace!r}; it may have been deleted after its retention, or "
        "live in another database or namespace"
    )
