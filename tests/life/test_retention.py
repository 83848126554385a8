"""The end of runs' rows: delete, prune and archive."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, AsyncRun, DefinitionError, RunFilter, RunNotFound, RunStatus, Worker, step, workflow
from holdfast.client import archives
from holdfast.model import JournalRow
from holdfast.testing import Environment
from tests.life.waiting import until_waiting


@step
async def double(n: int) -> int:
    holdfast.emit("log", n)
    holdfast.set_value("n", n)
    return 2 * n


@workflow
async def quick(n: int) -> int:
    return await double(n)


@workflow
async def told() -> Any:
    return await holdfast.wait_for_signal("go")


@workflow
async def parent() -> int:
    return await quick(1)


async def test_a_deleted_run_is_gone_with_all_it_owned():
    async with Environment(quick) as env:
        run = await env.client.start(quick, 1)
        await run.result()
        assert await env.client.delete(run.id) == 1
        with pytest.raises(RunNotFound):
            await env.client.get_run(run.id)
        with pytest.raises(RunNotFound):
            await env.client.journal(run.id)


async def test_a_live_run_is_not_deleted():
    async with Environment(told) as env:
        run = await env.client.start(told)
        await env.until_waiting(run)
        with pytest.raises(holdfast.HoldfastError):
            await env.client.delete(run.id)
        await run.signal("go", 1)
        assert await run.result() == 1


async def test_a_deleted_run_gives_up_its_key():
    async with Environment(quick) as env:
        run = await env.client.start(quick, 1, key="one")
        await run.result()
        await env.client.delete(run.id)
        again = await env.client.start(quick, 2, key="one")
        assert again.created
        assert await again.result() == 4


async def test_deleting_by_a_filter_deletes_only_ended_runs():
    async with Environment([quick, told]) as env:
        runs = await env.client.start_many(quick, [(1,), (2,)])
        for run in runs:
            await run.result()
        live = await env.client.start(told)
        assert await env.client.delete(RunFilter()) == 2
        assert [run.id async for run in env.client.runs()] == [live.id]


async def test_deleting_an_unknown_id_raises_run_not_found():
    async with Environment(quick) as env:
        with pytest.raises(RunNotFound):
            await env.client.delete("nobody")


async def test_prune_deletes_runs_that_ended_long_enough_ago():
    async with Environment(quick) as env:
        old = await env.client.start(quick, 1)
        await old.result()
        await env.skip("2d")
        young = await env.client.start(quick, 2)
        await young.result()
        assert (await env.client.prune(older_than="1d")).runs == 1
        assert [run.id async for run in env.client.runs()] == [young.id]


async def test_prune_deletes_no_live_run():
    async with Environment(told) as env:
        run = await env.client.start(told)
        await env.until_waiting(run)
        await env.skip("90d")
        assert (await env.client.prune(older_than="1d")).runs == 0
        await run.signal("go", 1)
        assert await run.result() == 1


async def test_prune_deletes_only_runs_that_match_its_filter():
    async with Environment([quick, told]) as env:
        for number, colour in enumerate(["red", "blue"]):
            await (await env.client.start(quick, number, tags={"colour": colour})).result()
        await env.skip("2d")
        assert (await env.client.prune(older_than="1d", where=RunFilter(tags={"colour": "red"}))).runs == 1
        [left] = [run async for run in env.client.runs()]
        assert left.record is not None
        assert left.record.tags == {"colour": "blue"}


async def test_an_archive_has_a_line_for_each_run_that_was_pruned(tmp_path):
    async with Environment(quick) as env:
        runs = await env.client.start_many(quick, [(1,), (2,)])
        for run in runs:
            await run.result()
        await env.skip("2d")
        file = tmp_path / "runs.jsonl"
        pruned = await env.client.prune(older_than="1d", archive=file)
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        assert (pruned.runs, pruned.archived) == (2, file)
        text = file.read_text("utf-8")
        assert len(lines) == 2
        assert all(run.id in text for run in runs)


async def test_an_archive_is_on_the_disk_before_its_runs_are_deleted(tmp_path, monkeypatch):
    done: list[str] = []
    fsync = os.fsync

    def synced(file: int) -> None:
        fsync(file)
        done.append("written")

    async with Environment(quick) as env:
        await (await env.client.start(quick, 1)).result()
        await env.skip("2d")
        delete_runs = env.client.store.delete_runs

        async def deleting(run_ids: Sequence[str]) -> list[str]:
            done.append("deleted")
            return await delete_runs(run_ids)

        monkeypatch.setattr(env.client.store, "delete_runs", deleting)
        monkeypatch.setattr(os, "fsync", synced)
        await env.client.prune(older_than="1d", archive=tmp_path / "runs.jsonl")
    assert done == ["written", "deleted"]


async def test_an_archive_is_only_ever_added_to(tmp_path):
    file = tmp_path / "runs.jsonl"
    async with Environment(quick) as env:
        for number in range(2):
            await (await env.client.start(quick, number)).result()
            await env.skip("2d")
            await env.client.prune(older_than="1d", archive=file)
    assert len(file.read_text("utf-8").splitlines()) == 2


async def test_half_a_line_left_by_a_crash_damages_no_other_line_of_an_archive(tmp_path):
    file = tmp_path / "runs.jsonl"
    file.write_text('{"format": "holdfast-ru', "utf-8")
    async with Environment(quick) as env:
        run = await env.client.start(quick, 1)
        await run.result()
        await env.skip("2d")
        await env.client.prune(older_than="1d", archive=file)
        [_, line] = file.read_text("utf-8").splitlines()
        assert await env.client.import_run(line) == "imported"
        assert await run.result() == 2


async def test_lines_of_several_writers_of_an_archive_do_not_mix(tmp_path):
    file = tmp_path / "runs.jsonl"
    texts = [letter * 100_000 for letter in "abcd"]
    await asyncio.gather(*(asyncio.to_thread(write_often, file, text) for text in texts))
    lines = [line for line in file.read_text("utf-8").splitlines() if line]
    assert Counter(lines) == dict.fromkeys(texts, 50)


def write_often(file: Path, text: str) -> None:
    for _ in range(50):
        archives.append(file, text)


async def test_a_run_that_somebody_else_prunes_meanwhile_is_not_archived_without_its_journal(tmp_path, monkeypatch):
    file = tmp_path / "runs.jsonl"
    async with Environment(quick) as env:
        first, second = await env.client.start_many(quick, [(1,), (2,)])
        await first.result()
        await second.result()
        await env.skip("2d")
        read_journal = env.client.store.read_journal

        async def read_late(run_id: str) -> list[JournalRow]:
            if run_id == first.id:
                await env.client.delete(first.id)
            return await read_journal(run_id)

        monkeypatch.setattr(env.client.store, "read_journal", read_late)
        assert (await env.client.prune(older_than="1d", archive=file)).runs == 1
        assert [json.loads(line)["id"] for line in file.read_text("utf-8").splitlines()] == [second.id]
        third = await env.client.start(quick, 1, id=first.id)
        await third.result()
        with pytest.raises(RunNotFound):
            await env.client.export(first.id)


async def test_prune_deletes_no_run_that_could_not_be_written_to_the_archive(tmp_path):
    async with Environment(quick) as env:
        run = await env.client.start(quick, 1)
        await run.result()
        await env.skip("2d")
        with pytest.raises(OSError, match="nowhere"):
            await env.client.prune(older_than="1d", archive=tmp_path / "nowhere" / "runs.jsonl")
        assert await (await env.client.get_run(quick, id=run.id)).result() == 2


async def test_delete_and_prune_work_on_every_store(url, tmp_path):
    async with AsyncClient(url) as client, Worker(client, workflows=[quick, told, parent]):
        assert await (await client.start(parent)).result(timeout=30) == 2
        for number in range(5):
            await (await client.start(quick, number, key=str(number))).result(timeout=30)
        live = await client.start(told)
        await until_waiting(live)
        first = await client.get_run(quick, key="0")
        assert await client.delete(first.id) == 1
        pruned = await client.prune(older_than=0, archive=tmp_path / "runs.jsonl")
        assert pruned.runs == 6
        assert [run.id async for run in client.runs()] == [live.id]
        await live.signal("go", 1)
        assert await live.result(timeout=30) == 1
        assert live.status is RunStatus.COMPLETED


@workflow
async def looping(rounds: int) -> str:
    holdfast.emit("rounds", rounds)
    if rounds:
        looping.continue_as_new(rounds - 1)
    return str(await holdfast.wait_for_signal("go"))


async def live_chain(env: Environment, rounds: int = 2, **options: Any) -> AsyncRun[str]:
    run = await env.client.start(looping, rounds, **options)
    await env.until_waiting(run)
    return await env.client.get_run(looping, id=run.id)


async def test_the_first_run_of_a_live_chain_is_not_deleted():
    async with Environment(looping) as env:
        run = await live_chain(env)
        last = await env.client.store.find_last(run.id)
        with pytest.raises(
            DefinitionError, match=re.escape(f"{last.id} of that chain is waiting: delete the chain when")
        ):
            await env.client.delete(run.id)
        await run.signal("go", "on")
        assert await run.result() == "on"
        with pytest.raises(DefinitionError, match=re.escape(f"{last.id} of that chain is completed: delete it first")):
            await env.client.delete(run.id)


async def test_a_chain_whose_retention_has_begun_to_act_is_reached_by_its_id():
    async with Environment(looping) as env:
        run = await live_chain(env, retention="1h")
        await env.skip("1d")
        await env.client.store.sweep(100, events_before=0, now=await env.client.store.read_clock())
        assert not (await env.client.start(looping, 0, id=run.id)).created
        assert await env.client.pause(run.id) == await env.client.resume(run.id) == 1
        await env.client.cancel(run.id)
        with pytest.raises(holdfast.RunCancelled):
            await run.result()
        assert [item.value async for item in run.stream("rounds")] == [2, 1, 0]


async def test_deleting_by_a_filter_deletes_chains_that_have_ended_and_the_first_runs_of_no_others():
    async with Environment(looping) as env:
        live, ended = await live_chain(env), await live_chain(env)
        await ended.signal("go", "on")
        await ended.result()
        assert await env.client.delete(RunFilter()) == 4
        left = [run.id async for run in env.client.runs()]
        assert sorted(left) == sorted([live.id, (await env.client.store.find_last(live.id)).id])


async def test_an_archive_has_no_line_for_the_first_run_of_a_chain_that_stays(tmp_path):
    file = tmp_path / "runs.jsonl"
    async with Environment(looping) as env:
        live, ended = await live_chain(env), await live_chain(env, 1)
        await ended.signal("go", "on")
        await ended.result()
        await env.skip("2d")
        assert (await env.client.prune(older_than="1d", archive=file)).runs == 3
        assert (await env.client.prune(older_than="1d", archive=file)).runs == 0
        lines = [json.loads(line)["id"] for line in file.read_text("utf-8").splitlines()]
        assert len(lines) == 3
        assert ended.id in lines
        assert live.id not in lines


@workflow(retention="1d")
async def twice(left: int) -> int:
    if left:
        twice.continue_as_new(left - 1)
    return left


@pytest.mark.parametrize(("options", "kept"), [({"retention": "1h"}, 3_600), ({"retention": None}, None), ({}, 86_400)])
async def test_a_successor_is_kept_as_long_as_the_run_that_it_continues(options, kept):
    async with Environment(twice) as env:
        run = await env.client.start(twice, 1, **options)
        assert await run.result() == 0
        ended = [one.record.retention async for one in env.client.runs(RunFilter(workflow="twice"))]
        assert ended == [None if kept is None else kept * 1_000_000] * 2


@pytest.mark.parametrize(("options", "kept"), [({"retention": "1h"}, 3_600), ({"retention": None}, None), ({}, 86_400)])
async def test_a_successor_of_an_item_of_a_map_is_kept_as_long_as_the_item_s_first_run(options, kept):
    @workflow
    async def body() -> list[int]:
        return await holdfast.map(twice.options(**options), [1])

    async with Environment([body, twice]) as env:
        assert await (await env.client.start(body)).result() == [0]
        ended = [one.record.retention async for one in env.client.runs(RunFilter(workflow="twice"))]
        assert ended == [None if kept is None else kept * 1_000_000] * 2
