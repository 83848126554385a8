"""Probes: how a wait finds the events that were matched before it without walking those that it can't match."""

from __future__ import annotations

import asyncio

from holdfast.model import Event, EventWait, Looked, NewWait, Out, probe_of

from .events import place, published
from .stage import T0, Stage, after, on_stage, turn

OF_NAME = probe_of("paid", None)
NEVER = after(1_000)


@on_stage
class TestProbes:
    async def test_a_wait_finds_matched_events_by_its_probe_and_all_that_are_unmatched(self, stage: Stage) -> None:
        wait = await probing(stage, b"p")
        events = [await published(stage, "paid", at=after(number)) for number in range(6)]
        await published(stage, "sent", at=after(1))
        await mark(stage, events[1], b"p", b"q")
        await mark(stage, events[2], b"q")
        await mark(stage, events[3])
        await mark(stage, events[4], b"p")
        assert await stage.store.find_events(wait) == [events[0], events[1], events[4], events[5]]

    async def test_an_event_that_was_marked_with_the_probe_of_its_name_is_found_by_every_wait(
        self, stage: Stage
    ) -> None:
        wait, other = await probing(stage, b"p"), await probing(stage, b"q")
        first, second = [await published(stage, "paid", at=after(number)) for number in range(2)]
        await mark(stage, first, OF_NAME)
        await mark(stage, second, b"p")
        assert await stage.store.find_events(wait) == [first, second]
        assert await stage.store.find_events(other) == [first]

    async def test_a_wait_without_a_probe_of_its_own_finds_all_events_of_its_name(self, stage: Stage) -> None:
        waits = [await probing(stage, probe) for probe in (None, OF_NAME)]
        events = [await published(stage, "paid", at=after(number)) for number in range(3)]
        await mark(stage, events[0], b"p")
        await mark(stage, events[1])
        for wait in waits:
            assert await stage.store.find_events(wait) == events

    async def test_events_are_found_page_by_page_in_order_however_they_are_found(self, stage: Stage) -> None:
        wait = await probing(stage, b"p")
        events = [await published(stage, "paid", at=after(-(number // 2) % 7)) for number in range(40)]
        for number, event in enumerate(events):
            if number % 4 < 3:
                await mark(stage, event, (b"p", OF_NAME, b"q")[number % 4])
        wanted = sorted((event for number, event in enumerate(events) if number % 4 != 2), key=place)
        assert await stage.store.find_events(wait) == wanted
        found: list[Event] = []
        seen = 0, 0
        while page := await stage.store.find_events(wait, after=seen, limit=3):
            assert len(page) <= 3
            found += page
            seen = place(page[-1])
        assert found == wanted

    async def test_an_event_from_before_the_chain_is_not_found(self, stage: Stage) -> None:
        early, unmarked = [await published(stage, "paid", at=T0 - 1) for _ in range(2)]
        wait = await probing(stage, b"p")
        assert wait.since > unmarked.published_at
        await mark(stage, early, b"p")
        at_once = await published(stage, "paid", at=wait.since)
        await mark(stage, at_once, b"p")
        assert await stage.store.find_events(wait) == [at_once]
        assert await stage.store.find_events(wait, looked=Looked(0, 0, 0)) == [at_once]

    async def test_an_event_that_the_chain_has_taken_is_not_found_again(self, stage: Stage) -> None:
        run = await stage.held()
        waits = tuple(NewWait(number=number, kind="event", name="paid", probe=b"p") for number in (1, 2))
        await stage.commit(turn(run, out=Out(waits=waits)))
        first, second = (await stage.store.read_unmatched(10)).waits
        events = [await published(stage, "paid", at=after(number)) for number in range(3)]
        for event in events[:2]:
            await mark(stage, event, b"p")
        await stage.store.deliver_event(events[0], [first])
        assert await stage.store.find_events(second) == events[1:]
        await stage.store.deliver_event(events[2], [second])
        assert await stage.store.find_events(second) == [events[1]]

    async def test_marking_an_event_again_changes_nothing(self, stage: Stage) -> None:
        wait, other = await probing(stage, b"p"), await probing(stage, b"q")
        event = await published(stage, "paid")
        await mark(stage, event, b"p", b"p")
        await mark(stage, event, b"p", b"q")
        assert await stage.store.find_events(wait) == [event]
        assert await stage.store.find_events(other) == []

    async def test_of_many_who_mark_an_event_at_once_one_notes_its_probes(self, stage: Stage) -> None:
        wait = await probing(stage, b"p")
        events = [await published(stage, "paid", at=after(number)) for number in range(5)]
        probes = {event.id: [b"p", b"q"] for event in events}
        await asyncio.gather(*(stage.store.mark_matched(probes, []) for _ in range(8)))
        assert await stage.store.find_events(wait) == events

    async def test_an_event_that_is_being_marked_is_found_at_every_moment(self, stage: Stage) -> None:
        wait = await probing(stage, b"p")
        event = await published(stage, "paid")
        looks = [stage.store.find_events(wait) for _ in range(20)]
        *found, _ = await asyncio.gather(*looks[:10], mark(stage, event, b"p"))
        found += await asyncio.gather(*looks[10:])
        assert found == [[event]] * 20

    async def test_a_swept_event_is_found_by_nothing(self, stage: Stage) -> None:
        wait = await probing(stage, b"p")
        old, kept = [await published(stage, "paid", at=after(number)) for number in (1, 5)]
        for event in (old, kept):
            await mark(stage, event, b"p")
        assert (await stage.store.sweep(10, events_before=after(3), now=T0)).events == 1
        assert await stage.store.find_events(wait) == [kept]

    async def test_a_later_look_finds_the_events_after_the_last_one_seen(self, stage: Stage) -> None:
        wait = await probing(stage, b"p")
        events = [await published(stage, "paid", at=after(number)) for number in range(4)]
        for event in events:
            await mark(stage, event, b"p")
        seen = Looked(events[1].published_at, events[1].id, NEVER)
        assert await stage.store.find_events(wait, looked=seen) == events[2:]
        assert await stage.store.find_events(wait, looked=seen, limit=1) == events[2:3]

    async def test_a_later_look_finds_events_matched_since_or_still_unmatched_however_old_they_are(
        self, stage: Stage
    ) -> None:
        wait = await probing(stage, b"p")
        old, late, of_name, other, fresh, new = [await published(stage, "paid", at=after(n)) for n in range(6)]
        await stage.store.mark_matched({old.id: [b"p"], new.id: [b"p"]}, [], now=after(9))
        seen = Looked(new.published_at, new.id, after(10))
        assert await stage.store.find_events(wait, looked=seen) == [late, of_name, other, fresh]
        await stage.store.mark_matched({late.id: [b"p"], of_name.id: [OF_NAME], other.id: [b"q"]}, [], now=after(10))
        assert await stage.store.find_events(wait, looked=seen) == [late, of_name, fresh]
        assert await stage.store.find_events(wait, looked=seen, limit=2) == [late, of_name]
        at_new = Looked(new.published_at, new.id - 1, after(9))
        assert await stage.store.find_events(wait, looked=at_new) == [old, late, of_name, fresh, new]
        assert await stage.store.deliver_event(late, [wait]) == 1
        assert await stage.store.find_events(wait, looked=seen) == [of_name, fresh]


async def mark(stage: Stage, event: Event, *probes: bytes) -> None:
    """Mark an event as matched, with these probes."""
    await stage.store.mark_matched({event.id: probes}, [], now=after(100))


async def probing(stage: Stage, probe: bytes | None) -> EventWait:
    """The wait of a new run, with this probe."""
    run = await stage.held()
    wait = NewWait(number=1, kind="event", name="paid", probe=probe)
    await stage.commit(turn(run, out=Out(waits=(wait,))))
    return (await stage.store.read_unmatched(10_000)).waits[-1]
