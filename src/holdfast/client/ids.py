"""Ids of runs, and names of what they send and are sent, as callers give them."""

from __future__ import annotations

from holdfast.errors import DefinitionError, RunNotFound
from holdfast.model import is_name, is_text, quoted


def check_id(run_id: object) -> None:
    """Refuse what is no run's id."""
    if isinstance(run_id, str):
        if not is_text(run_id):
            raise DefinitionError(
                f"{quoted(run_id)} is not a run's id; expected text without a NUL or a lone surrogate"
            )
        return
    own = getattr(run_id, "id", None)
    hint = f"give its id, {own!r}" if isinstance(own, str) else "expected text, such as run.id"
    raise DefinitionError(f"{run_id!r} is not a run's id; {hint}")


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
