"""Which event a wait gets. Events that one worker's codec can't open wait for a worker whose codec can, and keep nobody
from anything else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, cast

import pytest

from holdfast import AsyncClient, Worker, workflow
from holdfast.codec import AesGcm, Codec
from holdfast.model import SECOND, NewWait, Out
from holdfast.store import SqliteStore, Store, open_store
from holdfast.testing.contract.stage import LANE, LEASE, T0, Stage, turn
from holdfast.worker import SystemClock
from holdfast.worker.events import Matchmaker
from tests.servers import Databases
from tests.worker.stage import until


@workflow
async def nothing() -> None:
    """Ends at once."""


SEALING = Codec(chain=[AesGcm({"a": bytes(32)}, "a")])
PLAIN = Codec()


class SkippingClock(SystemClock):
    skipped = 0

    def monotonic(self) -> int:
        return super().monotonic() + self.skipped


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, database_url: str) -> str:
    if request.param == "sqlite":
        return database_url
    databases: Databases = request.getfixturevalue("postgres")
    return databases.create_database()


@asynccontextmanager
async def on_stage(url: str) -> AsyncIterator[Stage]:
    stage = Stage(lambda: open_store(url))
    await stage.store.open()
    try:
        yield stage
    finally:
        await stage.close()


async def wait_for_paid(stage: Stage, match: bytes | None = b'{"order":1}') -> None:
    """A run that "one" holds waits for an event."""
    run = await stage.held()
    wait = NewWait(number=1, kind="event", name="paid", match=match)
    assert await stage.commit(turn(run, out=Out(waits=(wait,)))) == [True]


async def publish(stage: Stage, codec: Codec, payload: Any) -> None:
    await stage.store.publish_event("paid", codec.message(payload, "publish"), now=T0)


async def got(stage: Stage) -> list[bytes]:
    return [message.payload for message in await stage.store.read_inbox("one")]


def matchmaker(stage: Stage, codec: Codec, clock: SystemClock | None = None) -> Matchmaker:
    return Matchmaker(stage.store, codec, clock or SystemClock())


@pytest.mark.parametrize("is_wait_first", [True, False], ids=["the wait came first", "the event came first"])
async def test_a_worker_that_cannot_read_an_event_leaves_it_to_one_that_can(url, is_wait_first):
    async with on_stage(url) as stage:
        blind, seeing = matchmaker(stage, PLAIN), matchmaker(stage, SEALING)
        if is_wait_first:
            await wait_for_paid(stage)
            assert not await blind.look()
        await publish(stage, SEALING, {"order": 1})
        assert not await blind.look()
        if not is_wait_first:
            await wait_for_paid(stage)
        for _ in range(3):
            assert not await blind.look()
        assert await got(stage) == []
        await seeing.look()
        assert [SEALING.open(payload) for payload in await got(stage)] == [b'{"order":1}']
        found = await stage.store.read_unmatched(10)
        assert (found.events, found.waits) == ((), ())


async def test_a_wait_registered_after_its_event_was_seen_is_left_to_a_worker_that_can_read_the_event(url):
    """The event is not looked at again by itself: marking the wait as looked at would lose it."""
    async with on_stage(url) as stage:
        await publish(stage, SEALING, {"order": 1})
        seeing = matchmaker(stage, SEALING)
        await seeing.look()
        assert (await stage.store.read_unmatched(10)).events == ()
        await wait_for_paid(stage)
        await matchmaker(stage, PLAIN).look()
        assert await got(stage) == []
        await seeing.look()
        assert [SEALING.open(payload) for payload in await got(stage)] == [b'{"order":1}']


async def test_a_wait_gets_the_oldest_event_also_if_a_newer_one_finds_it_first(url):
    async with on_stage(url) as stage:
        worker = matchmaker(stage, PLAIN)
        for number in (1, 2):
            await publish(stage, PLAIN, number)
        await worker.look()
        await wait_for_paid(stage, match=None)
        await publish(stage, PLAIN, 3)
        await worker.look()
        assert [PLAIN.open(payload) for payload in await got(stage)] == [b"1"]


async def test_waits_of_a_run_that_are_all_new_get_the_oldest_events_in_order(url):
    async with on_stage(url) as stage:
        worker = matchmaker(stage, PLAIN)
        await publish(stage, PLAIN, 1)
        await worker.look()
        run = await stage.held()
        waits = tuple(NewWait(number=number, kind="event", name="paid") for number in (1, 2, 3))
        assert await stage.commit(turn(run, out=Out(waits=waits))) == [True]
        await publish(stage, PLAIN, 2)
        await worker.look()
        found = sorted((message.wait, PLAIN.open(message.payload)) for message in await stage.store.read_inbox("one"))
        assert found == [(1, b"1"), (2, b"2")]


async def test_a_wait_not_yet_matched_overtakes_no_older_wait_of_its_run(url):
    async with on_stage(url) as stage:
        worker = matchmaker(stage, PLAIN)
        run = await stage.held()
        for number in (1, 2, 3):
            wait = NewWait(number=number, kind="event", name="paid")
            assert await stage.commit(turn(run, after=number - 1, out=Out(waits=(wait,)))) == [True]
            if number < 3:
                await worker.look()
            await publish(stage, PLAIN, number)
            if number == 1:
                await worker.look()
        await worker.look()
        found = sorted((message.wait, PLAIN.open(message.payload)) for message in await stage.store.read_inbox("one"))
        assert found == [(1, b"1"), (2, b"2"), (3, b"3")]


async def test_a_run_that_has_taken_the_older_events_keeps_no_other_run_from_them(url):
    async with on_stage(url) as stage:
        worker = matchmaker(stage, PLAIN)
        served, late = await stage.held(), await stage.held()
        waits = [NewWait(number=number, kind="event", name="paid") for number in (1, 2)]
        assert await stage.commit(turn(served, out=Out(waits=tuple(waits)))) == [True]
        await publish(stage, PLAIN, 1)
        await worker.look()
        assert await stage.commit(turn(late, out=Out(waits=(waits[0],)))) == [True]
        await publish(stage, PLAIN, 2)
        await worker.look()
        found = {(message.run_id, PLAIN.open(message.payload)) for message in await stage.store.read_inbox("one")}
        assert found == {(served.id, b"1"), (served.id, b"2"), (late.id, b"1")}


class Asked(SqliteStore):
    """A store that keeps the names of some of what it was asked, in order."""

    def __init__(self, url: str) -> None:
        super().__init__(url.removeprefix("sqlite:///"), url, "default")
        self.asked: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name in ("claim_runs", "list_triggers", "mark_matched", "next_due", "read_unmatched"):
            self.asked.append(name)
        return super().__getattribute__(name)


async def test_events_that_nobody_waits_for_are_marked_many_at_a_time(database_url):
    store = Asked(database_url)
    await store.open()
    for number in range(100):
        await store.publish_event("paid", PLAIN.message(number, "publish"))
    await Matchmaker(store, PLAIN, SystemClock()).look()
    assert (await store.read_unmatched(1)).events == ()
    assert (store.asked.count("mark_matched"), store.asked.count("list_triggers")) == (5, 1)
    await store.close()


async def test_a_flood_of_events_keeps_nothing_else_waiting(database_url):
    store = Asked(database_url)
    async with AsyncClient(store) as client:
        await asyncio.gather(*(client.publish("paid", number) for number in range(350)))
        async with Worker(client, workflows=[nothing]):
            await until(lambda: store.asked.count("read_unmatched") > 3)
    await store.close()
    pages = [place for place, name in enumerate(store.asked) if name == "read_unmatched"]
    for page, following in pairwise(pages):
        assert "next_due" in store.asked[page:following]


class Interrupted:
    """A store, but something happens right after what is unmatched was read."""

    def __init__(self, stage: Stage, between: Callable[[], Awaitable[object]]) -> None:
        self._store = stage.store
        self._between = between

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read_unmatched(self, *args: Any, **kwargs: Any) -> Any:
        found = await self._store.read_unmatched(*args, **kwargs)
        await self._between()
        return found


async def test_a_wait_that_was_given_up_while_it_was_looked_at_hides_no_event_from_the_next(url):
    """The wait lost a race, say. The event is old by then and would not be looked at again by itself."""
    async with on_stage(url) as stage:
        an_hour_ago = SystemClock().now() - 3600 * SECOND
        await stage.store.register_worker("one", [LANE], LEASE)
        run = await stage.held(now=an_hour_ago)
        await stage.store.publish_event("paid", PLAIN.message(1, "publish"), now=an_hour_ago)
        [event] = (await stage.store.read_unmatched(1)).events
        await stage.store.mark_matched({event.id: []}, [], now=an_hour_ago)
        first, second = (Out(waits=(NewWait(number=number, kind="event", name="paid"),)) for number in (1, 2))

        async def give_up() -> None:
            assert await stage.commit(turn(run, after=1, out=Out(closed=(1,)))) == [True]

        assert await stage.commit(turn(run, out=first)) == [True]
        worker = matchmaker(stage, PLAIN)
        worker._store = cast(Store, Interrupted(stage, give_up))
        await worker.look()
        worker._store = stage.store
        assert await stage.commit(turn(run, after=2, out=second)) == [True]
        await worker.look()
        assert len(await got(stage)) == 1


async def test_a_wait_without_a_match_gets_an_event_even_from_a_worker_that_can_not_read_it(url):
    async with on_stage(url) as stage:
        await wait_for_paid(stage, match=None)
        await publish(stage, SEALING, {"order": 1})
        await matchmaker(stage, PLAIN).look()
        assert len(await got(stage)) == 1


async def test_events_that_a_worker_can_not_read_keep_it_from_no_later_event(url):
    async with on_stage(url) as stage:
        await wait_for_paid(stage)
        for number in range(250):
            await publish(stage, SEALING, {"order": number + 2})
        await publish(stage, PLAIN, {"order": 1})
        blind = matchmaker(stage, PLAIN)
        looks = 0
        while await blind.look():
            looks += 1
        assert looks == 2
        assert [PLAIN.open(payload) for payload in await got(stage)] == [b'{"order":1}']


async def test_an_event_that_was_passed_over_is_looked_at_again_after_a_while(url):
    async with on_stage(url) as stage:
        clock = SkippingClock()
        codec = Codec()
        worker = matchmaker(stage, codec, clock)
        await wait_for_paid(stage)
        await publish(stage, SEALING, {"order": 1})
        await worker.look()
        worker._codec = SEALING  # as if what can be read had been committed late, before it
        await worker.look()
        assert await got(stage) == []
        clock.skipped = 60 * SECOND
        await worker.look()
        assert len(await got(stage)) == 1


async def test_the_log_says_once_that_events_of_a_name_are_left_to_others(database_url, caplog):
    async with on_stage(database_url) as stage:
        blind = matchmaker(stage, PLAIN)
        for number in range(3):
            await publish(stage, SEALING, {"order": number})
            await blind.look()
        told = [record.getMessage() for record in caplog.records if "left to a worker" in record.getMessage()]
        assert len(told) == 1
        assert "'paid'" in told[0]


DEPTH = 20_000
"""More than any Python reads: 3.13 does up to ten thousand levels, others a thousand or so."""
DEEP = b'{"order":' * DEPTH + b"1" + b"}" * DEPTH


@pytest.mark.parametrize("is_wait_first", [True, False], ids=["the wait came first", "the event came first"])
async def test_an_event_nested_too_deeply_to_be_read_blocks_no_other_event(url, is_wait_first, caplog):
    async with on_stage(url) as stage:
        worker = matchmaker(stage, PLAIN)
        if is_wait_first:
            await wait_for_paid(stage)
            await worker.look()
        await stage.store.publish_event("paid", DEEP, now=T0)
        await stage.store.publish_event("other", DEEP, now=T0)
        await worker.look()
        if is_wait_first:
            await publish(stage, PLAIN, {"order": 1})
        else:
            await wait_for_paid(stage, match=None)
        await worker.look()
        assert await got(stage) == [b'{"order":1}' if is_wait_first else DEEP]
        assert len([record for record in caplog.records if "left to a worker" in record.getMessage()]) == 2


async def test_a_wait_with_a_match_nested_too_deeply_to_be_read_blocks_no_other_wait(url):
    async with on_stage(url) as stage:
        run = await stage.held()
        deep = NewWait(number=1, kind="event", name="paid", match=b'{"a":' + b"[" * DEPTH + b"]" * DEPTH + b"}")
        wait = NewWait(number=2, kind="event", name="paid", match=b'{"order":1}')
        assert await stage.commit(turn(run, out=Out(waits=(deep, wait)))) == [True]
        await publish(stage, PLAIN, {"order": 1})
        await matchmaker(stage, PLAIN).look()
        assert await got(stage) == [b'{"order":1}']


@pytest.mark.parametrize("method", ["find_waits", "find_events"], ids=["of an event", "of a wait"])
async def test_a_match_that_fails_leaves_that_event_and_goes_on_with_the_others(
    database_url, monkeypatch, caplog, method
):
    async with on_stage(database_url) as stage:
        original = getattr(stage.store, method)

        async def fail_once(one: Any, *args: Any, **options: Any) -> Any:
            if one.name == "bad":
                raise RuntimeError("out of luck")
            return await original(one, *args, **options)

        run = await stage.held()
        waits = [NewWait(number=number, kind="event", name=name) for number, name in ((1, "bad"), (2, "paid"))]
        assert await stage.commit(turn(run, out=Out(waits=tuple(waits)))) == [True]
        await stage.store.publish_event("bad", b"1", now=T0)
        await publish(stage, PLAIN, 2)
        clock = SkippingClock()
        worker = matchmaker(stage, PLAIN, clock)
        monkeypatch.setattr(stage.store, method, fail_once)
        for _ in range(3):
            await worker.look()
            clock.skipped += 60 * SECOND
        assert b"2" in await got(stage)
        assert len([record for record in caplog.records if "could not be matched" in record.getMessage()]) == 1
        monkeypatch.setattr(stage.store, method, original)
        await worker.look()
        assert sorted(await got(stage)) == [b"1", b"2"]
        found = await stage.store.read_unmatched(10)
        assert (found.events, found.waits) == ((), ())


async def test_the_next_wait_of_a_run_does_not_walk_the_events_that_the_run_has_taken(url, monkeypatch):
    async with on_stage(url) as stage:
        find_events = stage.store.find_events
        walked: list[Any] = []

        async def find(wait: Any, **options: Any) -> Any:
            walked.append(options.get("looked"))
            return await find_events(wait, **options)

        monkeypatch.setattr(stage.store, "find_events", find)
        run = await stage.held()
        worker = matchmaker(stage, PLAIN)
        for number in range(5):
            await publish(stage, PLAIN, {"order": number})
        for number in range(7):
            wait = NewWait(number=number + 1, kind="event", name="paid")
            assert await stage.commit(turn(run, after=number, out=Out(waits=(wait,)))) == [True]
            await worker.look()
        await publish(stage, PLAIN, {"order": 5})
        await worker.look()
        assert [PLAIN.open(payload) for payload in await got(stage)] == [b'{"order":%d}' % n for n in range(6)]
        # The fifth event ended the fifth wait; the sixth and seventh wait found nothing, and one of them got the last.
        assert walked[0] is None
        assert all(walked[1:])
