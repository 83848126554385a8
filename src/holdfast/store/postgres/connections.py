"""Connections to one Postgres database: opening, their settings, and what an error means.

An error of the server or of the connection becomes StoreAway: nothing was changed, or nobody can tell, and every write
may be sent again. No message shows a password.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg

from holdfast.errors import DefinitionError, StoreAway, StoreError

CONNECT_TIMEOUT = 10.0
COMMAND_TIMEOUT = 60.0
LOCK_TIMEOUT = "3s"
HASTY_TIMEOUT = "50ms"
# Plans are made once for any values: to plan a claim takes longer than to execute it, and the same plan is best for all
# values. Walks and joins that compare all with all are made to look expensive: they look cheap while a table has few
# rows, and are kept when it has many. The isolation level is set, since our later statements have to see what was
# committed after the earlier ones.
_SETTINGS = """
    SET default_transaction_isolation = 'read committed';
    SET lock_timeout = '{lock_timeout}'; SET idle_in_transaction_session_timeout = '60s'; SET jit = off;
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
    SET synchronous_commit = on; SET plan_cache_mode = force_generic_plan
"""
_LOCAL_SETTINGS = _SETTINGS.replace("SET ", "SET LOCAL ")
# Trouble with the connection, with resources (disk, memory, connections), with an operator who stops the server or the
# statement, a transaction that was ended because it took too long, a read-only server, trouble with files.
_AWAY = ("08", "53", "57", "25P", "25006", "58")
# The server has an error code for a full disk, but none for a full quota or a file that may not grow: those are
# internal errors that come from these source files.
_INTERNAL = "XX000"
_FILES = {"md.c", "fd.c", "buffile.c", "xlog.c"}
# A value is too long for an index.
_TOO_LONG = "54000"
_AGAIN = ("40001", "40P01", "55P03")
# A wrong user, password or database; then a schema, table or column that is missing or may not be used.
_REFUSED = ("28", "3D000")
_UNFIT = ("42", "3F")
_READ_ONLY = "25006"
_AGAIN_LATER = "Ask again when the database can be reached; workers go on by themselves then"
# A prepared statement is missing, or exists already.
_UNPREPARED = ("26000", "42P05")
# The encodings that can hold every text. The second takes bytes as they come.
_ENCODINGS = ("UTF8", "SQL_ASCII")
# A setting that the server does not know. PgBouncer has one code for all that it says.
_UNKNOWN = "42704"
_OF_POOLER = ("08P01", "unsupported startup parameter")
# Errors that show that somebody is changing a database that worked before: who may log in, the database itself, whether
# it takes connections, its schema, rights, and settings of the server or of the pooler before it.
_CHANGING = ("28", "3D000", "55000", "3F000", "42501", "42P01", "42703", _UNKNOWN, _OF_POOLER[0])


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect, and how."""

    dsn: str
    shown: str
    """The url without its password."""
    is_pooled: bool
    """Whether a pooler gives each transaction another connection, so that no session can be relied on."""
    server_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of new connections: a name that shows in pg_stat_activity, if the url has none."""


def parse_target(url: str, shown: str) -> Target:
    """The target that a url names. The option `pooler` is ours, all others are asyncpg's."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    pooler = options.pop("pooler", None)
    if pooler not in (None, "transaction", "session"):
        raise DefinitionError(f"url {shown!r}: pooler={pooler!r}; expected transaction or session")
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(options), ""))
    named = {} if "application_name" in options else {"application_name": "holdfast"}
    # Not added to the url, by which the lock files of one database are told from those of another.
    return Target(dsn, shown, pooler == "transaction", named)


async def connect(target: Target, lock_timeout: str = LOCK_TIMEOUT) -> asyncpg.Connection[Any]:
    """A connection with this store's settings."""
    connection: asyncpg.Connection[Any] | None = None
    try:
        connection = await asyncpg.connect(
            target.dsn,
            timeout=CONNECT_TIMEOUT,
            command_timeout=COMMAND_TIMEOUT,
            # Without sessions there are no prepared statements to come back to.
            statement_cache_size=0 if target.is_pooled else 256,
            server_settings=dict(target.server_settings),
        )
        keep_alive(connection)
        if connection.get_server_version() < (13,):
            raise StoreError(f"{target.shown}: Holdfast needs Postgres 13 or later")
        encoding = getattr(connection.get_settings(), "server_encoding", _ENCODINGS[0])
        if encoding not in _ENCODINGS:
            raise StoreError(
                f"{target.shown}: the database's encoding is {encoding}, which can't hold every text; name one that was"
                " made with ENCODING 'UTF8'"
            )
        if not target.is_pooled:
            await connection.execute(_SETTINGS.format(lock_timeout=lock_timeout))
        return connection
    except BaseException as error:
        if connection is not None:
            connection.terminate()
        told = explained(error, target)
        if told is error:
            raise
        raise told from error


def keep_alive(connection: asyncpg.Connection[Any]) -> None:
    """Have the system notice within half a minute that the other side is gone without a word."""
    transport = getattr(connection, "_transport", None)
    found = transport.get_extra_info("socket") if transport is not None else None
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, name):
            found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def sqlstate(error: BaseException) -> str:
    """Postgres's code of this error, or of the one that caused it; "" if there is none."""
    if isinstance(error, StoreError) and error.__cause__ is not None:
        error = error.__cause__
    return str(getattr(error, "sqlstate", None) or "")


def is_again(error: BaseException) -> bool:
    """Whether the same may be sent again: after a deadlock, a lock that was not free in time, or an outdated plan."""
    return sqlstate(error) in _AGAIN or isinstance(error, asyncpg.InvalidCachedStatementError)


def is_away(error: BaseException) -> bool:
    """Whether the database or the connection is the trouble, rather than the statement."""
    if isinstance(error, StoreError):
        return isinstance(error, StoreAway)
    if isinstance(error, asyncpg.ClientConfigurationError):
        # The driver does not understand the address: that does not change by itself.
        return False
    if isinstance(error, (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError, EOFError)):
        return True
    code = sqlstate(error)
    return code.startswith(_AWAY) or (code == _INTERNAL and getattr(error, "server_source_filename", None) in _FILES)


def is_held_up(error: BaseException) -> bool:
    """Whether a deed failed because another transaction holds what it needs."""
    return isinstance(error, StoreAway) and error.__cause__ is not None and is_again(error.__cause__)


def is_unfit(error: BaseException) -> bool:
    """Whether the schema or the role is the trouble: somebody is changing the database."""
    return sqlstate(error).startswith(_UNFIT)


def is_over(error: BaseException) -> bool:
    """Whether a connection must not be used after this error. After a change of the schema, what is known of it has to
    be learned anew by the next connection: see lanes."""
    return is_away(error) or is_unfit(error) or not isinstance(error, Exception)


def explained(error: BaseException, target: Target, *, was_open: bool = False) -> BaseException:
    """The error as a user should meet it.

    `was_open`: this database has worked before. If it refuses us now, or something in it is missing, somebody has
    changed it, for example a password. That is an outage like any other, which must neither end a worker nor stop a
    run.
    """
    told = _told(error, target)
    if was_open and sqlstate(error).startswith(_CHANGING) and not isinstance(told, StoreAway):
        return StoreAway(f"{told}. Workers go on by themselves when that is set right")
    return told


def _told(error: BaseException, target: Target) -> BaseException:
    if isinstance(error, StoreError):
        return error
    code = sqlstate(error)
    if code.startswith(_REFUSED):
        return StoreError(f"{target.shown}: {error}. Check the user, the password and the database's name")
    if code == "42501":
        return StoreError(
            f"{target.shown}: {error}. Grant the role what it needs (docs/postgres.md lists the grants), or let one"
            " that may change the schema run `holdfast migrate` once"
        )
    if code == _UNKNOWN or (code == _OF_POOLER[0] and _OF_POOLER[1] in str(error)):
        return StoreError(
            f"{target.shown}: {str(error).partition(chr(10))[0]}. An option behind the"
            " question mark must be one of asyncpg's or a setting of the server: leave this one out"
        )
    if code in _UNPREPARED:
        return StoreError(
            f"{target.shown}: {str(error).partition(chr(10))[0]}. It was prepared on another connection: a pooler in"
            " transaction mode is in between; say so with ?pooler=transaction behind the url"
        )
    if code == _TOO_LONG:
        # Without the server's hint, which is about indexes.
        return StoreError(
            f"{target.shown}: {str(error).partition(chr(10))[0]}. Ids, keys and names that are looked for together may"
            " take some 2,600 bytes; choose shorter ones"
        )
    if is_away(error):
        # With the server's hint, on one line.
        words = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
            words = "no server that answers there is one that target_session_attrs asks for"
        elif isinstance(error, asyncpg.InternalClientError):
            # The driver calls it an error of its own if the server ends the connection between two statements.
            words = "the server has ended the connection"
        elif isinstance(error, FileNotFoundError):
            # The driver does not say which.
            words += ": a server's socket, or a file with a certificate or a key"
        if code == _READ_ONLY:
            return StoreAway(
                f"{target.shown}: {words}. This server is a standby, or somebody has set the database or the role to"
                " read-only: name the primary; or ask again when it can be written, workers go on by themselves"
            )
        return StoreAway(f"{target.shown}: {words}. {_AGAIN_LATER}")
    if isinstance(error, (asyncpg.PostgresError, asyncpg.ClientConfigurationError)):
        return StoreError(f"{target.shown}: {error}")
    return error


def begin(target: Target, lock_timeout: str = LOCK_TIMEOUT) -> str:
    """The statement that begins a transaction. Without sessions it also sets what a session would have kept."""
    if not target.is_pooled:
        return "BEGIN"
    return f"BEGIN ISOLATION LEVEL READ COMMITTED; {_LOCAL_SETTINGS.format(lock_timeout=lock_timeout)}"


HASTE = f"SET LOCAL lock_timeout = '{HASTY_TIMEOUT}'"
