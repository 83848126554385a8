"""The Python files below a folder, for those who load them and those who only read them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from holdfast.errors import DefinitionError


def python_files(folder: Path, is_left_out: Callable[[Path], bool], above: tuple[str, ...] = ()) -> Iterator[Path]:
    """The files in a folder and below it, in a fixed order. A link to a folder above is not followed."""
    here = os.path.realpath(folder)
    if here in above:
        return
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise DefinitionError(
            f"the folder {folder} can't be read: {error.strerror or error}; let this user read it, or leave it out "
            "with the setting `ignore`"
        ) from error
    for path in paths:
        if is_left_out(path):
            continue
        if path.is_dir():
            yield from python_files(path, is_left_out, (*above, here))
        elif path.suffix == ".py":
            yield path


def is_ignored(path: Path, ignore: Sequence[str]) -> bool:
    """Whether a file or folder is hidden, holds compiled code, or matches one of the patterns."""
    if path.name.startswith((".", "__pycache__")):
        return True
    return any(fnmatch(path.name, pattern) or fnmatch(path.as_posix(), pattern) for pattern in ignore)
