"""Which version a start takes, and what holds for a workflow that is known by its name only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast import RunFilter
from holdfast.define import StartOptions, workflow
from holdfast.errors import BadArguments, DefinitionError, UnknownWorkflow
from holdfast.model import Lane, microseconds
from tests.client.hands import Hands, ship, total


@workflow(name="pack", version="1", queue="old", deadline="5m")
async def pack_1(order: str, fragile: bool = False) -> None: ...


@workflow(name="pack", version="2", queue="new", retention=None)
async def pack_2(order: str, fragile: bool, *notes: str, gift: bool = False) -> None: ...


@workflow
async def moved(at: datetime, places: tuple[int, ...], names: set[str], pair: tuple[int, str]) -> None: ...


@workflow
async def sealed(by: bytes, names: dict[int, str]) -> None: ...


async def version(client, workflow, *args) -> str:
    return (await (await client.start(workflow, *args)).refresh()).record.version


async def started(client, *args, **kwargs):
    return (await (await client.start_call(*args, **kwargs)).refresh()).record


async def test_a_start_takes_the_workflow_s_own_version_if_no_version_was_ever_registered(client):
    assert await version(client, pack_1, "a") == "1"


async def test_a_start_takes_the_workflow_s_own_version_if_a_live_worker_has_it(client, hands):
    await hands.register(workflows=[pack_1, pack_2])
    assert await version(client, pack_1, "a") == "1"


async def test_a_start_takes_the_newest_version_of_live_workers_if_they_lack_the_workflow_s_own(client, hands):
    await hands.register(workflows=[pack_1])
    assert await version(client, pack_2, "a", True) == "1"


async def test_the_version_registered_last_is_the_newest(client, hands):
    await hands.register(Lane("pack", "b"))
    await Hands(client, "other").register(Lane("pack", "a"))
    assert await version(client, "pack", "x") == "a"


async def test_a_start_takes_no_version_whose_workers_are_gone_while_others_live(client, hands):
    other = Hands(client, "other")
    await hands.register(workflows=[pack_1])
    await other.register(workflows=[pack_2])
    await client.store.remove_worker("other")
    assert await version(client, pack_2, "a", True) == "1"
    assert await version(client, "pack", "a") == "1"


async def test_a_start_takes_the_newest_version_ever_registered_if_no_worker_is_alive(client, hands):
    await hands.register(workflows=[pack_1])
    await Hands(client, "other").register(workflows=[pack_2])
    for worker_id in ("hands", "other"):
        await client.store.remove_worker(worker_id)
    assert await version(client, "pack", "a", True) == "2"
    with pytest.raises(BadArguments, match="fragile"):
        await version(client, pack_1, "a")


async def test_a_start_in_another_version_uses_the_options_of_that_version(client, hands):
    await hands.register(workflows=[pack_1])
    record = (await (await client.start(pack_2, "a", True)).refresh()).record
    assert (record.version, record.queue) == ("1", "old")
    assert record.deadline_at - record.created_at == timedelta(minutes=5)


async def test_arguments_that_the_chosen_version_has_no_parameters_for_are_refused(client, hands):
    await hands.register(workflows=[pack_2])
    with pytest.raises(BadArguments, match=r"pack\(\) is started in version '2'.*fragile.*version '1' first"):
        await client.start(pack_1, "a")
    assert [run async for run in client.runs()] == []


async def test_a_retry_keeps_its_run_s_version_while_a_worker_serves_it(client, hands):
    await hands.register(workflows=[pack_1, pack_2])
    run = await client.start(pack_1, "a")
    await client.cancel(run.id)
    assert (await (await client.retry(run.id)).refresh()).record.version == "1"
    await hands.register(workflows=[pack_2])
    record = (await (await client.retry(run.id)).refresh()).record
    assert (record.version, record.queue) == ("2", "new")


async def test_a_retry_and_a_fork_keep_their_run_s_version_if_no_worker_is_alive(client, hands):
    await hands.register(workflows=[pack_1])
    run = await client.start(pack_1, "a")
    await client.cancel(run.id)
    await Hands(client, "other").register(workflows=[pack_2])
    for worker_id in ("hands", "other"):
        await client.store.remove_worker(worker_id)
    assert (await (await client.retry(run.id)).refresh()).record.version == "1"
    assert (await (await client.fork(run.id)).refresh()).record.version == "1"


async def test_a_fork_from_the_start_with_arguments_for_another_version_runs_in_that_version(client, hands):
    await hands.register(workflows=[pack_1, pack_2])
    run = await client.start(pack_1, "a")
    fork = await client.fork(run.id, input=("a", True, "note"), workflow=pack_2)
    record = (await fork.refresh()).record
    assert (record.version, record.queue) == ("2", "new")


async def test_a_fork_from_the_start_by_another_version_keeps_the_run_s_arguments(client, hands):
    await hands.register(workflows=[pack_1, pack_2])
    run = await client.start(pack_1, "a", True)
    fork = await client.fork(run.id, workflow=pack_2)
    record = (await fork.refresh()).record
    assert (record.version, record.queue, record.input) == ("2", "new", (await run.refresh()).record.input)


async def test_a_fork_by_a_version_that_can_t_take_the_run_s_arguments_is_refused(client, hands):
    await hands.register(workflows=[pack_1, pack_2])
    fitting, run = await client.start(pack_1, "a", True), await client.start(pack_1, "a")
    for which in (run.id, RunFilter(workflow=pack_1)):
        with pytest.raises(BadArguments, match=rf"run {run.id} .*fragile.*give others with input="):
            await client.fork(which, workflow=pack_2)
    assert {one.id async for one in client.runs()} == {fitting.id, run.id}


async def test_a_fork_with_new_arguments_that_its_version_can_t_take_is_refused(client, hands):
    await hands.register(workflows=[pack_1])
    run = await client.start(pack_1, "a")
    with pytest.raises(BadArguments, match="pack"):
        await client.fork(run.id, input=("a", True, "note"), workflow=pack_2)
    assert [one.id async for one in client.runs()] == [run.id]


async def test_a_fork_by_another_workflow_than_the_runs_own_is_refused(client, hands):
    await hands.register(workflows=[pack_1, ship])
    run = await client.start(pack_1, "a")
    with pytest.raises(DefinitionError, match=r"'ship'.*is of 'pack'"):
        await client.fork(run.id, input=("here",), workflow=ship)
    assert [one.id async for one in client.runs()] == [run.id]


async def test_the_declared_options_of_a_workflow_hold_for_runs_started_by_its_name(client, hands):
    await hands.register(workflows=[ship])
    record = (await (await client.start("ship", "here")).refresh()).record
    assert (record.version, record.queue, record.retention) == ("2", "parcels", microseconds("1d"))
    assert record.deadline_at - record.created_at == timedelta(hours=1)


async def test_a_declared_retention_for_ever_holds_for_runs_started_by_name(client, hands):
    await hands.register(workflows=[pack_2])
    assert (await (await client.start("pack", "a", True)).refresh()).record.retention is None


async def test_options_of_a_start_by_name_override_the_declared_ones(client, hands):
    await hands.register(workflows=[ship])
    record = (await (await client.start("ship", "here", deadline="2h", queue="slow", retention=None)).refresh()).record
    assert (record.queue, record.retention) == ("slow", None)
    assert record.deadline_at - record.created_at == timedelta(hours=2)


async def test_a_workflow_goes_to_a_queue_where_it_is_served(client, hands):
    await hands.register(Lane("ship", "2", "fast"), Lane("ship", "2", "slow"))
    assert (await (await client.start("ship", "here")).refresh()).record.queue == "fast"


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "needs order"),
        (("a",), {}, "needs fragile"),
        (("a", True), {"order": "b"}, "given twice"),
        (("a", True), {"fragil": True}, "no parameter 'fragil'"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_at_the_start(client, hands, args, kwargs, said):
    await hands.register(workflows=[pack_2])
    with pytest.raises(BadArguments, match=said):
        await client.start("pack", *args, **kwargs)
    assert [run async for run in client.runs()] == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("no base64", {}), "argument 'by': expected base64"),
        (("aGk=", {"x": "y"}), r"argument 'names': \$\.key\('x'\): expected integer"),
    ],
)
async def test_texts_and_dict_keys_that_do_not_fit_the_declared_types_are_refused_at_the_start(
    client, hands, args, said
):
    await hands.register(workflows=[sealed])
    with pytest.raises(BadArguments, match=said):
        await client.start("sealed", *args)
    assert [run async for run in client.runs()] == []


async def test_start_many_by_name_names_the_item_whose_arguments_do_not_fit(client, hands):
    await hands.register(workflows=[total])
    with pytest.raises(BadArguments) as refused:
        await client.start_many("total", [(1,), (1, 2, 3)])
    assert "item 1 of start_many; nothing was started" in "\n".join(refused.value.__notes__)


async def test_arguments_of_a_start_by_name_are_read_by_the_signature(client, hands):
    await hands.register(workflows=[total])
    run = await client.start("total", 1, b=2, tags={"a": "b"})
    record = (await run.refresh()).record
    assert record.tags == {"a": "b"}
    assert client.codec.arguments(total.fn).unpack(client.codec.open(record.input)) == ((1, 2), {})


async def test_a_start_by_name_keeps_any_arguments_if_the_parameters_are_not_known(client, hands):
    await hands.register(Lane("total", "1"))
    run = await client.start("total", 1, b=2)
    record = (await run.refresh()).record
    assert client.codec.arguments(total.fn).unpack(client.codec.open(record.input)) == ((1,), {"b": 2})


async def test_arguments_sent_without_their_types_are_read_by_the_annotations(client, hands):
    await hands.register(workflows=[moved])
    given = (datetime(2030, 1, 1, tzinfo=UTC), (1, 2), {"a"}, (1, "x"))
    record = (await (await client.start("moved", *given)).refresh()).record
    assert client.codec.arguments(moved.fn).unpack(client.codec.open(record.input)) == (given, {})


async def test_starts_by_name_while_a_worker_is_known_to_be_alive_read_nothing_from_the_store(client, hands):
    await hands.register(workflows=[total])
    await client.start(total, 1)
    before = client.store.stats.reads
    for _ in range(5):
        await client.start(total, 1)
    assert client.store.stats.reads == before


@workflow
async def filed(id: str, key: str = "", tags: str = "") -> None: ...


async def test_start_call_takes_no_argument_for_an_option(client, hands):
    await hands.register(workflows=[filed])
    given = {"id": "a", "key": "b", "tags": "c"}
    record = await started(client, "filed", kwargs=given, options=StartOptions(key="order-42"))
    assert client.codec.plain_arguments(record.input) == (["a", "b", "c"], {})
    assert (record.key, dict(record.tags)) == ("order-42", {})


async def test_start_call_checks_arguments_as_start_does(client, hands):
    await hands.register(workflows=[filed])
    with pytest.raises(BadArguments):
        await client.start_call("filed", kwargs={"number": 1})


async def test_a_version_may_be_asked_for_although_there_is_a_newer_one(client, hands):
    await hands.register(workflows=[pack_1, pack_2])
    assert (await started(client, "pack", ["a"], version="1")).version == "1"
    assert (await started(client, "pack", ["a", True])).version == "2"


async def test_a_version_that_nobody_registered_is_refused_with_those_there_are(client, hands):
    await hands.register(workflows=[pack_1, pack_2])
    with pytest.raises(UnknownWorkflow, match=r"version '3' of the workflow 'pack'.*are: '1', '2'"):
        await client.start_call("pack", ["a"], version="3")


@workflow
async def typed(
    count: int, at: datetime, names: set[str], *more: int, note: str | None = None, limit: int = 3, **rest: float
) -> None: ...


AT = datetime(2030, 1, 1, tzinfo=UTC)
FITTING = [
    ((1, AT, {"a"}), {}),
    ((1, "2030-01-01T00:00:00Z", ["a"], 2, 3), {"note": "x", "share": 1}),
    ((1, AT, []), {"note": None, "limit": None}),
]
UNFIT = [
    (("one", AT, []), {}, "'count'"),
    ((1, 7, []), {}, "'at'"),
    ((1, AT, ["a", 2]), {}, r"'names'.*\[1\]"),
    ((1, AT, [], 2, "x"), {}, "'more'"),
    ((1, AT, []), {"note": 5}, "'note'"),
    ((1, AT, []), {"share": "half"}, "'rest'"),
    ((None, AT, []), {}, "'count'"),
]


@pytest.mark.parametrize(("args", "kwargs"), FITTING, ids=["values", "plain", "nothing"])
async def test_a_start_by_name_accepts_arguments_that_fit_the_declared_types(client, hands, args, kwargs):
    await hands.register(workflows=[typed])
    assert (await started(client, "typed", args, kwargs)).workflow == "typed"


@pytest.mark.parametrize(("args", "kwargs", "culprit"), UNFIT, ids=[str(n) for n in range(len(UNFIT))])
async def test_a_start_by_name_refuses_arguments_that_do_not_fit_the_declared_types(
    client, hands, args, kwargs, culprit
):
    await hands.register(workflows=[typed])
    with pytest.raises(BadArguments, match=culprit):
        await client.start_call("typed", args, kwargs)
    assert [run async for run in client.runs()] == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"args": "ab"}, r"args='ab': expected a list"),
        ({"args": 5}, r"args=5: expected a list"),
        ({"kwargs": [1]}, r"kwargs=\[1\]: expected a mapping"),
        ({"kwargs": {1: 2}}, r"kwargs=\{1: 2\}: expected a mapping"),
    ],
)
async def test_start_call_refuses_data_that_can_be_no_arguments(client, given, words):
    with pytest.raises(BadArguments, match=words):
        await client.start_call("ship", **given)


async def test_start_call_takes_its_options_as_start_options_only(client):
    with pytest.raises(DefinitionError, match=r"options=\{'key': 'a'\}: expected StartOptions"):
        await client.start_call("ship", options={"key": "a"})


async def test_a_fork_by_a_name_that_is_no_workflow_is_refused(client):
    run = await client.start(ship, "a")
    with pytest.raises(DefinitionError, match=r"fork\(workflow='ship'\): expected a function decorated with @workflow"):
        await client.fork(run.id, workflow="ship")
