"""The modules that the settings name: whether they can be loaded, and what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.cli.output import loading
from holdfast.discovery import find_codec, survey
from holdfast.errors import DuplicateWorkflow, HoldfastError
from holdfast.settings import Settings, settings_folder

from .checks import Check, fine, mend


def check_modules(settings: Settings, targets: Sequence[str]) -> Iterator[Check]:
    """Load the modules, which executes them, and report problems and workflows."""
    named = tuple(targets) or settings.workflows
    with loading():
        found, problems = survey(named, ignore=settings.ignore, directory=Path.cwd(), home=settings_folder())
    for problem in problems:
        yield mend("duplicate workflow" if isinstance(problem, DuplicateWorkflow) else "module", str(problem))
    if found.workflows:
        yield fine("workflows", ", ".join(sorted({one.name for one in found.workflows})))


def check_codec(settings: Settings) -> Iterator[Check]:
    """Load the codec, if the settings name one. This executes its module."""
    if settings.codec is None:
        return
    try:
        with loading():
            find_codec(settings.codec, home=settings_folder())
    except HoldfastError as error:
        yield mend("codec", str(error))
    else:
        yield fine("codec", settings.codec)
