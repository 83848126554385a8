"""Options that several commands share. An invalid value is wrong usage.

A group of options is a dataclass. A command with a parameter of such a type has all options of the group; `grouped`
tells Typer so.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from holdfast.client import Client
from holdfast.codec import Codec
from holdfast.discovery import find_codec
from holdfast.errors import DefinitionError, StoreAway
from holdfast.model import RunFilter, RunStatus, add_wanted, quoted
from holdfast.settings import Settings, checked, duration, resolve, settings_folder
from holdfast.store import check_address, parse_url

from .exits import WrongSettings, wrong_settings
from .output import loading

Url = Annotated[
    str | None,
    typer.Option("--url", help="The database's address; the default comes from the settings.", metavar="URL"),
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", help="The namespace; the default comes from the settings.", metavar="NAME")
]
Schema = Annotated[str | None, typer.Option("--schema", help="The schema of a Postgres database.", metavar="NAME")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")]
RunId = Annotated[str, typer.Argument(help="The run's id.", metavar="RUN_ID")]
RunIds = Annotated[list[str] | None, typer.Argument(help="Ids of runs.", metavar="RUN_ID", show_default=False)]
Targets = Annotated[
    list[str] | None,
    typer.Argument(
        help="Where the workflows are: module, module:attribute, a .py file or a folder. Else the setting "
        "`workflows`, else `workflows` in the working directory.",
        metavar="TARGET",
        show_default=False,
    ),
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="A tag; may be repeated.", metavar="NAME=VALUE")]
NOT_BOTH = "name runs, or say which by --workflow, --status and so on; not both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which database, and whose runs in it."""

    url: Url = None
    namespace: Namespace = None
    schema: Schema = None

    def settings(self, **more: Any) -> Settings:
        """The settings. Options on the command line come first."""
        return settings_of(url=self.url, namespace=self.namespace, schema=self.schema, **more)

    def client(self, *, may_create: bool = False) -> Client:
        """A client for the database that the options and settings name.

        Only commands that bring something into a SQLite file create it: for others a mistyped name would look like a
        database without runs.
        """
        settings = self.settings()
        codec = codec_of(settings)
        path = None if may_create else missing_file(settings.url)
        # If even the folder is missing, the store's own error is better: no command could create the file there.
        if path is not None and os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise StoreAway(
                f"there is no database {path}; correct the url, or create it by `holdfast migrate` or the first worker"
            )
        return Client(
            settings.url,
            namespace=settings.namespace,
            schema=settings.schema,
            codec=codec,
            migrate=settings.migrate,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which runs: all given options must hold."""

    workflow: Annotated[str | None, typer.Option("--workflow", help="Runs of this workflow.", metavar="NAME")] = None
    status: Annotated[
        list[str] | None, typer.Option("--status", help="Runs of this status; may be repeated.", metavar="STATUS")
    ] = None
    key: Annotated[str | None, typer.Option("--key", help="The run with this key.", metavar="KEY")] = None
    tag: Tags = None
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            help="The value of an argument, or with dots of a field inside it; may be repeated.",
            metavar="NAME=JSON",
        ),
    ] = None
    since: Annotated[str | None, typer.Option("--since", help="Created since: a time, or '1h' for an hour ago.")] = None
    until: Annotated[str | None, typer.Option("--until", help="Created before: a time, or '1h' for an hour ago.")] = (
        None
    )
    parent: Annotated[str | None, typer.Option("--parent", help="Children of this run.", metavar="RUN_ID")] = None

    @property
    def is_given(self) -> bool:
        """Whether any option narrows the choice."""
        return any(getattr(self, one.name) for one in dataclasses.fields(Chosen))

    def filter(self, statuses: Sequence[RunStatus] = ()) -> RunFilter:
        """The filter that the options make. `statuses` apply if none is named."""
        with wrong_usage():
            return RunFilter(
                workflow=self.workflow,
                status=_statuses(self.status) or tuple(statuses) or None,
                key=self.key,
                tags=tags_of(self.tag),
                input=_wanted(self.where),
                since=moment_given(self.since, "--since"),
                until=moment_given(self.until, "--until"),
                parent=self.parent,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant(Chosen):
    """Which runs to act on: the named ones, or all that the filter selects."""

    run_ids: RunIds = None
    every: Annotated[bool, typer.Option("--all", help="All runs, without a filter.")] = False
    yes: Yes = False

    def which(self, statuses: Sequence[RunStatus]) -> RunFilter | None:
        """The filter, by default for these statuses; None if runs were named."""
        if self.run_ids:
            if self.is_given or self.every:
                raise typer.BadParameter(NOT_BOTH)
            return None
        if not self.is_given and not self.every:
            raise typer.BadParameter(
                "which runs? Name them, narrow them by --workflow, --status and so on, or say --all"
            )
        found = self.filter(statuses)
        # The command does nothing to runs of other statuses, so it must not count them and ask about them.
        beside = [one for one in found.status or () if one not in statuses]
        if beside:
            told = f"nothing is done to runs that are {', '.join(beside)}; it is for those that are"
            raise typer.BadParameter(f"{told} {', '.join(statuses)}", param_hint="--status")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The payload and id of a message to send."""

    payload: Annotated[
        str | None, typer.Option("--payload", help="The payload, as JSON; '-' reads it from stdin.", metavar="JSON")
    ] = None
    message_id: Annotated[
        str | None,
        typer.Option(
            "--message-id", help="A message with the same id is delivered once.", metavar="ID", show_default=False
        ),
    ] = None

    def value(self) -> Any:
        """The payload, parsed."""
        return json_given(self.payload, "--payload")


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each group replaced by its options."""
    hints = get_type_hints(command, include_extras=True)
    given = inspect.signature(command).parameters
    groups = {name: hints[name] for name in given if dataclasses.is_dataclass(hints[name])}
    parameters = []
    for name, parameter in given.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        fields = get_type_hints(groups[name], include_extras=True)
        parameters += [
            inspect.Parameter(
                one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=fields[one.name]
            )
            for one in dataclasses.fields(groups[name])
        ]

    @wraps(command)
    def wrapped(**options: Any) -> None:
        for name, group in groups.items():
            options[name] = group(**{one.name: options.pop(one.name) for one in dataclasses.fields(group)})
        command(**options)

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect.signature
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapped


def settings_of(**given: Any) -> Settings:
    """The settings. `given` comes from the command line and has precedence."""
    try:
        found = checked(given, lambda key: f"--{key.replace('_', '-')}")
        if "url" in found:
            check_address(found["url"])
    except DefinitionError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        settings = resolve(**given)
        check_address(settings.url, settings.schema)
        return settings
    except DefinitionError as error:
        raise WrongSettings(str(error)) from error


@contextmanager
def wrong_usage() -> Iterator[None]:
    """Within this block, a DefinitionError is about what was written on the command line."""
    try:
        yield
    except DefinitionError as error:
        raise typer.BadParameter(str(error)) from None


def missing_file(url: str) -> str | None:
    """The SQLite file that the url names, if it does not exist."""
    scheme, path = parse_url(url)
    if scheme != "sqlite" or path == ":memory:":
        return None
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return path
    except OSError:
        # It may exist: opening it will say what is in the way.
        pass
    return None


def codec_of(settings: Settings) -> Codec | None:
    """The codec that the settings name, if any."""
    if settings.codec is None:
        return None
    with wrong_settings(), loading():
        return find_codec(settings.codec, home=settings_folder())


def tags_of(given: Sequence[str] | None) -> dict[str, str]:
    """`--tag customer=42 --tag kind=gift` as a mapping."""
    return dict(_pairs(given, "--tag"))


def json_given(given: str | None, option: str) -> Any:
    """A value given as JSON, or on stdin."""
    if given is None:
        return None
    if given == "-" and sys.stdin is None:
        # Python sets sys.stdin to None if the shell has closed it.
        raise typer.BadParameter("stdin is closed; pipe the JSON into it, or give it in place of -", param_hint=option)
    try:
        return _read(sys.stdin.read() if given == "-" else given)
    except ValueError as error:
        raise typer.BadParameter(
            f"it is no JSON: {error}; text needs quotes of its own, as in {option} '\"text\"'", param_hint=option
        ) from None


def moment_given(given: str | None, option: str) -> datetime | None:
    """A moment: given as a time, or as a duration before now."""
    if given is None:
        return None
    try:
        at = datetime.fromisoformat(given)
        at = at if at.tzinfo is not None else at.astimezone()
        at.astimezone(UTC)
        return at
    except (ValueError, OverflowError):
        # Or a time at either end of the calendar that does not exist in UTC.
        pass
    return datetime.now(UTC) - timedelta(microseconds=duration_given(given, option, or_time=True))


def duration_given(given: str, option: str, *, or_time: bool = False) -> int:
    """A duration, in microseconds."""
    try:
        return duration(given)
    except DefinitionError:
        how_long = "as 1h30m, or seconds, and no more than a thousand years"
        expected = f"a time, as 2026-01-31T12:00, or how long ago, {how_long}" if or_time else f"a duration, {how_long}"
        raise typer.BadParameter(f"{given!r}: expected {expected}", param_hint=option) from None


def pause_given(given: str, option: str) -> float:
    """How long to wait between two looks, in seconds. Zero is refused: each look asks the database."""
    pause = duration_given(given, option) / 1_000_000
    if not pause:
        raise typer.BadParameter("expected more than nothing: the database is asked each time", param_hint=option)
    return pause


def span_given(given: str | None, option: str) -> timedelta | None:
    """An optional duration."""
    return None if given is None else timedelta(microseconds=duration_given(given, option))


def _statuses(given: Sequence[str] | None) -> tuple[RunStatus, ...]:
    known = ", ".join(RunStatus)
    found = []
    for one in given or ():
        try:
            found.append(RunStatus(one))
        except ValueError:
            raise typer.BadParameter(f"{one!r} is no status; known: {known}", param_hint="--status") from None
    return tuple(found)


def _pairs(given: Sequence[str] | None, option: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for one in given or ():
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{one!r}: expected NAME=VALUE", param_hint=option)
        if name in dict(found):
            raise typer.BadParameter(f"{name!r} is given twice; expected one value", param_hint=option)
        found.append((name, value))
    return found


def _wanted(given: Sequence[str] | None) -> dict[str, Any]:
    """`--where order.card=4711` as {"order": {"card": 4711}}."""
    wanted: dict[str, Any] = {}
    for name, text in _pairs(given, "--where"):
        try:
            add_wanted(wanted, name, _plain(text))
        except ValueError as error:
            raise typer.BadParameter(f"{quoted(name)}: {error}", param_hint="--where") from None
    return wanted


def _plain(text: str) -> Any:
    """The value as JSON if it is valid JSON, else as text, so that a word needs no second pair of quotes."""
    try:
        return _read(text)
    except ValueError:
        return text


def _read(text: str) -> Any:
    """Parse JSON. Raises ValueError, whatever the reason."""
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_number)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def _number(text: str) -> float:
    """A finite number: Python would read 1e400 as infinity."""
    return float(text) if math.isfinite(float(text)) else _no_number(text)


def _no_number(text: str) -> Any:
    """Refuse NaN and Infinity: Python reads them, but JSON has none, so a run would get null instead."""
    raise ValueError(f"{text} is no number in JSON")
