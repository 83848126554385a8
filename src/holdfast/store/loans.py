"""What a store lends to transactional steps: a connection in a transaction, in which the step's turn is committed.

Invariants, whatever the dialect:

- The journal's row inserted there is the run's one uncommitted turn. It decides: if its place is taken, whoever took
  it, the transaction is rolled back, and what the user's function wrote is gone with it.
- A commit whose answer was lost is settled by reading the place: this epoch's row there means committed.
- The user's function ends neither the transaction nor begins another: that is found out before anything is recorded.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from holdfast.model import Instant, Turn

LOST = "has lost its connection"
"""What a loan says of a function that failed while its connection was cut. Whatever it wrote is gone, and executing it
again is up to the worker: it is no fault of the function's."""
IDLE = (
    "has lost its connection: the server ends a transaction in which nothing is executed for as long as the worker's"
    " lease; do what takes long in another step, before this one"
)
"""What a loan says of a function whose connection was cut when it had had it for longer than that. It fails."""


class Undone(NamedTuple):
    """A commit that did not happen, though nobody else has taken the turn's place."""

    why: str
    is_certain: bool = True
    """Else it may still happen: the run must be taken over, so that its place is fenced."""


class Loan(Protocol):
    """One transaction for one attempt of one step."""

    @property
    def connection(self) -> Any:
        """What the step's function gets; only between `begin` and `end`."""

    async def begin(self) -> None:
        """Begin the transaction. Raises StoreAway, and may be called again then."""

    async def check(self, *, is_failed: bool) -> str | None:
        """What the user's function has done to the transaction that it must not, if anything, or `LOST` or `IDLE`.

        If it has not failed, what is deferred to the commit fails here.
        """

    async def commit(self, turn: Turn, *, now: Instant | None) -> bool | Undone:
        """Write the turn and commit. False: its place is taken, everything was rolled back."""

    async def end(self) -> None:
        """Roll back what is not committed, and give the connection back. Repeating it changes nothing."""

    def abort(self) -> None:
        """Roll back at once, although the user's function may still be in a thread: it can't write any more."""


class Lender(Protocol):
    """Lends to the steps of one worker, on its loop."""

    is_async: bool
    """Steps must be `async def`; else they must be `def`."""
    is_exclusive: bool
    """While a loan is open nothing else can be written: no other turn of the run may be under way."""
    kind: str
    """What steps get, in words."""
    timeout: int | None
    """Of steps that have none of their own."""

    def lend(self) -> Loan: ...

    def close(self) -> None:
        """Let go of connections that are kept for later."""
