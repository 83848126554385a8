"""Exit codes, and which error has which. Scripts may rely on them.

0    done, and all is as it should be
1    refused; or what was asked about is wrong: a failed run, a diverged journal, a finding, a broken setup
2    wrong usage: an invalid option, argument or setting
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
    """A setting in a file or in the environment is invalid."""


@contextmanager
def wrong_settings() -> Iterator[None]:
    """Within this block, a DefinitionError means that a setting is wrong."""
    try:
        yield
    except DefinitionError as error:
        raise WrongSettings(str(error)) from error


def code_of(error: BaseException) -> int:
    """The exit code of a command that failed with this error."""
    if isinstance(error, StoreAway):
        return AWAY
    return USAGE if isinstance(error, WrongSettings) else WRONG
