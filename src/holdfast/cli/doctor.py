"""doctor: what is wrong with a setup, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from holdfast.client import Client
from holdfast.model import counted

from .checks import (
    Check,
    State,
    check_codec,
    check_database,
    check_file,
    check_fleet,
    check_keys,
    check_machine,
    check_modules,
    check_settings,
)
from .exits import WRONG, WrongSettings
from .options import Json, Place, Targets
from .output import print_json, print_line, print_table

_SIGNS = {State.OK: "ok", State.NOTE: "note", State.MEND: "MEND"}


def doctor(
    targets: Targets = None,
    *,
    load: Annotated[
        bool, typer.Option("--modules/--no-modules", help="Whether to load the modules, which executes them.")
    ] = True,
    place: Place,
    as_json: Json = False,
) -> None:
    """Check Python, settings, database, modules, workers and runs, and say what to mend.

    Nothing is created or changed. The exit code is 1 if something must be mended.
    """
    checks = list(_checks(place, targets or (), load))
    broken = [one for one in checks if one.state is State.MEND]
    if as_json:
        told = [{"name": one.name, "state": one.state, "told": one.told, "advice": one.advice} for one in checks]
        print_json({"ok": not broken, "checks": told})
    else:
        print_table(["", "CHECK", "FOUND"], [[_SIGNS[one.state], one.name, _found(one)] for one in checks])
        print_line(f"\n{counted(len(broken), 'thing')} to mend" if broken else "\nall is well")
    if broken:
        raise typer.Exit(WRONG)


def _found(check: Check) -> str:
    told = " ".join(check.told.split("\n"))
    return told if check.advice is None else f"{told} → {check.advice}"


def _checks(place: Place, targets: Sequence[str], load: bool) -> Iterator[Check]:
    try:
        settings = place.settings()
    except WrongSettings as error:
        yield Check("settings", State.MEND, str(error))
        return
    yield from check_machine(settings)
    yield from check_settings(os.environ)
    yield from check_keys(settings)
    yield from check_file(settings.url)
    found, is_readable = check_database(settings)
    yield from found
    if load:
        yield from check_modules(settings, targets)
        yield from check_codec(settings)
    if is_readable:
        with Client(settings.url, namespace=settings.namespace, schema=settings.schema, migrate=False) as client:
            yield from check_fleet(client)
