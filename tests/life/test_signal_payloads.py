"""Payloads of signals: which one a wait takes by its match, and what does not fit its type is never delivered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple
from uuid import UUID

import pytest

import holdfast
from holdfast import AsyncClient, BadPayload, Codec, Worker, workflow
from holdfast.testing import Environment, assert_durable
from tests.life.waiting import until_waiting


@dataclass
class Approval:
    by: str
    cents: int = 0


@dataclass
class Parcel:
    ids: list[int]
    label: str


class Opaque:
    """What JSON can't hold."""


class Place(NamedTuple):
    x: float
    y: float


@workflow
async def by_the_manager() -> Any:
    return await holdfast.wait_for_signal("approved", match={"by": "manager"})


@workflow
async def approved() -> str:
    approval = await holdfast.wait_for_signal("approved", type=Approval)
    assert isinstance(approval, Approval)
    return f"{approval.by} {approval.cents}"


async def test_a_wait_with_match_leaves_signals_that_do_not_match_in_the_inbox():
    @workflow
    async def choosy() -> list[Any]:
        chosen = await holdfast.wait_for_signal("approved", match={"by": "manager"})
        return [chosen, await holdfast.wait_for_signal("approved")]

    async with Environment(choosy) as env:
        run = await env.client.start(choosy)
        await run.signal("approved", {"by": "clerk"})
        await run.signal("approved", {"by": "manager", "cents": 5})
        assert await run.result() == [{"by": "manager", "cents": 5}, {"by": "clerk"}]


async def test_a_match_looks_into_nested_payloads():
    @workflow
    async def choosy() -> Any:
        return await holdfast.wait_for_signal("approved", match={"who": {"role": "manager"}})

    async with Environment(choosy) as env:
        run = await env.client.start(choosy)
        await env.until_waiting(run)
        await run.signal("approved", {"who": {"role": "clerk"}})
        await run.signal("approved", {"who": {"role": "manager", "name": "Ada"}})
        assert await run.result() == {"who": {"role": "manager", "name": "Ada"}}


async def test_a_named_tuple_is_taken_by_a_wait_for_one():
    @workflow
    async def goes() -> float:
        return (await holdfast.wait_for_signal("there", type=Place)).x

    async with Environment(goes) as env:
        run = await env.client.start(goes)
        await env.until_waiting(run)
        await run.signal("there", Place(1.5, 2.0))
        assert await run.result() == 1.5


async def test_a_typed_signal_arrives_as_an_instance():
    async with Environment(approved) as env:
        run = await env.client.start(approved)
        await env.until_waiting(run)
        await run.signal("approved", Approval("Ada", 5))
        assert await run.result() == "Ada 5"


@pytest.mark.parametrize(
    ("type", "payload", "taken"),
    [
        (list[int], (1, 2), [1, 2]),
        (list[int], frozenset({1}), [1]),
        (set[int], (1, 2), {1, 2}),
        (tuple[int, int], [1, 2], (1, 2)),
        (list[int] | tuple[int, ...], (1, 2), (1, 2)),
        (Parcel, {"ids": (1, 2), "label": UUID(int=5)}, Parcel([1, 2], str(UUID(int=5)))),
        (dict[str, list[str]], {"days": (date(2030, 1, 1),)}, {"days": ["2030-01-01"]}),
        (dict[int, list[int]], {1: (1, 2)}, {1: [1, 2]}),
        (dict[str, list[int]], {"~days": (1, 2)}, {"~days": [1, 2]}),
    ],
)
async def test_a_payload_that_fits_as_json_arrives_as_the_type_that_is_waited_for(type, payload, taken):
    @workflow
    async def waits() -> Any:
        by_hook = holdfast.hook(name="hook", type=type)
        holdfast.set_value("token", by_hook.token)
        return [await holdfast.wait_for_signal("signal", type=type, timeout="1h"), await by_hook.wait()] == [taken] * 2

    async with Environment(workflows=[waits]) as env:
        run = await env.client.start(waits)
        await env.until_waiting(run)
        await run.signal("signal", payload)
        await env.client.resume_hook(await run.value("token"), payload)
        assert await run.result() is True


async def test_a_payload_that_does_not_fit_the_waiting_type_is_refused_at_delivery():
    async with Environment(approved) as env:
        run = await env.client.start(approved)
        await env.until_waiting(run)
        with pytest.raises(BadPayload):
            await run.signal("approved", {"cents": "many"})
        await run.signal("approved", {"by": "Ada"})
        assert await run.result() == "Ada 0"


@pytest.mark.parametrize(
    ("type", "misfit", "fitting"),
    [(Approval | Parcel, {"cents": 5}, Approval("Ada")), (Place, {"x": 1.5}, Place(1.5, 2.0))],
    ids=str,
)
async def test_a_payload_that_fits_no_class_of_a_union_or_no_named_tuple_leaves_the_hook_open(type, misfit, fitting):
    @workflow
    async def asks() -> bool:
        answer = holdfast.hook(name="answer", type=type)
        holdfast.set_value("token", answer.token)
        return await answer.wait() == fitting

    async with Environment(workflows=[asks]) as env:
        run = await env.client.start(asks)
        await env.until_waiting(run)
        token = await run.value("token")
        with pytest.raises(BadPayload):
            await env.client.resume_hook(token, misfit)
        await env.client.resume_hook(token, fitting)
        assert await run.result() is True


async def test_a_payload_that_had_to_be_pickled_is_taken_by_a_typed_wait_and_by_none_that_matches():
    @workflow
    async def takes() -> list[Any]:
        matched = holdfast.wait_for_signal("thing", match={"by": "manager"}, type=dict[str, Any])
        typed = holdfast.wait_for_signal("thing", type=dict[str, Any])
        return list(await asyncio.gather(matched, typed))

    async with Environment(takes, codec=Codec(pickle=True)) as env:
        run = await env.client.start(takes)
        await env.until_waiting(run)
        await run.signal("thing", {"by": Opaque()})
        await run.signal("thing", {"by": "manager"})
        first, second = await run.result()
        assert first == {"by": "manager"}
        assert isinstance(second["by"], Opaque)


async def test_a_buffered_signal_that_does_not_fit_is_set_aside_and_the_wait_goes_on():
    async with Environment(approved) as env:
        run = await env.client.start(approved, delay="1h")
        await run.signal("approved", {"cents": "many"})
        await run.signal("approved", {"by": "Ada", "cents": 1})
        assert await run.result() == "Ada 1"


async def test_a_buffered_signal_that_was_set_aside_is_shown_by_explain():
    async with Environment(approved) as env:
        run = await env.client.start(approved, delay="1h")
        await run.signal("approved", {"cents": "many"})
        await env.skip("2h")
        assert "approved" in str(await env.until_waiting(run))
        assert "set aside" in str(await env.client.explain(run.id))


def test_a_wait_with_match_survives_a_crash_at_every_commit():
    async def drive(env: Any, run: Any) -> None:
        await run.signal("approved", {"by": "clerk"}, message_id="1")
        await run.signal("approved", {"by": "manager"}, message_id="2")

    assert_durable(by_the_manager, drive=drive)


async def test_a_match_is_looked_for_by_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[by_the_manager]):
        run = await client.start(by_the_manager)
        await run.signal("approved", {"by": "clerk"})
        await until_waiting(run)
        await run.signal("approved", {"by": "manager"})
        assert await run.result(timeout=30) == {"by": "manager"}


async def test_a_misfit_is_refused_by_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[approved]):
        run = await client.start(approved)
        await until_waiting(run)
        with pytest.raises(BadPayload):
            await run.signal("approved", 5)
        await run.signal("approved", Approval("Ada"))
        assert await run.result(timeout=30) == "Ada 0"


@dataclass
class Accept:
    by: str


@dataclass
class Decline:
    by: str


@workflow
async def answered() -> str:
    return repr(await holdfast.wait_for_signal("answer", type=Accept | Decline | date | str))


async def test_a_record_that_two_classes_of_a_union_read_alike_is_refused_with_advice():
    async with Environment(answered) as env:
        run = await env.client.start(answered)
        await env.until_waiting(run)
        with pytest.raises(BadPayload, match="told apart by a field of their own"):
            await run.signal("answer", Decline("Ada"))


async def test_text_that_looks_like_a_date_is_text_to_a_wait_for_either():
    async with Environment(answered) as env:
        run = await env.client.start(answered)
        await env.until_waiting(run)
        await run.signal("answer", "2024-05-01")
        assert await run.result() == "'2024-05-01'"
