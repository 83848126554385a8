"""Listings: filters, pages, iteration."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from holdfast.client import AsyncClient
from holdfast.codec import AesGcm, Codec
from holdfast.define import step, workflow
from holdfast.errors import BadCursor, BadDuration, DefinitionError
from holdfast.model import RunFilter, RunStatus
from tests.client.hands import Hands, ship, total


@workflow
async def keep(order: dict[str, Any]) -> None: ...


@workflow
async def plan(days: dict[date, str], seats: dict[int, str], odd: Any = None) -> None: ...


async def test_iterating_gives_every_run_newest_first_whatever_the_page_size(client):
    runs = await client.start_many(total, [(n,) for n in range(250)])
    seen = [run.id async for run in client.runs()]
    assert seen == [run.id for run in reversed(runs)]


async def test_a_page_has_the_cursor_of_the_next_one(client):
    runs = await client.start_many(total, [(n,) for n in range(5)])
    listing = client.runs()
    first = await listing.page(limit=3)
    last = await listing.page(cursor=first.next, limit=3)
    assert [run.id for run in (*first.items, *last.items)] == [run.id for run in reversed(runs)]
    assert last.next is None


async def test_listed_handles_carry_their_record_and_can_be_used(client, hands):
    run = await client.start(total, 1)
    await hands.complete(run.id, 6)
    [listed] = [one async for one in client.runs(RunFilter(status="completed"))]
    assert (listed.id, listed.status, listed.workflow) == (run.id, RunStatus.COMPLETED, "total")
    assert await listed.result() == 6


async def test_filters_are_handed_to_the_store(client):
    await client.start(total, 1, tags={"a": "1"})
    mine = await client.start(ship, "here", key="k")
    assert [run.id async for run in client.runs(RunFilter(workflow="ship"))] == [mine.id]
    assert [run.id async for run in client.runs(RunFilter(key="k"))] == [mine.id]
    assert [run.workflow async for run in client.runs(RunFilter(tags={"a": "1"}))] == ["total"]
    assert [run async for run in client.runs(RunFilter(status=("failed", RunStatus.CANCELLED)))] == []


async def found(client, **where):
    return [run.id async for run in client.runs(RunFilter(**where))]


async def test_a_filter_by_input_finds_arguments_by_name_however_they_were_passed(client, hands):
    await hands.register(workflows=[total])
    one = await client.start(total, 1, 2)
    two = await client.start("total", 2, b=2)
    assert await found(client, input={"a": 1}) == [one.id]
    assert await found(client, input={"b": 2}) == [two.id, one.id]
    assert await found(client, input={"a": 2, "b": 2}) == [two.id]
    assert await found(client, input={"a": 2, "c": 2}) == []


async def test_a_filter_by_input_finds_a_dict_with_keys_that_are_no_text_after_a_start_by_name_or_function(
    client, hands
):
    await hands.register(workflows=[plan])
    days, seats = {date(2026, 1, 31): "off", date(2026, 2, 1): "on"}, {1: "Ada", 2: "Ben"}
    by_function = await client.start(plan, days, seats)
    by_name = await client.start("plan", days, seats, odd={1: "a", "1": "b"})
    both = [by_name.id, by_function.id]
    assert await found(client, input={"seats": {"1": "Ada"}}) == both
    assert await found(client, input={"seats": {"1": "Ada", "2": "Ada"}}) == []
    assert await found(client, input={"days": {"2026-01-31": "off"}}) == both
    assert await found(client, input={"odd": {"1": "b"}}) == []


async def test_a_client_knows_the_names_of_what_it_has_started(client):
    by_position = await client.start(total, 1)
    by_name = await client.start(total, a=1)
    assert await found(client, input={"a": 1}) == [by_name.id, by_position.id]
    assert await found(client, input={"a": 2}) == []
    assert await client.cancel(RunFilter(input={"a": 1})) == 2


async def test_a_workflow_in_a_filter_gives_the_argument_names_if_no_worker_has_registered_it(client, database_url):
    run = await client.start(total, 1)
    async with AsyncClient(database_url) as other:
        assert await found(other, workflow=total, input={"a": 1}) == [run.id]
        assert await found(other, workflow=total, input={"a": 2}) == []


@pytest.mark.parametrize("workflow", [None, "total"])
async def test_a_filter_by_input_raises_and_changes_nothing_if_argument_names_are_unknown(
    client, database_url, workflow
):
    run = await client.start(total, 1)
    where = RunFilter(workflow=workflow, input={"a": 1})
    async with AsyncClient(database_url) as other:
        said = r"what the arguments of 'total' version '1' are called.*RunFilter\(workflow=the_function"
        with pytest.raises(DefinitionError, match=said):
            await other.runs(where).page()
        for deed in (other.count, other.cancel, other.pause):
            with pytest.raises(DefinitionError, match=said):
                await deed(where)
        assert (await run.refresh()).status is RunStatus.PENDING
        await run.cancel()
        for deed in (other.retry, other.delete, lambda which: other.prune(older_than="0s", where=which)):
            with pytest.raises(DefinitionError, match=said):
                await deed(where)
        assert (await run.refresh()).status is RunStatus.CANCELLED
        hands = Hands(other)
        await hands.register(workflows=[total])
        assert await found(other, input={"a": 1}) == [run.id]


async def test_a_filter_by_input_finds_arguments_stored_by_name_without_knowing_the_workflow(client, database_url):
    @workflow
    async def named(*, a: int) -> None: ...

    run = await client.start(named, a=1)
    async with AsyncClient(database_url) as other:
        assert await found(other, input={"a": 1}) == [run.id]
        assert await found(other, input={"b": 1}) == []


async def test_a_filter_by_input_needs_no_names_for_a_run_that_other_arguments_rule_out(client, database_url):
    @workflow
    async def mixed(a: int, *, b: int) -> None: ...

    await client.start(mixed, 1, b=2)
    async with AsyncClient(database_url) as other:
        assert await found(other, input={"a": 1, "b": 3}) == []
        with pytest.raises(DefinitionError, match="'mixed'"):
            await found(other, input={"a": 1, "b": 2})


async def test_input_is_read_through_the_codec(database_url):
    async with AsyncClient(database_url, codec=Codec(chain=[AesGcm({"1": bytes(32)}, primary="1")])) as client:
        run = await client.start(keep, {"user": {"id": 7, "name": "x"}, "n": 1})
        assert await found(client, workflow=keep, input={"order": {"user": {"id": 7}}}) == [run.id]
        assert await found(client, workflow=keep, input={"order": {"user": {"id": 8}}}) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tags": "x"}, r"RunFilter\(tags='x'\): expected a mapping of text to text"),
        ({"tags": {"a": 1}}, "expected a mapping of text to text"),
        ({"input": 5}, r"RunFilter\(input=5\): expected arguments by name"),
        ({"input": {"a": object}}, "as plain JSON"),
        ({"input": {1: 2}}, "expected arguments by name"),
        ({"key": 5}, r"RunFilter\(key=5\): expected text"),
        ({"key": "\ud800"}, "expected text"),
        ({"workflow": step(print)}, r"RunFilter\(workflow=<step print>\): this is not a workflow; expected a name"),
        ({"workflow": 5}, "is not a workflow"),
    ],
)
def test_a_filter_with_a_field_of_the_wrong_type_is_refused_when_it_is_made(given, said):
    with pytest.raises(DefinitionError, match=said):
        RunFilter(**given)


async def test_a_filter_with_an_invalid_value_is_refused_at_the_call(client):
    with pytest.raises(DefinitionError, match="'done' is not a valid RunStatus; expected any of pending, running"):
        client.runs(RunFilter(status="done"))
    with pytest.raises(BadDuration, match="since"):
        client.runs(RunFilter(since=datetime(2030, 1, 1)))
    with pytest.raises(BadDuration, match=r"since='1h'\): expected .* not text; give a datetime, such as datetime.now"):
        client.runs(RunFilter(since="1h"))
    with pytest.raises(DefinitionError, match="expected RunFilter"):
        client.runs({"status": "failed"})


async def test_a_bad_cursor_or_limit_is_refused(client):
    with pytest.raises(BadCursor, match="cursor: 'nonsense'"):
        await client.runs().page(cursor="nonsense")
    with pytest.raises(DefinitionError, match="limit=0"):
        await client.runs().page(limit=0)


async def test_workers_and_workflows_are_listed(client, hands):
    await hands.register()
    await client.start(total, 1)
    [worker] = await client.workers()
    [known] = await client.workflows()
    assert (worker.id, worker.lanes[0].workflow) == ("hands", "total")
    assert (known.name, known.versions, known.counts) == ("total", ("1",), {"pending": 1})
