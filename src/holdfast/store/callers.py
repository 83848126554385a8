"""Connections that callers bring along: the `Guest` protocol, and how both dialects recognise a driver.

Drivers are told apart by the modules that their classes come from, so no driver is imported. A `Guest` is the part of a
store that works inside a caller's own transaction: it neither begins nor ends that transaction, and nobody sees what it
wrote before the caller commits.
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
    """A store inside a caller's own transaction. Each method does what the store's method of that name does.

    With a blocking driver the coroutines never suspend, and can be driven without an event loop. The driver's errors
    are not translated: the transaction is the caller's, who decides what becomes of it.
    """

    is_async: bool
    """Whether the driver has to be awaited."""
    needs_open: bool
    """Whether the store has to be open. SQLite's need not: opening it may take the very lock that the caller holds."""

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
    """The known package that the connection's class, or one of its base classes, comes from; "" if there is none."""
    for cls in type(connection).__mro__:
        root = cls.__module__.partition(".")[0]
        if root in _KNOWN:
            return root
    return ""


def is_session(connection: Any) -> bool:
    """Whether it is a Session of SQLAlchemy, which has a connection rather than being one."""
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
