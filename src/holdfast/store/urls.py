"""Database urls: which store a url names, and how to show it without its password."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from holdfast.errors import DefinitionError
from holdfast.extras import load_extra
from holdfast.model import is_text
from holdfast.settings import Settings

from .contract import Store
from .sqlite import MEMORY, SqliteStore
from .sqlite import migration_sql as sqlite_sql

_EXPECTED = (
    "expected sqlite:///relative.db, sqlite:////absolute/path.db, sqlite:///:memory: or postgresql://user@host/database"
)
_QUOTED = "in a password write %40 for @, %2F for /, %3F for ?, %23 for #, %5B for [ and %5D for ]"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
# Up to the last @: an unquoted password with a slash in it is wrong, and must not be shown all the same.
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):.*(?=@)", re.DOTALL)
_PASSWORD_OPTION = re.compile(r"(?i)([?&](?:password|sslpassword)=)[^&]*")
_HOST = re.compile(r"(?:\[[^\[\]]+\]|[^:\[\]]*)(?::(\d{1,5}))?")
DEFAULT_SCHEMA = "holdfast"


class StoreUrl(NamedTuple):
    """What a url says: the kind of database, and where it is."""

    scheme: str
    path: str


def redact_url(url: str) -> str:
    """The url without its password, fit for messages and logs."""
    return _PASSWORD_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***", url))


def parse_url(url: str) -> StoreUrl:
    """The parts of a url. Raises DefinitionError, which never shows a password, for a url that names no store."""
    shown = redact_url(url)
    found = _SCHEME.fullmatch(url)
    if found is None:
        raise DefinitionError(f"url {shown!r} has no scheme; {_EXPECTED}")
    scheme, rest = found[1].lower(), found[2]
    if scheme in ("postgresql", "postgres"):
        _check_server(url, rest, shown)
        return StoreUrl("postgresql", rest)
    if scheme != "sqlite":
        raise DefinitionError(f"url {shown!r}: there is no store for {scheme}://; {_EXPECTED}")
    if not rest.startswith("/") or rest == "/" or rest.endswith("/"):
        raise DefinitionError(f"url {shown!r} names no file; {_EXPECTED}")
    if "?" in rest or "#" in rest:
        raise DefinitionError(
            f"url {shown!r}: options are not understood here; in a file's name write %3F for ? and %23 for #;"
            f" {_EXPECTED}"
        )
    path = unquote(rest[1:])
    if not is_text(path):
        raise DefinitionError(f"url {shown!r}: a file's name can't have a NUL or a lone surrogate; {_EXPECTED}")
    return StoreUrl("sqlite", path)


def _check_server(url: str, rest: str, shown: str) -> None:
    """Refuse a url that names no server before the driver sees it: the driver might take a part of a password for the
    name of a host, and show it."""
    place = re.split("[/?#]", rest, maxsplit=1)[0]
    who, _, hosts = place.rpartition("@")
    # Several hosts have commas between them.
    found = [_HOST.fullmatch(host) for host in hosts.split(",")]
    is_wrong = any(one is None or int(one[1] or 0) > 65535 for one in found)
    if any(mark in who for mark in "@[]") or (is_wrong and "@" in rest[len(place) :]):
        raise DefinitionError(f"url {shown!r} has a user or a password that is not quoted; {_QUOTED}; {_EXPECTED}")
    try:
        urlsplit(url)
    except ValueError:
        is_wrong = True
    if is_wrong:
        raise DefinitionError(f"url {shown!r} has a host or a port that can't be one; {_EXPECTED}")


def check_address(url: str, schema: str | None = None) -> StoreUrl:
    """The parts of a url, if it and the schema go together. Reads nothing from the database."""
    found = parse_url(url)
    if schema is not None and found.scheme == "sqlite":
        raise DefinitionError(f"schema {schema!r}: a SQLite file has no schemas; name another file or use namespace=")
    return found


def open_store(
    url: str,
    *,
    namespace: str = "default",
    schema: str | None = None,
    migrate: bool = True,
    max_retention: int | None = None,
    folder: str | None = None,
) -> Store:
    """The store that the url names, not yet open: nothing is read or written before `await store.open()`.

    `schema` is for databases that have schemas; SQLite has none, so it must be left out. Without `migrate`, opening a
    database whose schema is not this version's raises StoreError instead of changing it. A run that ends through this
    store is kept for `max_retention` microseconds at most, whatever it asks for. A relative path is meant from
    `folder`, else from where the process is.
    """
    found = check_address(url, schema)
    if not namespace:
        raise DefinitionError("the namespace is empty text; leave it out or give it a name")
    if found.scheme == "postgresql":
        room = _postgres()
        store: Store = room.PostgresStore(
            url,
            redact_url(url),
            namespace,
            DEFAULT_SCHEMA if schema is None else schema,
            migrate=migrate,
            max_retention=max_retention,
        )
        return store
    path = found.path if folder is None or found.path == MEMORY else os.path.join(folder, found.path)
    return SqliteStore(path, redact_url(url), namespace, migrate=migrate, max_retention=max_retention)


def store_for(settings: Settings, *, folder: str | None = None) -> Store:
    """The store that settings name, not yet open: clients and workers get theirs here."""
    return open_store(
        settings.url,
        namespace=settings.namespace,
        schema=settings.schema,
        migrate=settings.migrate,
        max_retention=settings.max_retention,
        folder=folder,
    )


def migration_sql(url: str, *, schema: str | None = None, after: int = 0) -> str:
    """The SQL that migrates a database of that kind, as text to read or to run by hand.

    `after` is the number of the schema that the database has; 0 means that it is empty. Raises StoreTooNew.
    """
    if parse_url(url).scheme == "postgresql":
        text: str = _postgres().migration_sql(DEFAULT_SCHEMA if schema is None else schema, after=after)
        return text
    return sqlite_sql(after=after)


def _postgres() -> Any:
    load_extra("asyncpg", extra="postgres", needed_by="a postgresql:// url")
    return load_extra("holdfast.store.postgres", extra="postgres", needed_by="a postgresql:// url")
