"""The modules that the settings name: whether each can be loaded, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.discovery import Found, find_codec, survey
from holdfast.errors import DuplicateWorkflow, HoldfastError
from holdfast.settings import Settings, settings_folder

from .checks import Check, fine, mend


def check_modules(settings: Settings, targets: Sequence[str]) -> tuple[list[Check], Found]:
    """What was found; loading the modules executes them."""
    named = tuple(targets) or settings.workflows
    found, problems = survey(named, ignore=settings.ignore, directory=Path.cwd(), home=settings_folder())
    checks = list(_problems(problems))
    if found.workflows:
        names = ", ".join(sorted({one.name for one in found.workflows}))
        checks.append(fine("workflows", names))
    return checks, found


def check_codec(settings: Settings) -> Iterator[Check]:
    """The codec that the settings name, if they do; loading its module executes it."""
    if settings.codec is None:
        return
    try:
        find_codec(settings.codec, home=settings_folder())
    except HoldfastError as error:
        yield mend("codec", str(error))
    else:
        yield fine("codec", settings.codec)


def _problems(problems: Sequence[Exception]) -> Iterator[Check]:
    for problem in problems:
        name = "duplicate workflow" if isinstance(problem, DuplicateWorkflow) else "module"
        yield mend(name, str(problem))
