"""Ending runs from outside, whatever the dialect: what decides how a run is ended, and the entry that records it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from holdfast.model import Instant, RunStatus, Stopped


class Live(NamedTuple):
    """What decides how a run can be ended."""

    number: int
    id: str
    status: RunStatus
    lane_id: int
    started_at: Instant | None
    owner: str | None
    epoch: int
    next_seq: int | None
    after_run_id: str | None
    due_at: Instant | None
    is_blocked: bool
    """On SQLite a number."""

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """A row of find_live or find_holder."""
        number, id, status, *rest = row
        return cls(number, id, RunStatus(status), *rest)

    @property
    def has_begun(self) -> bool:
        """Whether its body has to be told of the cancel. So has that of a run that was created with a journal, before
        any worker has had it: there may be steps to compensate."""
        return self.started_at is not None or self.owner is not None or bool(self.next_seq)


def cancelled(at: Instant, reason: str | None, undone: tuple[str, ...] = (), was_blocked: bool = False) -> Stopped:
    """The entry that ends a run without its body. `undone` lists, in words, what the end does not wait for."""
    return Stopped(at, RunStatus.CANCELLED.value, None, None, reason or None, undone, bool(was_blocked))
