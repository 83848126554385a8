"""Starting runs: what is written, what is refused before anything is, and what a key decides."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.client import AsyncClient
from holdfast.codec import Codec
from holdfast.define import current_scope, workflow
from holdfast.errors import (
    BadArguments,
    BadDuration,
    DefinitionError,
    IOInBody,
    KeyTaken,
    PayloadTooLarge,
    UnknownWorkflow,
)
from holdfast.model import Lane, RunFilter, RunStatus, microseconds
from tests.client.hands import ship, total


@workflow
async def named(key: str = "", b: int = 0) -> str:
    return key


async def count(client: AsyncClient) -> int:
    return len([run async for run in client.runs()])


async def test_a_start_writes_a_pending_run_and_returns_its_handle(client):
    run = await client.start(total, 1, b=2)
    assert (run.workflow, run.status, run.created, run.key) == ("total", RunStatus.PENDING, True, None)
    record = (await run.refresh()).record
    assert record.id == run.id
    assert client.codec.arguments(total.fn).unpack(client.codec.open(record.input)) == ((1, 2), {})


async def test_the_workflows_own_options_are_the_defaults_of_its_runs(client):
    record = (await (await client.start(ship, "here")).refresh()).record
    assert (record.version, record.queue) == ("2", "parcels")
    assert record.deadline_at - record.created_at == timedelta(hours=1)
    assert record.retention == microseconds("1d")


@pytest.mark.parametrize(("given", "kept"), [("2h", microseconds("2h")), (None, None)])
async def test_retention_is_a_duration_or_none_to_keep_a_run_for_ever(client, given, kept):
    direct = await client.start(ship, "here", retention=given)
    chosen = await client.start(ship.options(retention=given), "here")
    assert [(await run.refresh()).record.retention for run in (direct, chosen)] == [kept, kept]


async def test_options_without_a_retention_keep_the_one_chosen_before(client):
    chosen = ship.options(retention=None).options(priority=1)
    assert (await (await client.start(chosen, "here", tags={"a": "b"})).refresh()).record.retention is None


async def test_options_given_directly_win_over_those_of_the_workflow(client):
    chosen = ship.options(key="a", priority=3, queue="slow", tags={"x": "1"})
    record = (await (await client.start(chosen, "here", priority=5, deadline="2h")).refresh()).record
    assert (record.key, record.priority, record.queue, record.tags) == ("a", 5, "slow", {"x": "1"})
    assert record.deadline_at - record.created_at == timedelta(hours=2)


async def test_a_delay_is_a_duration_or_a_moment(client):
    moment = datetime.now(UTC) + timedelta(days=1)
    by_moment = (await (await client.start(total, 1, delay=moment, deadline=moment)).refresh()).record
    by_duration = (await (await client.start(total, 1, delay="5m")).refresh()).record
    assert (by_moment.due_at, by_moment.deadline_at) == (moment, moment)
    assert by_duration.due_at - by_duration.created_at == timedelta(minutes=5)


@pytest.mark.parametrize("args", [(), ("one",), (1, 2, 3)])
async def test_wrong_arguments_are_refused_and_nothing_is_written(client, args):
    with pytest.raises(BadArguments, match="total"):
        await client.start(total, *args)
    assert await count(client) == 0


async def test_wrong_options_are_refused_and_nothing_is_written(client):
    for options, error in [
        ({"priority": 10}, DefinitionError),
        ({"delay": "soon"}, BadDuration),
        ({"delay": datetime(2030, 1, 1)}, BadDuration),
        ({"on_conflict": "ask"}, DefinitionError),
        ({"tags": {"a": 1}}, DefinitionError),
        ({"key": ""}, DefinitionError),
        ({"key": "\ud800"}, DefinitionError),
        ({"id": "a\udfff"}, DefinitionError),
        ({"id": "a\0"}, DefinitionError),
        ({"queue": "\ud800"}, DefinitionError),
        ({"queue": "q" * 201}, DefinitionError),
        ({"tags": {"a": "\ud800"}}, DefinitionError),
        ({"tags": {"\ud800": "a"}}, DefinitionError),
        ({"retention": "for ever"}, BadDuration),
    ]:
        with pytest.raises(error):
            await client.start(total, 1, **options)
    assert await count(client) == 0


@pytest.mark.parametrize("option", ["delay", "deadline"])
def test_the_error_of_a_start_s_time_that_is_text_says_that_it_may_be_a_datetime(option):
    with pytest.raises(BadDuration, match=rf"{option}: '2030-01-01' .*or a timedelta, or an aware datetime$"):
        total.options(**{option: "2030-01-01"})


async def test_starting_something_that_is_no_workflow_is_refused(client):
    def plain() -> None: ...

    with pytest.raises(DefinitionError, match="decorate the function with @workflow"):
        await client.start(plain)
    for other in (3, "", "\ud800", "a\0"):
        with pytest.raises(DefinitionError, match="is not a workflow"):
            await client.start(other)


async def test_an_option_that_is_also_a_parameter_is_refused_with_the_way_out(client):
    with pytest.raises(BadArguments, match=r"named.options\(key=...\)"):
        await client.start(named, key="x")
    run = await client.start(named.options(key="x"), "argument")
    assert run.key == "x"


async def test_an_oversized_payload_is_refused(database_url):
    async with AsyncClient(database_url, max_payload=100) as client:
        with pytest.raises(PayloadTooLarge):
            await client.start(ship, "x" * 200)
        assert await count(client) == 0


async def test_a_codec_that_is_given_is_used(database_url):
    class Loud(Codec):
        def seal(self, plain: bytes) -> bytes:
            sealed.append(plain)
            return super().seal(plain)

    sealed: list[bytes] = []
    async with AsyncClient(database_url, codec=Loud()) as client:
        await client.start(total, 1)
    assert sealed == [b"[1]"]


async def test_a_client_call_in_a_body_is_refused_with_the_durable_way(client):
    token = current_scope.set(object())
    try:
        with pytest.raises(IOInBody, match="it is a child of this run"):
            await client.start(total, 1)
        with pytest.raises(IOInBody):
            client.runs()
    finally:
        current_scope.reset(token)


async def test_a_name_that_nobody_registered_is_refused_with_the_names_there_are(client, hands):
    await hands.register(Lane("total", "1"), Lane("ship", "2"))
    with pytest.raises(UnknownWorkflow, match="known are: total, ship"):
        await client.start("totals", 1)
    assert await count(client) == 0


async def test_a_start_by_name_is_refused_with_advice_if_no_worker_was_ever_registered(client):
    with pytest.raises(UnknownWorkflow, match="start a worker that has it"):
        await client.start("total", 1)


async def test_a_second_start_with_a_key_returns_the_run_there_is(client):
    first = await client.start(total, 1, key="k")
    again = await client.start(total, 2, key="k")
    assert (again.id, first.created, again.created, again.key) == (first.id, True, False, "k")


async def test_a_key_still_counts_when_its_run_has_ended(client, hands):
    first = await client.start(total, 1, key="k")
    await hands.complete(first.id, 1)
    again = await client.start(total, 1, key="k")
    assert (again.id, again.created, again.status) == (first.id, False, RunStatus.COMPLETED)
    assert await again.result() == 1


async def test_a_key_belongs_to_its_workflow(client):
    first = await client.start(total, 1, key="k")
    other = await client.start(ship, "here", key="k")
    assert other.created
    assert other.id != first.id


async def test_concurrent_starts_with_one_key_create_one_run(client):
    runs = await asyncio.gather(*(client.start(total, n, key="k") for n in range(20)))
    assert len({run.id for run in runs}) == 1
    assert [run.created for run in runs].count(True) == 1


async def test_a_start_with_raise_names_the_run_that_has_the_key(client):
    first = await client.start(total, 1, key="k")
    with pytest.raises(KeyTaken, match="has a run with that key 'k' already") as taken:
        await client.start(total, 1, key="k", on_conflict="raise")
    assert taken.value.run_id == first.id
    assert 'on_conflict="return"' in str(taken.value)


async def test_a_start_with_restart_takes_the_key_of_an_ended_run_and_returns_a_live_run(client, hands):
    first = await client.start(total, 1, key="k")
    assert (await client.start(total, 1, key="k", on_conflict="restart")).id == first.id
    await hands.complete(first.id, 1)
    second = await client.start(total, 1, key="k", on_conflict="restart")
    assert second.created
    assert (await client.get_run(total, key="k")).id == second.id


async def test_a_start_with_replace_cancels_a_live_run_and_begins_after_it(client, hands):
    first = await client.start(total, 1, key="k")
    claimed = await hands.claim(first.id)
    second = await client.start(total, 2, key="k", on_conflict="replace")
    assert second.created
    assert (await second.refresh()).record.after_run_id == first.id
    assert [message.kind for message in await client.store.read_inbox("hands")] == ["cancel"]
    assert claimed.id == first.id


async def test_an_id_names_the_run_and_a_second_start_returns_it(client):
    first = await client.start(total, 1, id="mine")
    again = await client.start(total, 2, id="mine")
    assert (first.id, first.created, again.id, again.created) == ("mine", True, "mine", False)


async def test_a_taken_id_is_refused_without_advice_that_holds_for_keys_only(client):
    await client.start(total, 1, id="mine")
    with pytest.raises(KeyTaken, match="has a run with that id already: mine, pending; take another one") as taken:
        await client.start(total, 1, id="mine", on_conflict="raise")
    assert 'on_conflict="return"' in str(taken.value)
    assert "restart" not in str(taken.value)


async def test_an_id_of_another_workflow_is_refused(client):
    await client.start(total, 1, id="mine")
    with pytest.raises(KeyTaken, match="belongs to a run of the workflow 'total', not of 'ship'"):
        await client.start(ship, "here", id="mine")


async def test_many_runs_are_started_in_one_write(client):
    await client._connection.opened()
    before = client.store.stats.commits
    runs = await client.start_many(total, [(n, n) for n in range(50)], tags={"batch": "1"}, priority=2)
    assert client.store.stats.commits == before + 1
    assert len({run.id for run in runs}) == 50
    assert all(run.created for run in runs)
    assert {run.record.tags["batch"] async for run in client.runs(RunFilter(tags={"batch": "1"}))} == {"1"}


async def test_start_many_names_a_wrong_item_and_starts_none(client):
    with pytest.raises(BadArguments) as refused:
        await client.start_many(total, [(1,), (2,), ("three",)])
    assert "item 2 of start_many; nothing was started" in "\n".join(refused.value.__notes__)
    with pytest.raises(BadArguments, match=r"item 1 is int; expected a tuple of arguments, such as \(5,\)"):
        await client.start_many(total, [(1,), 5])
    assert await count(client) == 0


@pytest.mark.parametrize("items", [5, "ab", {"a": 1}, None])
async def test_start_many_refuses_calls_that_are_no_list_by_what_was_given(client, items):
    with pytest.raises(BadArguments, match=f"start_many: the calls are {type(items).__name__}; expected a list"):
        await client.start_many(total, items)


async def test_start_many_refuses_a_key(client):
    with pytest.raises(DefinitionError, match=r"key= is about one run"):
        await client.start_many(total.options(key="k"), [(1,), (2,)])


@pytest.mark.parametrize("name", ["id", "key", "on_conflict"])
async def test_start_many_refuses_options_that_concern_one_run(client, name):
    with pytest.raises(DefinitionError, match=f"start_many: {name}= is about one run; leave it out"):
        await client.start_many(total, [(1,)], **{name: "return"})
    assert await count(client) == 0


async def test_an_option_that_start_many_does_not_have_is_refused(client):
    with pytest.raises(DefinitionError, match=r"no option 'b'.*Arguments go into the tuples"):
        await client.start_many(total, [(1,)], b=2)


async def test_start_many_without_calls_starts_nothing(client):
    assert await client.start_many(total, []) == []


async def test_start_many_starts_runs_by_name(client, hands):
    await hands.register()
    runs = await client.start_many("total", [(1,), (2,)])
    assert [run.workflow for run in runs] == ["total", "total"]
