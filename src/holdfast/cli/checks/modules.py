"""The modules that the settings name: whether each can be loaded, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.discovery import find_codec, survey
from holdfast.errors import DuplicateWorkflow, HoldfastError
from holdfast.settings import Settings, settings_folder

from .checks import Check, fine, mend


def check_modules(settings: Settings, targets: Sequence[str]) -> Iterator[Check]:
    """What is in them, and what is wrong with them; loading them executes them."""
    named = tuple(targets) or settings.workflows
    found, problems = survey(named, ignore=settings.ignore, directory=Path.cwd(), home=settings_folder())
    for problem in problems:
        yield mend("duplicate workflow" if isinstance(problem, DuplicateWorkflow) else "module", str(problem))
    if found.workflows:
        yield fine("workflows", ", ".join(sorted({one.name for one in found.workflows})))


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
