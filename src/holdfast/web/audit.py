"""The audit log: a record of every request that changes something, or was refused when it tried, but for those that
were one too many: whoever calls too often must not be able to fill it.

It says who, what, which run and what came of it, and never holds a payload, a key or a hook's token.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_logger = logging.getLogger("holdfast.audit")


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One request that would change something."""

    who: str
    """The id of the API key, or "local", "anybody", "hook" where none was needed; "nobody" without a valid one."""
    address: str
    what: str
    """The operation: start_run, cancel_run, send_signal, …; the method of a request that is for none."""
    workflow: str | None
    run_id: str | None
    """The run it was about, or the one that it brought about."""
    name: str | None
    """Of a signal or an event."""
    outcome: str
    """"done", "refused" (by a rule) or "failed" (something broke)."""
    status: int
    request_id: str


def write(record: AuditRecord) -> None:
    """Into the logger `holdfast.audit`: words for people, and the record's fields in the attribute `audit`."""
    what = " ".join(
        f"{name}={value!r}"
        for name, value in (("workflow", record.workflow), ("run", record.run_id), ("name", record.name))
        if value is not None
    )
    _logger.info(
        "%s %s by %s from %s: %s (%d) [%s]",
        record.what, what or "-", record.who, record.address, record.outcome, record.status, record.request_id,
        extra={"audit": asdict(record)},
    )  # fmt: skip  # one line a group reads better here


def outcome_of(status: int) -> str:
    if status < 400:
        return "done"
    return "refused" if status < 500 else "failed"


def named(params: Mapping[str, Any]) -> str | None:
    """The signal or event that a path names. A hook's token is as good as a key, so it is left out."""
    return params.get("signal") or params.get("event")
