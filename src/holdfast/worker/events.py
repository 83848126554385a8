"""Matching events with waits. Any worker does it, and doing it twice changes nothing.

Events and waits are inserted and committed, and a later statement looks at them: an event finds the waits that were
there before it, a wait finds the events that were there before it, so the later of the two always finds the other. The
delete of the wait's row decides who was first. Crash windows: before the delivery, somebody else looks again; after it
and before the event is marked, another look delivers nothing twice. So marks may be written later, many in one commit.

An event finds waits by its probes, and a wait finds events by them: whoever marks an event notes its probes in the same
commit. So at any moment an event is either unmatched and found by its name, or matched and found by its probes. A wait
asks for both in one statement, which misses no event that is being marked meanwhile. Neither walks what it can't match.
An event of which no values may be noted has the probe of its name, for which every wait asks.

An event that this worker's codec can't open is left unmatched for a worker that can open it, and so is a wait whose
match needs it. They are skipped until it is time to begin from the start again, so that they hold up nothing behind
them. The same holds if matching an event fails, whatever the error: no single event may end every worker.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby, takewhile
from typing import Any, TypeVar

import msgspec

from holdfast.codec import Codec
from holdfast.define import HouseLogger
from holdfast.errors import NotDecodable, StoreAway
from holdfast.model import SECOND, Event, EventWait, Looked, NewRun, Trigger, holds, probes_of
from holdfast.store import Store

from .clock import Clock

_MANY = 1000
_PAGE = 100
_ANEW = 60 * SECOND
"""After so long the looks begin from the start again: events that were committed late stand before the place
reached."""
_LATE = 60 * SECOND
"""How far this worker's clock may be ahead of the one that marks events, or that one be set back. An event that a look
could not see was marked after that look, for it had not been committed by then."""
_MANY_VALUES = 64
"""Of an event with more plain values than that none are noted."""
_MANY_LOOKED = 10_000
_MARKED_AT_ONCE = 20
"""Other workers also look at what was looked at and is not marked yet."""
_SEALED = object()
_log = HouseLogger("holdfast.worker")
_json = msgspec.json.Decoder()
One = TypeVar("One", Event, EventWait)


class Matchmaker:
    """Matches the events and waits that nobody has looked at yet."""

    def __init__(self, store: Store, codec: Codec, clock: Clock) -> None:
        self._store = store
        self._codec = codec
        self._clock = clock
        self._event = self._wait = 0, 0
        """Up to these, everything unmatched is left to other workers."""
        self._seen_events: dict[int, list[bytes]] = {}
        self._seen_waits: list[EventWait] = []
        """What was looked at and is still to be marked. Events with the probes by which later waits find them."""
        self._triggers: dict[str, list[Trigger]] = {}
        """Triggers for the event names of this page. The page was read before them, so a trigger that is added later
        misses none of its events."""
        self._anew_at: int | None = None
        self._told: set[tuple[str, type[Exception]]] = set()
        """The event names of which the log has said that they are left, and the errors."""
        self._looked: dict[tuple[int, str, bytes | None], Looked] = {}
        """How far the waits of one run, name and match have looked."""

    async def look(self) -> bool:
        """Match one page; True if there may be more."""
        if self._anew_at is not None and self._clock.monotonic() >= self._anew_at:
            self._event, self._wait, self._anew_at = (0, 0), (0, 0), None
        self._triggers.clear()
        found = await self._store.read_unmatched(_PAGE, after_event=self._event, after_wait=self._wait)
        are_matched = [await self._try(self._match_event, event) for event in found.events]
        if not all(are_matched):
            self._event = found.events[-1].published_at, found.events[-1].id
        are_matched += [await self._try(self._match_wait, wait) for wait in found.waits]
        if not all(are_matched[len(found.events) :]):
            self._wait = found.waits[-1].run, found.waits[-1].number
        if not all(are_matched) and self._anew_at is None:
            self._anew_at = self._clock.monotonic() + _ANEW
        await self._mark()
        return _PAGE in (len(found.events), len(found.waits))

    async def _try(self, match: Callable[[One], Awaitable[bool]], one: One) -> bool:
        """Match one event or wait of a page. If that fails it is left unmatched, and the others go on."""
        try:
            return await match(one)
        except StoreAway:
            # Nothing was looked at, so all of the page comes again.
            raise
        except Exception as error:
            if self._is_news(one.name, error):
                what = "event" if isinstance(one, Event) else "wait for the event"
                _log.error("a %s %r could not be matched, and is left as it is", what, one.name, exc_info=error)
            return False

    async def _match_event(self, event: Event) -> bool:
        """Match an event; False if it is left to a worker that can read it. Waits without a match get it even so."""
        payload = self._plain(event)
        is_sealed = payload is _SEALED
        probes = probes_of(event.name, None if is_sealed else payload)
        after: tuple[int, int] | None = None
        while True:
            waits = await self._store.find_waits(event, probes, after=after, limit=_MANY)
            fitting = [wait for wait in waits if _fits(payload, wait.match)]
            await self._look_back(fitting)
            if fitting:
                await self._store.deliver_event(event, fitting)
            if len(waits) < _MANY:
                break
            after = waits[-1].run, waits[-1].number
        if is_sealed:
            return False
        begun = [
            self._run_of(trigger, event) for trigger in await self._begin_by(event) if _fits(payload, trigger.match)
        ]
        noted = _noted(event, probes)
        if begun:
            # One commit: if a run were begun before the event is marked, it could end and be deleted before the next
            # look, and begin again.
            await self._store.mark_matched({event.id: noted}, [], runs=begun, now=self._clock.store_time())
        else:
            self._seen_events[event.id] = noted
            await self._mark(at_least=_MARKED_AT_ONCE)
        return True

    async def _begin_by(self, event: Event) -> list[Trigger]:
        """The triggers for events of that name."""
        if event.name not in self._triggers:
            now = self._clock.store_time()
            self._triggers[event.name] = await self._store.list_triggers(event.name, now=now)
        return self._triggers[event.name]

    async def _mark(self, at_least: int = 1) -> None:
        """Mark what was looked at, if there are at least so many."""
        events, waits = self._seen_events, self._seen_waits
        if len(events) + len(waits) >= at_least:
            await self._store.mark_matched(events, waits, now=self._clock.store_time())
            # Only now, for marking twice changes nothing.
            self._seen_events, self._seen_waits = {}, []

    async def _look_back(self, waits: Sequence[EventWait]) -> None:
        """First give these waits the older events that came while nobody waited. Of each run, begin with its oldest
        waits: a wait that has nothing older to get is not overtaken by those behind it."""
        for _, of_run in groupby(waits, key=lambda wait: wait.run):
            for wait in takewhile(lambda wait: wait.may_get_older, of_run):
                await self._try(self._match_wait, wait)

    def _run_of(self, trigger: Trigger, event: Event) -> NewRun:
        """The run that an event begins. Its id is made of the event's, so it begins once."""
        return NewRun(
            id=f"{trigger.workflow}@event-{event.id}",
            workflow=trigger.workflow,
            version=trigger.version,
            queue=trigger.queue,
            input=self._codec.call_with(event.payload),
            seed=secrets.token_bytes(16),
            deadline=trigger.deadline,
            retention=trigger.retention,
            trace=event.trace,
        )

    async def _match_wait(self, wait: EventWait) -> bool:
        """Match a wait; False if it is left to a worker that can read the first event that it may get."""
        key = wait.run, wait.name, wait.match
        looked = self._looked.pop(key, None)
        began = self._clock.now() - _LATE
        refused: Looked | None = None
        after = 0, 0
        while True:
            events = await self._store.find_events(wait, after=after, limit=_PAGE, looked=looked)
            looked = None
            for event in events:
                payload = None if wait.match is None else self._plain(event)
                if payload is _SEALED:
                    return False
                if not _fits(payload, wait.match):
                    continue
                if await self._store.deliver_event(event, [wait]):
                    self._keep(key, Looked(event.published_at, event.id, began))
                    # The wait's row is deleted, so there is nothing to mark.
                    return True
                refused = refused or Looked(event.published_at, event.id - 1, began)
            if len(events) < _PAGE:
                break
            after = events[-1].published_at, events[-1].id
        # A wait that got none of these events may have been given up while we looked: the next one begins with the
        # first.
        self._keep(key, refused or Looked(began, 0, began))
        self._seen_waits.append(wait)
        await self._mark(at_least=_MARKED_AT_ONCE)
        return True

    def _keep(self, key: tuple[int, str, bytes | None], looked: Looked) -> None:
        """Let the next wait of this run for the same thing skip what this one has seen. Other workers don't know of it,
        and look at all."""
        if len(self._looked) >= _MANY_LOOKED:
            del self._looked[next(iter(self._looked))]
        self._looked[key] = looked

    def _plain(self, event: Event) -> Any:
        try:
            return _json.decode(self._codec.open(event.payload))
        except (NotDecodable, RecursionError) as error:
            # JSON that is nested too deeply for this process to read: its publisher could write it, so another may read
            # it.
            if self._is_news(event.name, error):
                _log.warning("events %r are left to a worker that can read them: %s", event.name, error)
            return _SEALED
        except msgspec.DecodeError:
            # The payload is not JSON: only waits without a match can take it.
            return None

    def _is_news(self, name: str, error: Exception) -> bool:
        key = name, type(error)
        is_news = key not in self._told
        self._told.add(key)
        return is_news


def _noted(event: Event, probes: list[bytes]) -> list[bytes]:
    """Those of an event's probes by which later waits find it: of its values, or of its name alone if there are very
    many, or if the payload is stored through a chain. Digests of encrypted values would tell of them."""
    is_plain = event.payload[:1] != b"\x00"
    return probes[1:] if is_plain and len(probes) - 1 <= _MANY_VALUES else probes[:1]


def _fits(payload: Any, match: bytes | None) -> bool:
    if match is None or payload is _SEALED:
        return match is None
    try:
        return holds(payload, _json.decode(match))
    except RecursionError:
        # A match that is nested too deeply to be read fits no payload that could be read.
        return False
