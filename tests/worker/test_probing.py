"""What a wait that looks back walks: the events that it may match, and none of the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import permutations
from typing import Any

import msgspec
import pytest

from holdfast.codec import Codec
from holdfast.model import Event, NewWait, Out, probe_of
from holdfast.testing.contract.stage import T0, Stage, turn
from holdfast.worker.events import Matchmaker
from tests.worker.test_matching import PLAIN, SEALING, got, matchmaker, on_stage, publish, url

__all__ = ["url"]
"""A fixture."""
MANY = {f"field {number}": number for number in range(70)}


async def wait_for_order(stage: Stage, order: int, number: int = 1, run: Any = None) -> Any:
    """A run that "one" holds waits for the payment of an order, as the engine registers it."""
    run = run or await stage.held()
    match = {"order": order}
    wait = NewWait(
        number=number,
        kind="event",
        name="paid",
        match=msgspec.json.encode(match),
        probe=probe_of("paid", match),
    )
    assert await stage.commit(turn(run, after=number - 1, out=Out(waits=(wait,)))) == [True]
    return run


def walked(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """The events that looks find from now on."""
    found: list[Event] = []
    find_events = stage.store.find_events

    async def find(*args: Any, **given: Any) -> Any:
        events = await find_events(*args, **given)
        found.extend(events)
        return events

    monkeypatch.setattr(stage.store, "find_events", find)
    return found


async def settle(worker: Matchmaker) -> None:
    while await worker.look():
        pass


async def test_a_wait_walks_no_events_that_it_cannot_match(url, monkeypatch):
    async with on_stage(url) as stage:
        worker = matchmaker(stage, PLAIN)
        for number in range(250):
            await publish(stage, PLAIN, {"order": number})
        await settle(worker)
        found = walked(stage, monkeypatch)
        await wait_for_order(stage, 40)
        await wait_for_order(stage, 1_000)
        await settle(worker)
        assert [PLAIN.open(payload) for payload in await got(stage)] == [b'{"order":40}']
        assert len(found) == 1


@pytest.mark.parametrize("steps", list(permutations(["publish", "wait", "look"])), ids=" ".join)
async def test_an_event_and_a_wait_meet_in_whatever_order_they_come(url, steps):
    async with on_stage(url) as stage:
        worker = matchmaker(stage, PLAIN)
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "publish": lambda: publish(stage, PLAIN, {"order": 1}),
            "wait": lambda: wait_for_order(stage, 1),
            "look": lambda: settle(worker),
        }
        for step in (*steps, "look"):
            await acts[step]()
        assert len(await got(stage)) == 1


@pytest.mark.parametrize(
    ("codec", "payload"),
    [(SEALING, {"order": 1}), (PLAIN, {**MANY, "order": 1})],
    ids=["sealed", "of many values"],
)
async def test_an_event_of_which_no_values_are_noted_is_found_by_every_wait(url, monkeypatch, codec, payload):
    async with on_stage(url) as stage:
        worker = matchmaker(stage, SEALING)
        await publish(stage, codec, payload)
        await settle(worker)
        found = walked(stage, monkeypatch)
        for order in (1, 2):
            await wait_for_order(stage, order)
        await settle(worker)
        assert len(await got(stage)) == 1
        assert len(found) == 2


async def test_digests_of_sealed_values_are_not_stored(url, monkeypatch):
    async with on_stage(url) as stage:
        noted: list[bytes] = []
        mark = stage.store.mark_matched

        async def note(events: Any, *args: Any, **given: Any) -> None:
            noted.extend(probe for probes in events.values() for probe in probes)
            await mark(events, *args, **given)

        monkeypatch.setattr(stage.store, "mark_matched", note)
        await publish(stage, SEALING, {"order": 1})
        await settle(matchmaker(stage, SEALING))
        assert noted == [probe_of("paid", None)]


@pytest.mark.parametrize("is_marked", [False, True], ids=["before the mark", "after the mark"])
async def test_a_wait_registered_while_its_event_is_matched_gets_it(url, monkeypatch, is_marked):
    """The event has found no waits, and its probes are not noted yet, or have just been."""
    async with on_stage(url) as stage:
        worker = matchmaker(stage, PLAIN)
        other = matchmaker(stage, PLAIN)
        mark = stage.store.mark_matched

        async def between(*args: Any, **given: Any) -> None:
            monkeypatch.setattr(stage.store, "mark_matched", mark)
            if is_marked:
                await mark(*args, **given)
            await wait_for_order(stage, 1)
            await settle(other)
            await mark(*args, **given)

        await publish(stage, PLAIN, {"order": 1})
        monkeypatch.setattr(stage.store, "mark_matched", between)
        await settle(worker)
        assert len(await got(stage)) == 1
        assert (await stage.store.read_unmatched(10)).waits == ()


async def test_a_worker_that_dies_before_it_marks_an_event_leaves_it_to_be_found(url, monkeypatch):
    async with on_stage(url) as stage:
        mark = stage.store.mark_matched

        async def die(*args: Any, **given: Any) -> None:
            raise RuntimeError("dead")

        await publish(stage, PLAIN, {"order": 1})
        monkeypatch.setattr(stage.store, "mark_matched", die)
        with pytest.raises(RuntimeError, match="dead"):
            await matchmaker(stage, PLAIN).look()
        monkeypatch.setattr(stage.store, "mark_matched", mark)
        await wait_for_order(stage, 1)
        await settle(matchmaker(stage, PLAIN))
        assert len(await got(stage)) == 1


async def test_an_event_that_is_committed_late_is_taken_before_those_behind_it(url):
    async with on_stage(url) as stage:
        worker = matchmaker(stage, Codec())

        async def publish_at(number: int, at: int) -> None:
            await stage.store.publish_event("paid", PLAIN.message({"order": 1, "n": number}, "publish"), now=T0 + at)

        for number in (1, 3, 4):
            await publish_at(number, number)
        await settle(worker)
        run = await wait_for_order(stage, 1)
        await settle(worker)
        await wait_for_order(stage, 1, 2, run)
        await settle(worker)
        await publish_at(2, 2)
        await settle(worker)
        for number in (3, 4):
            await wait_for_order(stage, 1, number, run)
            await settle(worker)
        taken = [msgspec.json.decode(PLAIN.open(payload))["n"] for payload in await got(stage)]
        assert taken == [1, 3, 2, 4]
