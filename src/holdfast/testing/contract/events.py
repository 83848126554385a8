"""Events: published once, matched with waits by any worker, taken by a chain at most once."""

from __future__ import annotations

import asyncio

from holdfast.model import (
    SECOND,
    ClaimedRun,
    Event,
    EventWait,
    Instant,
    Looked,
    NewWait,
    Out,
    OutEvent,
    OutSignal,
    RowChange,
    RunStatus,
    Sent,
    Unmatched,
    instant_of,
)

from .stage import LANE, T0, Stage, after, new_run, on_stage, turn


@on_stage
class TestEvents:
    async def test_a_published_event_is_there_to_be_matched(self, stage: Stage) -> None:
        assert await stage.store.publish_event("paid", b"\x00p", now=after(1)) is Sent.SENT
        [event] = (await stage.store.read_unmatched(10)).events
        assert (event.name, event.payload, event.published_at) == ("paid", b"\x00p", after(1))

    async def test_events_of_a_turn_are_published_with_it(self, stage: Stage) -> None:
        run = await stage.held()
        out = Out(events=(OutEvent("a", b"1"), OutEvent("b", b"2")))
        assert await stage.commit(turn(run, out=out), now=after(2)) == [True]
        events = (await stage.store.read_unmatched(10)).events
        assert [(one.name, one.payload, one.published_at) for one in events] == [
            ("a", b"1", after(2)),
            ("b", b"2", after(2)),
        ]

    async def test_what_a_turn_sends_has_the_time_of_its_commit_not_of_the_turn(self, stage: Stage) -> None:
        run = await stage.held()
        [later] = await stage.store.start_runs([new_run()])
        out = Out(events=(OutEvent("a", b"1"),), signals=(OutSignal(run_id=later.id, name="s", payload=b"2"),))
        assert await stage.store.commit_turns([turn(run, at=SECOND, out=out)]) == [True]
        created = (await stage.run(later.id)).created_at
        [event] = (await stage.store.read_unmatched(10)).events
        [claimed] = await stage.store.claim_runs("two", [LANE], 1, run_id=later.id)
        assert event.published_at >= instant_of(created, what="created_at"), "a run that was there would miss it"
        assert [message.sent_at >= event.published_at - SECOND for message in claimed.inbox] == [True]

    async def test_the_same_message_id_is_published_once(self, stage: Stage) -> None:
        answers = [await stage.store.publish_event("paid", b"", message_id="m", now=T0) for _ in range(2)]
        assert answers == [Sent.SENT, Sent.DUPLICATE]
        assert len((await stage.store.read_unmatched(10)).events) == 1

    async def test_one_of_many_publishers_of_a_message_id_publishes_it(self, stage: Stage) -> None:
        answers = await asyncio.gather(
            *(stage.store.publish_event("paid", b"", message_id="m", now=T0) for _ in range(8))
        )
        assert sorted(answers) == [Sent.DUPLICATE] * 7 + [Sent.SENT]

    async def test_what_was_marked_as_matched_is_no_longer_unmatched(self, stage: Stage) -> None:
        await stage.store.publish_event("paid", b"", now=T0)
        await waiting(stage, "paid")
        found = await stage.store.read_unmatched(10)
        assert (len(found.events), len(found.waits)) == (1, 1)
        await stage.store.mark_matched({event.id: [] for event in found.events}, found.waits)
        assert await stage.store.read_unmatched(10) == Unmatched((), ())

    async def test_unmatched_events_and_waits_are_read_up_to_a_limit_oldest_first(self, stage: Stage) -> None:
        for number in range(5):
            await stage.store.publish_event(f"e{number}", b"", now=after(number))
            await waiting(stage, f"e{number}", worker=f"w{number}")
        found = await stage.store.read_unmatched(3)
        assert [event.name for event in found.events] == ["e0", "e1", "e2"]
        assert [wait.name for wait in found.waits] == ["e0", "e1", "e2"]

    async def test_only_waits_for_events_are_unmatched(self, stage: Stage) -> None:
        run = await stage.held()
        waits = (
            NewWait(number=1, kind="signal", name="a", schema=b"{}"),
            NewWait(number=2, kind="hook", name="a", token="t"),
        )
        await stage.commit(turn(run, out=Out(waits=waits)))
        assert (await stage.store.read_unmatched(10)).waits == ()

    async def test_a_wait_knows_when_its_chain_began(self, stage: Stage) -> None:
        run_id = await stage.start_one(now=after(1))
        run = await stage.claim_one(now=after(2), run_id=run_id)
        wait = NewWait(number=4, kind="event", name="paid", match=b'{"a":1}', probe=b"p")
        await stage.commit(turn(run, out=Out(waits=(wait,))), now=after(3))
        [found] = (await stage.store.read_unmatched(10)).waits
        assert (found.number, found.name, found.match, found.since) == (4, "paid", b'{"a":1}', after(1))

    async def test_an_event_finds_waits_of_its_name_by_probe_or_without_one(self, stage: Stage) -> None:
        run = await stage.held()
        waits = (
            NewWait(number=1, kind="event", name="paid"),
            NewWait(number=2, kind="event", name="paid", probe=b"p"),
            NewWait(number=3, kind="event", name="paid", probe=b"other"),
            NewWait(number=4, kind="event", name="sent"),
            NewWait(number=5, kind="signal", name="paid"),
            NewWait(number=6, kind="event", name="paid", probe=b"q"),
        )
        await stage.commit(turn(run, out=Out(waits=waits)))
        event = await published(stage, "paid")
        assert [wait.number for wait in await stage.store.find_waits(event, [b"p", b"q"])] == [1, 2, 6]
        assert [wait.number for wait in await stage.store.find_waits(event, [])] == [1]

    async def test_waits_are_found_page_by_page_in_order(self, stage: Stage) -> None:
        waits = tuple(
            NewWait(number=number, kind="event", name="paid", probe=None if number % 3 else b"p")
            for number in range(20)
        )
        for _ in range(3):
            await stage.commit(turn(await stage.held(), out=Out(waits=waits)))
        event = await published(stage, "paid")
        everything = await stage.store.find_waits(event, [b"p"])
        assert len(everything) == 60
        assert [(wait.run, wait.number) for wait in everything] == sorted(
            (wait.run, wait.number) for wait in everything
        )
        found: list[EventWait] = []
        place: tuple[int, int] | None = None
        while page := await stage.store.find_waits(event, [b"p"], after=place, limit=7):
            assert len(page) <= 7
            found += page
            place = page[-1].run, page[-1].number
        assert found == everything

    async def test_a_chain_that_began_after_the_event_does_not_wait_for_it(self, stage: Stage) -> None:
        event = await published(stage, "paid", at=T0)
        run_id = await stage.start_one(now=after(1))
        run = await stage.claim_one(now=after(1), run_id=run_id)
        await stage.commit(turn(run, out=Out(waits=(NewWait(number=1, kind="event", name="paid"),))), now=after(1))
        assert await stage.store.find_waits(event, []) == []

    async def test_a_wait_finds_what_was_published_since_its_chain_began(self, stage: Stage) -> None:
        await published(stage, "paid", at=T0 - 1)
        wait = await waiting(stage, "paid")
        at_once = await published(stage, "paid", at=T0)
        later = await published(stage, "paid", at=after(5))
        await published(stage, "other", at=after(5))
        assert [event.id for event in await stage.store.find_events(wait)] == [at_once.id, later.id]
        assert [event.id for event in await stage.store.find_events(wait, limit=1)] == [at_once.id]
        assert [event.id for event in await stage.store.find_events(wait, after=place(at_once))] == [later.id]
        assert await stage.store.find_events(wait, after=place(later)) == []

    async def test_an_event_that_was_marked_as_matched_is_still_found_by_a_later_wait(self, stage: Stage) -> None:
        event = await published(stage, "paid", at=after(1))
        await stage.store.mark_matched({event.id: []}, [])
        wait = await waiting(stage, "paid")
        assert await stage.store.find_events(wait) == [event]

    async def test_a_wait_gets_an_event_once(self, stage: Stage) -> None:
        wait = await waiting(stage, "paid")
        event = await published(stage, "paid", b"\x00p", at=after(3))
        assert await stage.store.deliver_event(event, [wait]) == 1
        [message] = await stage.store.read_inbox("one")
        assert (message.kind, message.name, message.payload, message.wait) == ("event", "paid", b"\x00p", wait.number)
        assert await stage.store.deliver_event(event, [wait]) == 0
        assert len(await stage.store.read_inbox("one")) == 1
        assert (await stage.store.read_unmatched(10)).waits == ()

    async def test_an_event_counts_from_when_it_was_published(self, stage: Stage) -> None:
        # So an event that is matched late still comes before a timeout that was due after it.
        wait = await waiting(stage, "paid")
        event = await published(stage, "paid", at=after(3))
        await stage.store.deliver_event(event, [wait])
        assert [message.sent_at for message in await stage.store.read_inbox("one")] == [after(3)]

    async def test_an_event_wakes_a_parked_run(self, stage: Stage) -> None:
        run = await stage.held()
        wait = NewWait(number=1, kind="event", name="paid")
        change = RowChange(status=RunStatus.WAITING, release=True)
        await stage.commit(turn(run, change=change, out=Out(waits=(wait,))))
        [found] = (await stage.store.read_unmatched(10)).waits
        event = await published(stage, "paid")
        assert await stage.claim() == []
        await stage.store.deliver_event(event, [found])
        assert [message.kind for message in (await stage.claim_one()).inbox] == ["event"]

    async def test_a_wait_takes_one_of_two_events(self, stage: Stage) -> None:
        wait = await waiting(stage, "paid")
        events = [await published(stage, "paid") for _ in range(2)]
        answers = await asyncio.gather(*(stage.store.deliver_event(event, [wait]) for event in events))
        assert sorted(answers) == [0, 1]
        assert len(await stage.store.read_inbox("one")) == 1

    async def test_the_oldest_of_several_waits_of_a_chain_gets_the_event(self, stage: Stage) -> None:
        run = await stage.held()
        waits = tuple(NewWait(number=number, kind="event", name="paid") for number in (10, 9, 2))
        await stage.commit(turn(run, out=Out(waits=waits)))
        found = (await stage.store.read_unmatched(10)).waits
        event = await published(stage, "paid")
        assert await stage.store.deliver_event(event, found) == 1
        assert [message.wait for message in await stage.store.read_inbox("one")] == [2]
        assert await stage.store.deliver_event(event, found) == 0
        assert [wait.number for wait in await stage.store.read_waits(run.id)] == [9, 10]

    async def test_a_chain_does_not_find_an_event_again_that_it_has_taken(self, stage: Stage) -> None:
        run = await stage.held()
        waits = tuple(NewWait(number=number, kind="event", name="paid") for number in (1, 2))
        await stage.commit(turn(run, out=Out(waits=waits)))
        found = {wait.number: wait for wait in (await stage.store.read_unmatched(10)).waits}
        first, second = await published(stage, "paid"), await published(stage, "paid")
        await stage.store.deliver_event(first, [found[1]])
        assert await stage.store.find_events(found[2]) == [second]

    async def test_any_number_of_runs_may_take_an_event(self, stage: Stage) -> None:
        await stage.start(1000)
        runs = await stage.claim(1000)
        wait = NewWait(number=1, kind="event", name="paid")
        assert all(await stage.commit(*(turn(run, out=Out(waits=(wait,))) for run in runs)))
        event = await published(stage, "paid")
        waits = await stage.store.find_waits(event, [])
        assert len(waits) == 1000
        assert await stage.store.deliver_event(event, waits) == 1000
        assert len({message.run_id for message in await stage.store.read_inbox("one")}) == 1000

    async def test_a_wait_that_was_closed_takes_nothing(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.commit(turn(run, out=Out(waits=(NewWait(number=1, kind="event", name="paid"),))))
        [wait] = (await stage.store.read_unmatched(10)).waits
        event = await published(stage, "paid")
        await stage.commit(turn(run, after=1, out=Out(closed=(1,))))
        assert await stage.store.deliver_event(event, [wait]) == 0
        assert await stage.store.read_inbox("one") == []
        assert await stage.store.find_events(wait) == [event]

    async def test_a_number_that_was_registered_anew_is_another_wait(self, stage: Stage) -> None:
        # As when a run is tried again while a worker looks for events for a wait of its earlier try.
        run = await stage.held()
        await stage.commit(turn(run, out=Out(waits=(NewWait(number=1, kind="event", name="paid"),))))
        [before] = (await stage.store.read_unmatched(10)).waits
        event = await published(stage, "paid")
        again = Out(waits=(NewWait(number=1, kind="event", name="shipped"),))
        await stage.commit(turn(run, after=1, at=after(1), out=again), now=after(1))
        assert await stage.store.deliver_event(event, [before]) == 0
        await stage.store.mark_matched({}, [before])
        assert [wait.name for wait in (await stage.store.read_unmatched(10)).waits] == ["shipped"]
        assert await stage.store.read_inbox("one") == []

    async def test_delivering_and_marking_nothing_changes_nothing(self, stage: Stage) -> None:
        event = await published(stage, "paid")
        assert await stage.store.deliver_event(event, []) == 0
        await stage.store.mark_matched({}, [])

    async def test_an_event_begins_its_runs_once(self, stage: Stage) -> None:
        await stage.store.publish_event("paid", b"1", now=T0)
        [event] = (await stage.store.read_unmatched(10)).events
        await stage.store.mark_matched({event.id: []}, [], runs=[new_run(id="first")], now=T0)
        await stage.store.cancel_run("first", force=True, now=T0)
        assert await stage.store.delete_runs(["first"]) == ["first"]
        for again in ("first", "second"):
            await stage.store.mark_matched({event.id: []}, [], runs=[new_run(id=again)], now=T0)
            assert await stage.store.get_run(again) is None

    async def test_a_later_look_finds_the_events_after_the_last_one_seen(self, stage: Stage) -> None:
        wait = await waiting(stage, "paid")
        events = [await published(stage, "paid", at=after(number)) for number in range(4)]
        await stage.store.mark_matched({event.id: [] for event in events}, [], now=after(5))
        seen = Looked(events[1].published_at, events[1].id, after(100))
        assert await stage.store.find_events(wait, looked=seen) == events[2:]
        assert await stage.store.find_events(wait, looked=seen, limit=1) == events[2:3]
        assert await stage.store.find_events(wait, looked=Looked(T0 - SECOND, 0, after(100))) == events

    async def test_a_later_look_does_not_find_what_its_chain_has_taken(self, stage: Stage) -> None:
        run = await stage.held()
        waits = tuple(NewWait(number=number, kind="event", name="paid") for number in (1, 2))
        await stage.commit(turn(run, out=Out(waits=waits)))
        first, second = (await stage.store.read_unmatched(10)).waits
        taken, free = await published(stage, "paid", at=after(1)), await published(stage, "paid", at=after(2))
        assert await stage.store.deliver_event(taken, [first]) == 1
        assert await stage.store.find_events(second, looked=Looked(T0, 0, after(100))) == [free]

    async def test_a_later_look_finds_events_matched_since_however_old_they_are(self, stage: Stage) -> None:
        # `late` was committed after the look, with a time before it.
        wait = await waiting(stage, "paid")
        old, late, new = [await published(stage, "paid", at=after(number)) for number in (1, 2, 3)]
        await stage.store.mark_matched({old.id: []}, [], now=after(4))
        seen = Looked(new.published_at, new.id, after(10))
        await stage.store.mark_matched({late.id: [], new.id: []}, [], now=after(10))
        assert await stage.store.find_events(wait, looked=seen) == [late, new]
        assert await stage.store.deliver_event(late, [wait]) == 1
        assert await stage.store.find_events(wait, looked=seen) == [new]

    async def test_a_later_look_finds_events_not_matched_yet_however_old_they_are(self, stage: Stage) -> None:
        # The worker that matches `late` may have looked for waits before this one existed, and has not marked it yet.
        wait = await waiting(stage, "paid")
        old, late, new = [await published(stage, "paid", at=after(number)) for number in (1, 2, 3)]
        await published(stage, "sent", at=after(1))
        await stage.store.mark_matched({old.id: [], new.id: []}, [], now=after(4))
        seen = Looked(new.published_at, new.id, after(10))
        assert await stage.store.find_events(wait, looked=seen) == [late]
        await stage.store.mark_matched({late.id: []}, [], now=after(4))
        assert await stage.store.find_events(wait, looked=seen) == []

    async def test_a_later_look_finds_nothing_from_before_the_chain(self, stage: Stage) -> None:
        early = await published(stage, "paid", at=T0 - 5)
        wait = await waiting(stage, "paid")
        await stage.store.mark_matched({early.id: []}, [], now=after(10))
        assert await stage.store.find_events(wait, looked=Looked(0, 0, 0)) == []


async def published(stage: Stage, name: str, payload: bytes = b"", *, at: int = T0) -> Event:
    """Publish an event and return it."""
    assert await stage.store.publish_event(name, payload, now=at) is Sent.SENT
    return max((await stage.store.read_unmatched(10_000)).events, key=lambda event: event.id)


def place(event: Event) -> tuple[Instant, int]:
    """Where an event stands among the others of its name."""
    return event.published_at, event.id


async def waiting(stage: Stage, name: str, *, worker: str = "one") -> EventWait:
    """The wait of a new run, held by the worker, for an event."""
    run: ClaimedRun = await stage.held(worker=worker)
    await stage.commit(turn(run, out=Out(waits=(NewWait(number=1, kind="event", name=name),))))
    return (await stage.store.read_unmatched(10_000)).waits[-1]


async def chain_began(stage: Stage, run: ClaimedRun) -> Instant:
    """The time from which a held run gets events: when its chain began."""
    await stage.commit(turn(run, out=Out(waits=(NewWait(number=1, kind="event", name="any"),))))
    return (await stage.store.read_unmatched(10_000)).waits[-1].since
