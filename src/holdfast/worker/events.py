"""Events meet waits. Any worker does it; doing it twice changes nothing.

Both sides insert, commit, and are looked at by a later statement: an event finds the waits that were there before it, a
wait the events that were there before it, so whichever of the two came second finds the other. The delete of the
wait's row decides who was first. Crash windows: before the delivery, somebody else looks again; after it and before it
is marked, looking again delivers nothing twice.
"""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from holdfast.codec import Codec
from holdfast.errors import NotDecodable
from holdfast.model import Event, EventWait, NewRun, Trigger, holds, probes_of
from holdfast.store import Store

from .clock import Clock

_MANY = 1000
_json = msgspec.json.Decoder()


class Matchmaker:
    """Looks at what nobody has looked at yet."""

    def __init__(self, store: Store, codec: Codec, clock: Clock) -> None:
        self._store = store
        self._codec = codec
        self._clock = clock

    async def look(self) -> bool:
        """Match some; True if there may be more."""
        found = await self._store.read_unmatched(100)
        for event in found.events:
            await self._match_event(event)
        for wait in found.waits:
            await self._match_wait(wait)
        return len(found.events) == 100 or len(found.waits) == 100

    async def _match_event(self, event: Event) -> None:
        payload = self._plain(event)
        probes = probes_of(event.name, payload)
        after: tuple[int, int] | None = None
        while True:
            waits = await self._store.find_waits(event, probes, after=after, limit=_MANY)
            fitting = [wait for wait in waits if _fits(payload, wait.match)]
            if fitting:
                await self._store.deliver_event(event, fitting, now=self._clock.store_time())
            if len(waits) < _MANY:
                break
            after = waits[-1].run, waits[-1].number
        for trigger in await self._store.list_triggers(event.name):
            if _fits(payload, trigger.match):
                await self._begin(trigger, event)
        await self._store.mark_matched([event.id], [])

    async def _begin(self, trigger: Trigger, event: Event) -> None:
        """One run for one event: its id says so, and a second start with it finds the first."""
        new = NewRun(
            id=f"{trigger.workflow}@event-{event.id}",
            workflow=trigger.workflow,
            version=trigger.version,
            queue=trigger.queue,
            input=self._codec.call_with(event.payload),
            seed=secrets.token_bytes(16),
            deadline=trigger.deadline,
            retention=trigger.retention,
        )
        await self._store.start_runs([new], now=self._clock.store_time())

    async def _match_wait(self, wait: EventWait) -> None:
        after = 0
        while True:
            events = await self._store.find_events(wait, after=after, limit=100)
            for event in events:
                if not _fits(self._plain(event), wait.match):
                    continue
                if await self._store.deliver_event(event, [wait], now=self._clock.store_time()):
                    await self._store.mark_matched([], [wait])
                    return
            if len(events) < 100:
                break
            after = events[-1].id
        await self._store.mark_matched([], [wait])

    def _plain(self, event: Event) -> Any:
        try:
            return _json.decode(self._codec.open(event.payload))
        except (msgspec.DecodeError, NotDecodable):
            # Sealed with a key that this worker has not: only waits that ask for nothing in it can match.
            return None


def _fits(payload: Any, match: bytes | None) -> bool:
    return match is None or holds(payload, _json.decode(match))
