"""Tells whoever waits for a run that it is stopped by something that only people can change."""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections.abc import Callable, Iterator

from holdfast.client import Client, Explanation, Reason
from holdfast.errors import HoldfastError

from .output import print_note

LOOK = 5.0
"""Seconds between two questions why the run has not ended."""
_JOIN = 1.0
_STOPPED = frozenset({Reason.NO_WORKER, Reason.BLOCKED, Reason.PAUSED})


class Notes:
    """What was last told about the awaited run."""

    def __init__(self) -> None:
        self._reason: Reason | None = None

    def news(self, found: Explanation) -> str | None:
        """What to tell now. None if the run moves, waits for something that may come, or is stopped as before."""
        before, self._reason = self._reason, found.reason
        if found.reason not in _STOPPED or found.reason is before:
            return None
        first = found.text.partition("\n")[0].rstrip(".")
        return f"holdfast: still waiting: {first}; `holdfast why {shlex.quote(found.run_id)}` says more"


@contextlib.contextmanager
def explaining(client: Client, run_id: str) -> Iterator[None]:
    """Within this block, a note on stderr says what has stopped the run, and again when that changes."""
    over = threading.Event()
    looking = threading.Thread(target=_look, args=(client.explain, run_id, over), name="holdfast-why", daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        # The thread may be asking a database that does not answer: don't wait for that.
        looking.join(_JOIN)


def _look(explain: Callable[[str], Explanation], run_id: str, over: threading.Event) -> None:
    told = Notes()
    while not over.wait(LOOK):
        try:
            news = told.news(explain(run_id))
        except (HoldfastError, RuntimeError):
            # The database is away, or the client closed: the waiting caller learns of it.
            continue
        if news is not None and not over.is_set():
            print_note(news)
