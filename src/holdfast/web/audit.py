"""The audit log: a record of every request that changes something, or was refused when it tried.

Requests over the rate limit are left out, or whoever calls too often could fill the log. A record says who, what, which
run and with what outcome. It never holds a payload, a key or a hook's token.
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
    """The operation: start_run, cancel_run, send_signal, …; for a request that fits none, its method."""
    workflow: str | None
    run_id: str | None
    """The run that the request was about, or that it created."""
    name: str | None
    """The name of the signal or event."""
    outcome: str
    """"done", "refused" (by a rule) or "failed" (something broke)."""
    status: int
    request_id: str


def write(record: AuditRecord) -> None:
    """Write to the logger `holdfast.audit`: a sentence for people, and the record's fields as `audit`."""
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
    """The signal or event that a path names. Not a hook's token: that is as good as a key."""
    return params.get("signal") or params.get("event")
