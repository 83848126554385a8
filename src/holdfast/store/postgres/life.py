"""The contract's methods about matching events, values, streams and managing. Each is handed on, as in store.py.

Reads and single statements are transactions by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from holdfast.model import (
    Event,
    EventWait,
    Instant,
    Looked,
    Message,
    NewRun,
    StepItems,
    StreamName,
    StreamRecord,
    Swept,
    Trigger,
    Unmatched,
    Unread,
    ValueName,
    is_text,
)

from . import ends, events, messages, retention, values
from .messaging import Messaging
from .texts import refuse_unstorable


class LifeStore(Messaging):
    """A part of the Postgres store; the other part executes."""

    async def read_clock(self) -> Instant:
        return await self._read(lambda tx: tx.now(None))

    async def read_unmatched(
        self, limit: int, *, after_event: tuple[Instant, int] = (0, 0), after_wait: tuple[int, int] = (0, 0)
    ) -> Unmatched:
        return await self._read(
            partial(events.read_unmatched, limit=limit, after_event=after_event, after_wait=after_wait)
        )

    async def find_waits(
        self, event: Event, probes: Sequence[bytes], *, after: tuple[int, int] | None = None, limit: int = 1000
    ) -> list[EventWait]:
        return await self._read(partial(events.find_waits, event=event, probes=probes, after=after, limit=limit))

    async def find_events(
        self, wait: EventWait, *, after: tuple[Instant, int] = (0, 0), limit: int = 100, looked: Looked | None = None
    ) -> list[Event]:
        return await self._read(partial(events.find_events, wait=wait, after=after, limit=limit, looked=looked))

    async def deliver_event(self, event: Event, waits: Sequence[EventWait]) -> int:
        return await self._write(partial(events.deliver_event, event=event, waits=list(waits)), is_one=True)

    async def mark_matched(
        self,
        events: Mapping[int, Sequence[bytes]],
        waits: Sequence[EventWait],
        *,
        runs: Sequence[NewRun] = (),
        now: Instant | None = None,
    ) -> None:
        refuse_unstorable(runs)
        deed = partial(_events.mark_matched, events=dict(events), waits=list(waits), runs=list(runs), now=now)
        await self._write(deed, is_one=not runs)

    async def list_triggers(self, event: str, *, now: Instant | None = None) -> list[Trigger]:
        return await self._read(partial(events.list_triggers, event=event, now=now))

    async def set_value(self, run_id: str, name: str, value: bytes, *, epoch: int, now: Instant | None = None) -> None:
        await self._write(
            partial(values.set_value, run_id=run_id, name=name, value=value, epoch=epoch, now=now), is_one=True
        )

    async def read_value(self, run_id: str, name: str) -> bytes | None:
        return await self._read(partial(values.read_value, run_id=run_id, name=name))

    async def list_values(self, run_id: str, *, after: str = "", limit: int = 1000) -> list[ValueName]:
        return await self._read(partial(values.list_values, run_id=run_id, after=after, limit=limit))

    async def append_items(self, sent: StepItems, *, now: Instant | None = None) -> None:
        await self._write(partial(values.append_items, sent=sent, now=now))

    async def read_items(self, run_id: str, stream: str, *, after: int = 0, limit: int = 100) -> list[StreamRecord]:
        return await self._read(partial(values.read_items, run_id=run_id, stream=stream, after=after, limit=limit))

    async def list_streams(self, run_id: str, *, after: str = "", limit: int = 1000) -> list[StreamName]:
        return await self._read(partial(values.list_streams, run_id=run_id, after=after, limit=limit))

    async def find_cancel(self, run_id: str) -> Message | None:
        return await self._read(partial(ends.find_cancel, run_id=run_id)) if is_text(run_id) else None

    async def count_unread(self, run_id: str) -> list[Unread]:
        return await self._read(partial(messages.count_unread, run_id=run_id)) if is_text(run_id) else []

    async def pause_runs(self, run_ids: Sequence[str], paused: bool, *, now: Instant | None = None) -> list[str]:
        return await self._write(partial(retention.pause_runs, run_ids=list(run_ids), paused=paused, now=now))

    async def delete_runs(self, run_ids: Sequence[str]) -> list[str]:
        return await self._write(partial(retention.delete_runs, run_ids=list(run_ids)))

    async def sweep(self, limit: int, *, events_before: Instant, now: Instant | None = None) -> Swept:
        return await self._write(partial(retention.sweep, limit=limit, events_before=events_before, now=now))


# `events` is also what the contract calls a parameter.
_events = events
