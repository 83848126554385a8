"""Loans: a store lends a transactional step a connection in a transaction, in which the step's turn is committed, too.

Invariants, whatever the dialect:

- The journal row inserted by that transaction is the run's only uncommitted turn, and it decides. If there is a row at
  its place already, whoever wrote it, the transaction is rolled back with everything that the user's function wrote.
- A commit whose answer was lost is settled by reading that place: a row with this epoch means that it was committed.
- The user's function must not end the transaction, nor begin another. If it does, that is found out before anything is
  recorded.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from holdfast.model import Instant, Turn

LOST = "has lost its connection"
"""What `check` answers if the connection broke and that is not the function's fault. Everything that the function wrote
is gone, and the worker decides whether to execute it again."""
IDLE = (
    "has lost its connection: the server ends a transaction in which nothing is executed for as long as the worker's"
    " lease; do what takes long in another step, before this one"
)
"""What `check` answers if the connection broke after the function had had it for longer than the lease. Then the step
fails."""


class Undone(NamedTuple):
    """A commit that did not happen, although no other row has the turn's place."""

    why: str
    is_certain: bool = True
    """If not, the commit may still happen: the run must be taken over, so that the place is fenced."""


class Loan(Protocol):
    """One transaction for one attempt of one step."""

    @property
    def connection(self) -> Any:
        """The connection that the step's function gets; available only between `begin` and `end`."""

    async def begin(self) -> None:
        """Begin the transaction. If it raises StoreAway, it may be called again."""

    async def check(self, *, is_failed: bool) -> str | None:
        """What the user's function did to the transaction that it must not do, or `LOST` or `IDLE`; None: all is well.

        `is_failed` says whether the function raised. If it did not, constraints that are deferred to the commit are
        checked here.
        """

    async def commit(self, turn: Turn, *, now: Instant | None) -> bool | Undone:
        """Write the turn and commit. False: there is a row at its place already, and everything was rolled back."""

    async def end(self) -> None:
        """Roll back what is not committed, and give the connection back. A second call changes nothing."""

    def abort(self) -> None:
        """Roll back at once, although the user's function may still be running in a thread: it can write no more."""


class Lender(Protocol):
    """Lends to the steps of one worker, on its loop."""

    is_async: bool
    """Whether steps must be `async def`; if not, they must be `def`."""
    is_exclusive: bool
    """Whether nothing else can be written while a loan is open, so that no other turn of the run may be under way."""
    kind: str
    """The type of connection that steps get, in words."""
    timeout: int | None
    """The timeout of steps that have none of their own."""

    def lend(self) -> Loan: ...

    def close(self) -> None:
        """Close the connections that are kept for later loans."""
