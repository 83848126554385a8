"""Connections to one Postgres database: opening, their settings, and what an error means.

Errors of the server or of the way to it become StoreAway: nothing was changed, or nobody can tell, and every write may
be sent again. Nothing here shows a password.
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
# To plan a claim takes longer than to execute it, and no value that is asked for makes another plan a better one.
# Walks are made to look dear: among few rows they look cheap, and then there are many. Later statements look for what
# was committed since the earlier ones, whatever the database's own default is.
_SETTINGS = """
    SET default_transaction_isolation = 'read committed';
    SET lock_timeout = '{lock_timeout}'; SET idle_in_transaction_session_timeout = '60s'; SET jit = off;
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
    SET synchronous_commit = on; SET plan_cache_mode = force_generic_plan
"""
_LOCAL_SETTINGS = _SETTINGS.replace("SET ", "SET LOCAL ")
# Connection trouble, resources (disk full, memory, too many connections), somebody who stops the server or the
# statement, a transaction that was ended for its length, a server that is read-only, its files.
_AWAY = ("08", "53", "57", "25P", "25006", "58")
# Where the server's code meets its files. It has a code for a full disk, and none for a full quota or a file that may
# grow no more: those are internal errors, of these sources.
_INTERNAL = "XX000"
_FILES = {"md.c", "fd.c", "buffile.c", "xlog.c"}
# What is to be found by an index does not fit into it.
_TOO_LONG = "54000"
_AGAIN = ("40001", "40P01", "55P03")
# No such user, password or database; no such schema, table or column, or no right to it.
_REFUSED = ("28", "3D000")
_UNFIT = ("42", "3F")
_READ_ONLY = "25006"
_AGAIN_LATER = "Ask again when the database can be reached; workers go on by themselves then"
# A prepared statement that is not there, or there already.
_UNPREPARED = ("26000", "42P05")
# The second takes every byte as it comes.
_ENCODINGS = ("UTF8", "SQL_ASCII")
# A setting that the server does not know. PgBouncer has one code for all that it says.
_UNKNOWN = "42704"
_OF_POOLER = ("08P01", "unsupported startup parameter")
# What somebody is changing about a database that was worked with before: who may log in, the database itself, whether
# it takes connections, its schema, rights to it, what its server or the pooler before it lets be set.
_CHANGING = ("28", "3D000", "55000", "3F000", "42501", "42P01", "42703", _UNKNOWN, _OF_POOLER[0])


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect, and how."""

    dsn: str
    shown: str
    """The url without its password."""
    is_pooled: bool
    """Through a pooler that gives each transaction another connection: no session may be relied on."""
    server_settings: Mapping[str, str] = field(default_factory=dict)
    """What a connection begins with: a name by which to find it in pg_stat_activity, if the url has none."""


def parse_target(url: str, shown: str) -> Target:
    """What a url says. `?pooler=transaction` is ours, the rest is asyncpg's."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    pooler = options.pop("pooler", None)
    if pooler not in (None, "transaction", "session"):
        raise DefinitionError(f"url {shown!r}: pooler={pooler!r}; expected transaction or session")
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(options), ""))
    named = {} if "application_name" in options else {"application_name": "holdfast"}
    # Not by the url, which tells one database's locks from another's.
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
    """Notice within half a minute that the other side is gone without a word."""
    transport = getattr(connection, "_transport", None)
    found = transport.get_extra_info("socket") if transport is not None else None
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, name):
            found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def sqlstate(error: BaseException) -> str:
    """Postgres's code of the error, or of the one that it was made from, or nothing."""
    if isinstance(error, StoreError) and error.__cause__ is not None:
        error = error.__cause__
    return str(getattr(error, "sqlstate", None) or "")


def is_again(error: BaseException) -> bool:
    """Whether the server asks for the same once more: a deadlock, a lock that was not free in time, an old plan."""
    return sqlstate(error) in _AGAIN or isinstance(error, asyncpg.InvalidCachedStatementError)


def is_away(error: BaseException) -> bool:
    """Whether the database or the way to it is the trouble, not what it was asked."""
    if isinstance(error, StoreError):
        return isinstance(error, StoreAway)
    if isinstance(error, asyncpg.ClientConfigurationError):
        # The driver can't make anything of the address: that is wrong today and tomorrow.
        return False
    if isinstance(error, (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError, EOFError)):
        return True
    code = sqlstate(error)
    return code.startswith(_AWAY) or (code == _INTERNAL and getattr(error, "server_source_filename", None) in _FILES)


def is_held_up(error: BaseException) -> bool:
    """Whether a deed came to nothing because another transaction holds what it needs."""
    return isinstance(error, StoreAway) and error.__cause__ is not None and is_again(error.__cause__)


def is_unfit(error: BaseException) -> bool:
    """Whether the schema or the role is the trouble: somebody is changing the database."""
    return sqlstate(error).startswith(_UNFIT)


def is_over(error: BaseException) -> bool:
    """Whether a connection is not to be used after this. What was learned of a schema may be so no more: see lanes."""
    return is_away(error) or is_unfit(error) or not isinstance(error, Exception)


def explained(error: BaseException, target: Target, *, was_open: bool = False) -> BaseException:
    """The error as a user should meet it.

    `was_open`: this database was worked with before. What it lets nobody in for, or lacks, is then somebody's change to
    it, such as of a password: an outage like any other, which must neither end a worker nor stop a run.
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
            f"{target.shown}: {str(error).partition(chr(10))[0]}. What stands behind the question mark is asyncpg's,"
            " and what that does not know goes to the server as a setting: leave out what is neither"
        )
    if code in _UNPREPARED:
        return StoreError(
            f"{target.shown}: {str(error).partition(chr(10))[0]}. It was prepared on another connection: a pooler in"
            " transaction mode is in between; say so with ?pooler=transaction behind the url"
        )
    if code == _TOO_LONG:
        # Without the server's hint, which is for whoever makes indexes.
        return StoreError(
            f"{target.shown}: {str(error).partition(chr(10))[0]}. Ids, keys and names that are looked for together may"
            " take some 2,600 bytes; choose shorter ones"
        )
    if is_away(error):
        # With the server's hint, in one line.
        words = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
            words = "no server that answers there is one that target_session_attrs asks for"
        elif isinstance(error, asyncpg.InternalClientError):
            # What the driver says of itself when the server's farewell comes between two statements.
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
    """What begins a transaction. Without sessions it brings the settings along."""
    if not target.is_pooled:
        return "BEGIN"
    return f"BEGIN ISOLATION LEVEL READ COMMITTED; {_LOCAL_SETTINGS.format(lock_timeout=lock_timeout)}"


HASTE = f"SET LOCAL lock_timeout = '{HASTY_TIMEOUT}'"
