"""Exit codes, and which error has which. Scripts may rely on them.

0    done; what was asked about is as it should be
1    refused, or what was asked about is wrong: a run that failed, a journal that diverged, a finding, a broken setup
2    wrong usage: an option, an argument or a setting that can't be one
3    the database can't be reached; the same command may work later
130  Ctrl-C
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import DefinitionError, HoldfastError, StoreAway

DONE = 0
WRONG = 1
USAGE = 2
AWAY = 3
INTERRUPTED = 130


class WrongSettings(HoldfastError):
    """A setting in a file or in the environment that can't be one."""


@contextmanager
def wrong_settings() -> Iterator[None]:
    """Inside, what a setting names and is not there is the setting's fault."""
    try:
        yield
    except DefinitionError as error:
        raise WrongSettings(str(error)) from error


def code_of(error: BaseException) -> int:
    """The exit code of a command that ended with this error."""
    if isinstance(error, StoreAway):
        return AWAY
    return USAGE if isinstance(error, WrongSettings) else WRONG
