"""Whose connection is it? What both dialects need to know about connections that callers bring along.

Drivers are told apart by the modules that their classes come from: nothing is imported for it. A `Guest` is the part of
a store that works inside a caller's own transaction: it neither begins nor ends that, and nobody sees what it wrote
before the caller has committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from holdfast.errors import DefinitionError
from holdfast.model import (
    Instant,
    JournalRow,
    NewRun,
    RunRecord,
    Sent,
    StartedRun,
    WaitRecord,
    WorkflowCount,
    WorkflowVersion,
)

_KNOWN = ("asyncpg", "psycopg", "psycopg2", "sqlalchemy", "django", "sqlite3")


class Guest(Protocol):
    """A store inside a caller's own transaction. Methods do what the store's own do.

    With a blocking driver they never give way, and can be driven without an event loop. Errors of the driver come
    through as they are: the transaction is the caller's, and so is what becomes of it.
    """

    is_async: bool
    """The driver has to be awaited."""
    needs_open: bool
    """The store must be open. SQLite's must not: opening may need the very lock that the caller holds."""

    async def read_clock(self) -> Instant: ...

    async def start_runs(self, runs: Sequence[NewRun], *, now: Instant | None = None) -> list[StartedRun]: ...

    async def get_run(self, run_id: str) -> RunRecord | None: ...

    async def find_run(self, workflow: str, key: str) -> RunRecord | None: ...

    async def read_journal(self, run_id: str) -> list[JournalRow]: ...

    async def list_versions(
        self, workflow: str | None = None, *, now: Instant | None = None
    ) -> list[WorkflowVersion]: ...

    async def list_workflows(self) -> list[WorkflowCount]: ...

    async def send_signal(
        self,
        run_id: str,
        name: str,
        payload: bytes,
        *,
        message_id: str | None = None,
        trace: str | None = None,
        now: Instant | None = None,
    ) -> Sent: ...

    async def publish_event(
        self,
        name: str,
        payload: bytes,
        *,
        message_id: str | None = None,
        trace: str | None = None,
        now: Instant | None = None,
    ) -> Sent: ...

    async def find_hook(self, token: str) -> WaitRecord | None: ...

    async def resume_hook(
        self,
        token: str,
        payload: bytes,
        *,
        message_id: str | None = None,
        trace: str | None = None,
        now: Instant | None = None,
    ) -> Sent: ...

    async def read_waits(self, run_id: str) -> list[WaitRecord]: ...


def root_of(connection: Any) -> str:
    """The package that the connection's class, or one that it derives from, belongs to; nothing if it is unknown."""
    for cls in type(connection).__mro__:
        root = cls.__module__.partition(".")[0]
        if root in _KNOWN:
            return root
    return ""


def is_session(connection: Any) -> bool:
    """Whether it is one of SQLAlchemy's sessions, which have a connection rather than being one."""
    return hasattr(connection, "get_bind")


def django_connection(connection: Any, vendor: str) -> Any:
    """The driver's connection inside Django's, or inside one of its cursors."""
    wrapper = getattr(connection, "db", connection)
    found = getattr(wrapper, "vendor", None)
    if found != vendor:
        what = "no connection" if found is None else f"one of Django to {found}"
        raise DefinitionError(
            f"connection={connection!r} is {what}, and this store is in {vendor}; expected django.db.connection, or"
            " connections[...] of the database that the store is in"
        )
    wrapper.ensure_connection()
    return wrapper.connection
