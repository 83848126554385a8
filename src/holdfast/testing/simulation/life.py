"""Requests about messages, events, values and managing, as one process sends them through the network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from holdfast.model import (
    Event,
    EventWait,
    Instant,
    Looked,
    NewRun,
    Sent,
    StepItems,
    StreamName,
    StreamRecord,
    Swept,
    Trigger,
    Unmatched,
    ValueName,
    WaitRecord,
)
from holdfast.store import SqliteStore

T = TypeVar("T")


class FaultyLife:
    """The part of the faulty store with these requests."""

    _inner: SqliteStore
    _watch: Any

    async def _ask(self, method: str, call: Callable[[], Awaitable[T]], asked: Any = None) -> T:
        raise NotImplementedError

    async def send_signal(
        self,
        run_id: str,
        name: str,
        payload: bytes,
        *,
        message_id: str | None = None,
        trace: str | None = None,
        now: Instant | None = None,
    ) -> Sent:
        return await self._ask(
            "send_signal",
            lambda: self._inner.send_signal(run_id, name, payload, message_id=message_id, trace=trace, now=now),
            (run_id, name, payload),
        )

    async def publish_event(
        self,
        name: str,
        payload: bytes,
        *,
        message_id: str | None = None,
        trace: str | None = None,
        now: Instant | None = None,
    ) -> Sent:
        return await self._ask(
            "publish_event",
            lambda: self._inner.publish_event(name, payload, message_id=message_id, trace=trace, now=now),
            (name, payload),
        )

    async def find_hook(self, token: str) -> WaitRecord | None:
        return await self._ask("find_hook", lambda: self._inner.find_hook(token))

    async def resume_hook(
        self,
        token: str,
        payload: bytes,
        *,
        message_id: str | None = None,
        trace: str | None = None,
        now: Instant | None = None,
    ) -> Sent:
        return await self._ask(
            "resume_hook",
            lambda: self._inner.resume_hook(token, payload, message_id=message_id, trace=trace, now=now),
            (token, payload),
        )

    async def read_waits(self, run_id: str) -> list[WaitRecord]:
        return await self._ask("read_waits", lambda: self._inner.read_waits(run_id))

    async def read_unmatched(
        self, limit: int, *, after_event: tuple[Instant, int] = (0, 0), after_wait: tuple[int, int] = (0, 0)
    ) -> Unmatched:
        return await self._ask(
            "read_unmatched",
            lambda: self._inner.read_unmatched(limit, after_event=after_event, after_wait=after_wait),
        )

    async def find_waits(
        self, event: Event, probes: Sequence[bytes], *, after: tuple[int, int] | None = None, limit: int = 1000
    ) -> list[EventWait]:
        return await self._ask("find_waits", lambda: self._inner.find_waits(event, probes, after=after, limit=limit))

    async def find_events(
        self, wait: EventWait, *, after: tuple[Instant, int] = (0, 0), limit: int = 100, looked: Looked | None = None
    ) -> list[Event]:
        return await self._ask(
            "find_events", lambda: self._inner.find_events(wait, after=after, limit=limit, looked=looked)
        )

    async def deliver_event(self, event: Event, waits: Sequence[EventWait]) -> int:
        return await self._ask("deliver_event", lambda: self._inner.deliver_event(event, waits), event)

    async def mark_matched(
        self,
        events: Mapping[int, Sequence[bytes]],
        waits: Sequence[EventWait],
        *,
        runs: Sequence[NewRun] = (),
        now: Instant | None = None,
    ) -> None:
        seeded = [self._watch.seeded(run) for run in runs]
        return await self._ask(
            "mark_matched", lambda: self._inner.mark_matched(events, waits, runs=seeded, now=now), seeded
        )

    async def list_triggers(self, event: str, *, now: Instant | None = None) -> list[Trigger]:
        return await self._ask("list_triggers", lambda: self._inner.list_triggers(event, now=now))

    async def set_value(self, run_id: str, name: str, value: bytes, *, epoch: int, now: Instant | None = None) -> None:
        asked = (run_id, name, value, epoch)
        return await self._ask(
            "set_value", lambda: self._inner.set_value(run_id, name, value, epoch=epoch, now=now), asked
        )

    async def read_value(self, run_id: str, name: str) -> bytes | None:
        return await self._ask("read_value", lambda: self._inner.read_value(run_id, name))

    async def list_values(self, run_id: str, *, after: str = "", limit: int = 1000) -> list[ValueName]:
        return await self._ask("list_values", lambda: self._inner.list_values(run_id, after=after, limit=limit))

    async def list_streams(self, run_id: str, *, after: str = "", limit: int = 1000) -> list[StreamName]:
        return await self._ask("list_streams", lambda: self._inner.list_streams(run_id, after=after, limit=limit))

    async def append_items(self, sent: StepItems, *, now: Instant | None = None) -> None:
        return await self._ask("append_items", lambda: self._inner.append_items(sent, now=now), sent)

    async def read_items(self, run_id: str, stream: str, *, after: int = 0, limit: int = 100) -> list[StreamRecord]:
        return await self._ask("read_items", lambda: self._inner.read_items(run_id, stream, after=after, limit=limit))

    async def pause_runs(self, run_ids: Sequence[str], paused: bool, *, now: Instant | None = None) -> list[str]:
        return await self._ask(
            "pause_runs", lambda: self._inner.pause_runs(run_ids, paused, now=now), (run_ids, paused)
        )

    async def delete_runs(self, run_ids: Sequence[str]) -> list[str]:
        return await self._ask("delete_runs", lambda: self._inner.delete_runs(run_ids), run_ids)

    async def sweep(self, limit: int, *, events_before: Instant, now: Instant | None = None) -> Swept:
        return await self._ask("sweep", lambda: self._inner.sweep(limit, events_before=events_before, now=now))
