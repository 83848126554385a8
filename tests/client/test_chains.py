"""Following a run that continues as new, and a cancelled run that could not be undone, with a real worker."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import AsyncClient, FatalError, NotCompensated, RunCancelled, RunNotFound, Worker, workflow
from holdfast.model import RunRecord


@workflow
async def counting(count: int) -> int:
    holdfast.emit("counts", count)
    await holdfast.sleep("0.05s")
    if count < 3:
        counting.continue_as_new(count + 1)
    return count


def undo() -> None:
    raise FatalError("it is glued on")


@workflow
async def stubborn() -> None:
    holdfast.compensate(undo)
    holdfast.set_value("phase", "begun")
    await holdfast.sleep("1h")


async def test_a_stream_is_followed_along_the_chain_to_its_end(database_url):
    async with AsyncClient(database_url) as client, Worker(client, workflows=[counting]):
        run = await client.start(counting, 0)
        assert [item.value async for item in run.stream("counts")] == [0, 1, 2, 3]


async def test_a_chain_that_has_ended_is_read_from_its_first_run(database_url):
    async with AsyncClient(database_url) as client, Worker(client, workflows=[counting]):
        run = await client.start(counting, 0)
        await run.result(timeout=30)
        assert [item.value async for item in run.stream("counts", after=2)] == [2, 3]


async def test_changes_are_followed_along_the_chain_to_its_end(database_url):
    async with AsyncClient(database_url) as client, Worker(client, workflows=[counting]):
        run = await client.start(counting, 0)
        seen = [status async for status in run.changes()]
        assert (seen.count("continued"), seen[-1]) == (3, "completed")


async def test_a_cancelled_run_says_what_could_not_be_undone(database_url):
    async with AsyncClient(database_url) as client, Worker(client, workflows=[stubborn]):
        run = await client.start(stubborn)
        async for status in run.changes():
            if status == "waiting":
                break
        await run.cancel()
        with pytest.raises(RunCancelled) as told:
            await run.result(timeout=30)
        assert isinstance(told.value.__cause__, NotCompensated)
        assert "it is glued on" in str(told.value.__cause__)
        assert "only a new run can go on" in str(told.value)


@workflow
async def hopping(count: int) -> int:
    if count < 3:
        hopping.continue_as_new(count + 1)
    return int(await holdfast.wait_for_signal("go"))


async def test_a_chain_whose_middle_run_was_deleted_is_followed_from_its_first_to_its_last(database_url):
    async with AsyncClient(database_url) as client, Worker(client, workflows=[hopping]):
        run = await client.start(hopping, 0)
        async for status in run.changes():
            if status == "waiting":
                break
        live = run.record.id
        middle = (await client.get_run(run.id)).record.successor_id
        assert await client.delete(middle)
        first = await client.get_run(run.id)
        with pytest.raises(TimeoutError):
            await first.result(timeout=0)
        assert await client.pause(run.id)
        assert (await client.get_run(live)).record.paused
        await client.resume(run.id)
        await first.signal("go", 5)
        assert [status async for status in first.changes()][-1] == "completed"
        assert first.record.id == live
        assert await (await client.get_run(run.id)).result(timeout=30) == 5


@workflow
async def stepping(count: int) -> int:
    step = await holdfast.wait_for_signal("go")
    if step:
        stepping.continue_as_new(count + step)
    return count


async def test_a_repeated_wait_finds_the_last_run_though_the_one_last_known_was_deleted(database_url):
    async with AsyncClient(database_url) as client, Worker(client, workflows=[stepping]):
        run = await client.start(stepping, 0)
        ids = [run.id]
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await run.wait(timeout=0)
            await run.signal("go", 1)
            async for _status in (await client.get_run(run.id)).changes():
                if (last := await client.store.find_last(run.id)).id not in ids and last.status == "waiting":
                    break
            ids.append(last.id)
        assert await client.delete(ids[1])
        with pytest.raises(TimeoutError):
            await run.wait(timeout=0)
        await run.signal("go", 0)
        assert await run.result(timeout=30) == 2


async def test_a_chain_whose_last_run_was_deleted_is_not_found(database_url):
    async with AsyncClient(database_url) as client, Worker(client, workflows=[counting]):
        run = await client.start(counting, 0)
        await run.result(timeout=30)
        assert await client.delete(run.record.id)
        with pytest.raises(RunNotFound):
            await (await client.get_run(run.id)).result(timeout=0)


async def test_a_repeated_wait_begins_with_the_last_known_run_of_the_chain(database_url, monkeypatch):
    async with AsyncClient(database_url) as client, Worker(client, workflows=[hopping]):
        run = await client.start(hopping, 0)
        async for status in run.changes():
            if status == "waiting":
                break
        asked: list[str] = []
        get_run = client.store.get_run

        async def heard(run_id: str) -> RunRecord | None:
            asked.append(run_id)
            return await get_run(run_id)

        monkeypatch.setattr(client.store, "get_run", heard)
        seen = []
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await run.wait(timeout=0)
            seen.append(list(dict.fromkeys(asked)))
            asked.clear()
        assert len(seen[0]) == 4
        assert seen[1] == seen[0][-1:]
        await run.signal("go", 5)
        assert await run.result(timeout=30) == 5
