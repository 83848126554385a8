"""init: create a project."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from holdfast.errors import DefinitionError, HoldfastError
from holdfast.settings import settings_file

from .options import Json
from .output import print_json, print_line, reason_of, writing
from .scaffold import FILES


def init(
    folder: Annotated[
        Path, typer.Argument(help="The project's folder; it is created if necessary.", metavar="FOLDER")
    ] = Path("."),
    *,
    as_json: Json = False,
) -> None:
    """Write a small project that runs: settings, a workflow, a test and a README. No file is ever overwritten."""
    if folder.exists() and not folder.is_dir():
        raise DefinitionError(f"{folder} is a file; name a folder, or leave it out for this one")
    has_settings = settings_file(folder) == folder.absolute() / "pyproject.toml"
    written, kept = [], []
    for name, text in FILES.items():
        path = folder / name
        # A holdfast.toml would hide the settings in pyproject.toml.
        if path.exists() or (name == "holdfast.toml" and has_settings):
            kept.append(name)
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HoldfastError(
                f"the folder {path.parent} can't be made: {reason_of(error)}; mend that, or name another one"
            ) from error
        # "x": a file that somebody makes at this very moment is kept.
        with writing(path), path.open("x", encoding="utf-8") as file:
            file.write(text)
        written.append(name)
    if as_json:
        print_json({"folder": str(folder), "written": written, "kept": kept})
        return
    for name in written:
        print_line(f"wrote {folder / name}")
    for name in kept:
        print_line(f"kept  {folder / name}")
    enter = "" if folder == Path(".") else f"cd {shlex.quote(str(folder))} && "
    print_line(f"\nnow: {enter}holdfast dev\nthen, elsewhere: {enter}holdfast start order --input '[\"4242\"]'")
