"""Settings, resolved in one place for clients, workers, `holdfast.run` and the command.

A setting comes from the first of these that has it: the argument; the environment variable `HOLDFAST_<NAME>`; the
nearest settings file upward from the working directory; the default. A settings file is a `holdfast.toml` (keys at the
top level) or a `pyproject.toml` with a table `[tool.holdfast]`. A wrong value is refused here, with its origin named.
Nothing is read before `resolve` is called.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.durations import EXPECTED, read_duration
from holdfast.errors import DefinitionError
from holdfast.model import SECOND, is_text, microseconds

_SQLITE = "sqlite:///"
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s]+")
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_SECRET = frozenset({"url", "api_keys"})
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The resolved settings. None for a worker's setting means the worker's own default."""

    url: str = "sqlite:///holdfast.db"
    namespace: str = "default"
    schema: str | None = None
    """The schema of the Postgres database that holds the tables."""
    max_payload: int | None = None
    """The largest encoding of one value, in bytes. None: the codec's own limit."""
    max_retention: int | None = None
    """The longest time that a run is kept after its end, whatever it asks for, in microseconds. None: no limit."""
    event_retention: int | None = None
    """How long workers keep published events, in microseconds. None: a week."""
    migrate: bool = True
    """Whether opening a store may bring its schema up to date."""
    queues: tuple[str, ...] | None = None
    concurrency: int | None = None
    threads: int | None = None
    lease: int | None = None
    """Microseconds."""
    grace: int | None = None
    """Microseconds."""
    processes: int = 1
    """How many worker processes `holdfast worker` runs."""
    workflows: tuple[str, ...] | None = None
    """Where the command finds workflows: modules, files and folders. None: `workflows` in the working directory."""
    ignore: tuple[str, ...] = ("tests", "test_*.py", "conftest.py")
    """Names of files and folders in which the command doesn't look for workflows."""
    codec: str | None = None
    """The codec of the command and of the workers that it starts, as module:attribute."""
    metrics: tuple[str, int] | None = None
    """The host and port at which a worker serves its metrics for Prometheus."""
    tracing: bool = False
    """Whether workers and clients take part in OpenTelemetry's traces."""
    listen: tuple[str, int] = ("127.0.0.1", 8400)
    """The host and port of `holdfast serve` and `holdfast dev`."""
    api_keys: tuple[str, ...] = ()
    """Keys of the REST API in their stored form, never the keys themselves. `holdfast keys` makes one."""
    allow_remote: bool = False
    """Whether the REST API answers other hosts without keys, because something else guards it."""
    cors: tuple[str, ...] = ()
    """Origins whose pages may call the REST API."""


def resolve(
    *, environ: Mapping[str, str] | None = None, directory: str | os.PathLike[str] | None = None, **given: Any
) -> Settings:
    """The settings, each from the first place that has it. An argument of None counts as not given.

    `environ` and `directory` replace the process's own environment and working directory.
    """
    found = checked(given, lambda key: f"{key}=")
    found = {**_from_environment(os.environ if environ is None else environ), **found}
    if len(found) < len(_CHECKS):
        found = {**_from_file(Path.cwd() if directory is None else Path(directory)), **found}
    return Settings(**found)


def checked(given: Mapping[str, Any], place: Callable[[str], str]) -> dict[str, Any]:
    """The settings in `given` that are not None, checked and converted. `place(key)` says in errors where a key is."""
    found = {}
    for key, value in given.items():
        if key not in _CHECKS:
            raise DefinitionError(f"{place(key)} is not a setting{_suggestion(key)}; known: {', '.join(_CHECKS)}")
        if value is None:
            continue
        try:
            found[key] = _CHECKS[key](value)
        except ValueError as error:
            # The values of `url` and `api_keys` are never shown: there may be a secret in them.
            shown = "" if key in _SECRET else repr(value)
            named = place(key)
            gap = " " if shown and not named.endswith("=") else ""
            raise DefinitionError(f"{named}{gap}{shown}: {error}") from None
    return found


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    # Unknown HOLDFAST_* variables may belong to other programs. An empty one counts as unset, as in some shells.
    given = {key: environ.get(f"HOLDFAST_{key.upper()}") or None for key in _CHECKS}
    return checked(given, lambda key: f"the environment variable HOLDFAST_{key.upper()}")


def settings_file(directory: str | os.PathLike[str] | None = None) -> Path | None:
    """The nearest settings file, from `directory` (by default the working directory) upward."""
    found = _nearest(Path.cwd() if directory is None else Path(directory))
    return None if found is None else found[0]


def settings_folder() -> Path | None:
    """The folder of the settings file, which is the project's: its modules are found from there."""
    file = settings_file()
    return None if file is None else file.parent


def _from_file(directory: Path) -> dict[str, Any]:
    found = _nearest(directory)
    return {} if found is None else _from_table(found[1], found[0], found[2])


def _nearest(directory: Path) -> tuple[Path, Any, str] | None:
    """The nearest settings file, its table of settings, and the prefix of a key in that table, for errors."""
    directory = directory.absolute()
    for place in (directory, *directory.parents):
        own, shared = place / "holdfast.toml", place / "pyproject.toml"
        # os.path, not Path: a directory that can't be read is skipped. A folder or a broken link of that name is taken
        # too, so that it becomes an error.
        if os.path.isfile(own) or os.path.isdir(own) or os.path.islink(own):
            return own, _parsed(own), ""
        if os.path.isfile(shared):
            tool = _parsed(shared).get("tool")
            if isinstance(tool, dict) and "holdfast" in tool:
                return shared, tool["holdfast"], "tool.holdfast."
    return None


def _parsed(file: Path) -> dict[str, Any]:
    try:
        # utf-8-sig: editors on Windows may write a byte order mark, which TOML does not allow.
        return tomllib.loads(file.read_text("utf-8-sig"))
    except IsADirectoryError:
        raise DefinitionError(f"{file} is a folder; expected a file with settings: rename it, or write one") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DefinitionError(f"{file} can't be read: {error}; correct it, or give the settings elsewhere") from error


def _from_table(table: Any, file: Path, prefix: str) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise DefinitionError(f"{file}: {prefix.rstrip('.')}: expected a table of settings")
    found = checked(table, lambda key: f"{file}: {prefix}{key}")
    if "url" in found:
        found["url"] = _anchored(found["url"], file.parent)
    if "workflows" in found:
        found["workflows"] = tuple(_anchored_target(target, file.parent) for target in found["workflows"])
    return found


def _anchored(url: str, directory: Path) -> str:
    """The url with a relative SQLite path made absolute from the settings file's directory.

    Relative to the working directory, each of these would have a database of its own.
    """
    path = url.removeprefix(_SQLITE)
    if path == url or not path or path.startswith((":memory:", "/", "file:")) or Path(path).is_absolute():
        return url
    # Only the directory is quoted, as it may have a "%" or a "#" in its name. The path is part of a url already.
    return f"{_SQLITE}{quote(str(directory.absolute()))}/{path}"


def _anchored_target(target: str, directory: Path) -> str:
    """A target with a relative path made absolute from the settings file's directory; a module's name as it is."""
    is_path = "/" in target or os.sep in target or target.startswith(".") or target.endswith(".py")
    return str(directory.absolute() / target) if is_path else target


def _suggestion(key: str) -> str:
    close = get_close_matches(key, _CHECKS, n=1, cutoff=0.65)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _url(value: Any) -> str:
    if not isinstance(value, str) or "://" not in value:
        raise ValueError("expected the address of a database, such as sqlite:///orders.db")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 200 or "\0" in value:
        raise ValueError("expected text of 1 to 200 characters")
    return value


def _name(value: Any) -> str:
    """Text that the database can hold. A variable of the environment may hold bytes that are no UTF-8."""
    if not is_text(value):
        raise ValueError("expected text without a NUL or a lone surrogate")
    return _text(value)


def _schema(value: Any) -> str:
    """A schema name that Postgres takes without quotes. Names that begin with pg_ are its own."""
    if not isinstance(value, str) or _SCHEMA.fullmatch(value) is None:
        raise ValueError("expected lower-case letters, digits and underscores, at most 63, no pg_ in front")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    texts = tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not texts:
        raise ValueError("expected names, as a list or with commas between them")
    return tuple(_text(text) for text in texts)


def _count(value: Any) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("expected a whole number from 1")
    return value


def _address(value: Any) -> tuple[str, int]:
    host, _, port = str(value).strip().rpartition(":")
    if isinstance(value, bool) or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("expected a port, such as 9464, or a host and a port, such as 0.0.0.0:9464")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        # Of ::1 nobody can tell where the host ends.
        raise ValueError("expected an IPv6 address in brackets, with a port, such as [::1]:9464")
    return host.strip("[]") or "127.0.0.1", int(port)


def _switch(value: Any) -> bool:
    if isinstance(value, str):
        value = _WORDS.get(value.strip().lower(), value)
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def duration(value: Any) -> int:
    """A duration as written in files, variables and options (`"1h30m"` or seconds), in microseconds.

    Raises BadDuration.
    """
    return microseconds(_as_number(value))


def _duration(value: Any) -> int:
    try:
        return read_duration(_as_number(value))
    except ValueError as refused:
        raise ValueError(f"it {refused}; {EXPECTED}") from None


def _as_number(value: Any) -> Any:
    """Text that holds a number as that number: variables and options give seconds as text."""
    return float(value) if isinstance(value, str) and value.strip().replace(".", "", 1).isdecimal() else value


def _lease(value: Any) -> int:
    lease = _duration(value)
    if lease < SECOND:
        raise ValueError("expected a second or more")
    return lease


def _origins(value: Any) -> tuple[str, ...]:
    origins = _texts(value)
    # Origins are compared as text with what browsers send: one with a path or without a scheme would never match.
    if not all(origin == "*" or _ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError("expected origins as browsers send them, such as https://app.example.com, or *")
    return origins


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "url": _url,
    "namespace": _name,
    "schema": _schema,
    "max_payload": _count,
    "max_retention": _duration,
    "event_retention": _duration,
    "migrate": _switch,
    "queues": _texts,
    "concurrency": _count,
    "threads": _count,
    "lease": _lease,
    "grace": _duration,
    "processes": _count,
    "workflows": _texts,
    "ignore": _texts,
    "codec": _text,
    "metrics": _address,
    "tracing": _switch,
    "listen": _address,
    "api_keys": _texts,
    "allow_remote": _switch,
    "cors": _origins,
}
