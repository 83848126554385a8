"""Signals, events and hooks inside a transaction of the caller's own, by every driver that callers may have."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import asyncpg
import psycopg
import pytest

import holdfast
from holdfast import (
    AsyncClient,
    BadPayload,
    Client,
    DefinitionError,
    HookNotFound,
    HookUsed,
    Retry,
    RunEnded,
    RunNotFound,
    RunStatus,
    Worker,
    step,
    workflow,
)
from tests.contract import ways


@workflow
async def approval() -> list[Any]:
    asked = holdfast.hook(name="ok", type=int)
    holdfast.set_value("token", asked.token)
    note = await holdfast.wait_for_signal("note", type=str)
    news = await holdfast.wait_for_event("news")
    return [note, news, await asked.wait()]


@workflow
async def quick(stop: str = "stop") -> str:
    """Ends, or goes on as another run, with its hook still open."""
    holdfast.set_value("token", holdfast.hook(name="ok").token)
    return str(await holdfast.wait_for_signal(stop))


@workflow
async def rounds(left: int) -> str:
    if left:
        await holdfast.wait_for_signal("next")
        rounds.continue_as_new(left - 1)
    return str(await holdfast.wait_for_signal("note"))


FLOWS = [approval, quick, rounds]


async def drive(url: str, run_id: str) -> str:
    async with AsyncClient(url) as client:
        return (await Worker(client, workflows=FLOWS).drive(run_id)).reason


def waiting(client: Client, url: str) -> tuple[str, str]:
    """A run that waits for its signal, and the token of its hook."""
    run = client.start(approval)
    assert asyncio.run(drive(url, run.id)) == "waiting"
    return run.id, run.value("token")


async def begun(client: AsyncClient, url: str) -> tuple[str, str]:
    run = await client.start(approval)
    assert await drive(url, run.id) == "waiting"
    return run.id, await run.value("token")


class TestBlocking:
    def test_messages_are_there_when_the_caller_has_committed_and_not_before(self, blocking):
        url, way = blocking
        with Client(url) as client:
            run_id, token = waiting(client, url)
            seen = []

            def inside(connection: Any) -> None:
                client.get_run(run_id).signal("note", "50% off", connection=connection)
                client.publish("news", {"a": 1}, connection=connection)
                client.resume_hook(token, 7, connection=connection)
                seen.append((ways.messages(url), ways.events(url)))

            way(url, inside, True)
            assert (seen, ways.messages(url), ways.events(url), ways.orders(url)) == ([(0, 0)], 2, 1, 1)
            assert asyncio.run(drive(url, run_id)) == "ended"
            assert client.get_run(run_id).result() == ["50% off", {"a": 1}, 7]

    def test_nothing_remains_if_the_caller_rolls_back(self, blocking):
        url, way = blocking
        with Client(url) as client:
            run_id, token = waiting(client, url)

            def inside(connection: Any) -> None:
                client.signal(run_id, "note", "a", message_id="m", connection=connection)
                client.publish("news", message_id="m", connection=connection)
                client.resume_hook(token, 7, message_id="m", connection=connection)

            way(url, inside, False)
            assert (ways.messages(url), ways.events(url), ways.orders(url)) == (0, 0, 0)
            # And nothing was remembered of what was undone: neither the ids nor that the hook was used.
            way(url, inside, True)
            assert (ways.messages(url), ways.events(url)) == (2, 1)

    def test_a_message_id_counts_once_within_a_transaction_and_after_it(self, blocking):
        url, way = blocking
        with Client(url) as client:
            run_id, token = waiting(client, url)

            def inside(connection: Any) -> None:
                for _ in range(2):
                    client.signal(run_id, "note", "a", message_id="m", connection=connection)
                    client.publish("news", message_id="m", connection=connection)
                    client.resume_hook(token, 7, message_id="m", connection=connection)

            way(url, inside, True)
            client.signal(run_id, "note", "a", message_id="m")
            client.resume_hook(token, 7, message_id="m")
            assert (ways.messages(url), ways.events(url)) == (2, 1)

    def test_a_refusal_leaves_the_transaction_as_it_was(self, blocking):
        url, way = blocking
        with Client(url) as client:
            run_id, token = waiting(client, url)
            ended = client.start(quick)
            ended.cancel()

            def inside(connection: Any) -> None:
                with pytest.raises(RunNotFound):
                    client.signal("nobody", "note", "a", connection=connection)
                with pytest.raises(RunEnded):
                    client.signal(ended.id, "stop", connection=connection)
                with pytest.raises(BadPayload):
                    client.signal(run_id, "note", 1, connection=connection)
                with pytest.raises(HookNotFound):
                    client.resume_hook("unheard of", connection=connection)
                with pytest.raises(BadPayload):
                    client.resume_hook(token, "x", connection=connection)
                client.resume_hook(token, 7, connection=connection)
                with pytest.raises(HookUsed):
                    client.resume_hook(token, 8, connection=connection)

            way(url, inside, True)
            assert (ways.messages(url), ways.orders(url)) == (1, 1)
            with pytest.raises(HookUsed):
                client.resume_hook(token, 8)

    def test_a_connection_in_no_transaction_that_commits_by_itself_sends_at_once(self, sqlite_url, postgres_url):
        connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        with Client(sqlite_url) as client:
            client.signal(client.start(quick).id, "stop", connection=connection)
            assert (ways.messages(sqlite_url), connection.in_transaction) == (1, False)
        connection.close()
        with Client(postgres_url) as client, psycopg.connect(postgres_url, autocommit=True) as connection:
            client.signal(client.start(quick).id, "stop", connection=connection)
            assert ways.messages(postgres_url) == 1

    async def test_a_connection_that_has_to_be_awaited_is_refused(self, postgres_url):
        connection = await asyncpg.connect(postgres_url)
        with Client(postgres_url) as client:
            run = client.start(quick)
            with pytest.raises(DefinitionError, match="use AsyncClient"):
                run.signal("stop", connection=connection)
            with pytest.raises(DefinitionError, match="use AsyncClient"):
                client.publish("news", connection=connection)
        await connection.close()


class TestAsync:
    async def test_messages_are_there_when_the_caller_has_committed_and_not_before(self, awaited):
        url, way = awaited
        async with AsyncClient(url) as client:
            run_id, token = await begun(client, url)

            async def inside(connection: Any) -> None:
                await (await client.get_run(run_id)).signal("note", "50% off", connection=connection)
                await client.publish("news", {"a": 1}, connection=connection)
                await client.resume_hook(token, 7, connection=connection)
                assert (ways.messages(url), ways.events(url)) == (0, 0)

            await way(url, inside, True)
            assert (ways.messages(url), ways.events(url), ways.orders(url)) == (2, 1, 1)
            assert await drive(url, run_id) == "ended"
            assert await (await client.get_run(run_id)).result() == ["50% off", {"a": 1}, 7]

    async def test_nothing_remains_if_the_caller_rolls_back(self, awaited):
        url, way = awaited
        async with AsyncClient(url) as client:
            run_id, token = await begun(client, url)

            async def inside(connection: Any) -> None:
                for _ in range(2):
                    await client.signal(run_id, "note", "a", message_id="m", connection=connection)
                    await client.publish("news", message_id="m", connection=connection)
                    await client.resume_hook(token, 7, message_id="m", connection=connection)

            await way(url, inside, False)
            assert (ways.messages(url), ways.events(url), ways.orders(url)) == (0, 0, 0)
            await way(url, inside, True)
            assert (ways.messages(url), ways.events(url)) == (2, 1)

    async def test_a_refusal_leaves_the_transaction_as_it_was(self, awaited):
        url, way = awaited
        async with AsyncClient(url) as client:
            run_id, token = await begun(client, url)

            async def inside(connection: Any) -> None:
                with pytest.raises(RunNotFound):
                    await client.signal("nobody", "note", "a", connection=connection)
                with pytest.raises(BadPayload):
                    await client.signal(run_id, "note", 1, connection=connection)
                with pytest.raises(HookNotFound):
                    await client.resume_hook("unheard of", connection=connection)
                await client.resume_hook(token, 7, connection=connection)
                with pytest.raises(HookUsed):
                    await client.resume_hook(token, 8, connection=connection)

            await way(url, inside, True)
            assert (ways.messages(url), ways.orders(url)) == (1, 1)

    async def test_a_worker_hears_of_the_commit(self, awaited):
        url, way = awaited
        async with AsyncClient(url) as client, Worker(client, workflows=FLOWS):
            run = await client.start(quick)
            await way(url, lambda connection: run.signal("stop", "now", connection=connection), True)
            assert await run.result(timeout=30) == "now"

    async def test_other_processes_are_notified_of_the_commit(self, postgres_url):
        async with AsyncClient(postgres_url) as other, AsyncClient(postgres_url) as client:
            run = await client.start(quick)
            heard = asyncio.Event()
            other.store.subscribe(heard.set)
            # Listening begins with a wake-up of its own.
            assert await ways.is_heard(heard)
            for send in (
                lambda connection: run.signal("stop", connection=connection),
                lambda connection: client.publish("news", connection=connection),
            ):
                heard.clear()
                await ways.plain_asyncpg(postgres_url, send, True)
                assert await ways.is_heard(heard)


class TestOpenTransactions:
    """On Postgres, where others write meanwhile."""

    async def test_a_run_ends_while_a_transaction_is_open_that_sends_to_it(self, postgres_url):
        async with AsyncClient(postgres_url) as client:
            run = await client.start(quick)
            assert await drive(postgres_url, run.id) == "waiting"
            token = await run.value("token")

            async def inside(connection: Any) -> None:
                await run.signal("note", message_id="m", connection=connection)
                await client.resume_hook(token, 1, connection=connection)
                await run.signal("stop", "done")
                # A drive that had to wait for the caller would never end: its turn closes the hook.
                assert await drive(postgres_url, run.id) == "ended"

            await ways.plain_asyncpg(postgres_url, inside, True)
            assert await run.result() == "done"
            with pytest.raises(HookUsed):
                await client.resume_hook(token, 1)

    async def test_a_message_that_is_rolled_back_leaves_the_ended_run_and_its_hook_ended(self, postgres_url):
        async with AsyncClient(postgres_url) as client:
            run = await client.start(quick)
            assert await drive(postgres_url, run.id) == "waiting"
            token = await run.value("token")

            async def inside(connection: Any) -> None:
                await client.resume_hook(token, 1, connection=connection)
                await run.signal("stop", "done")
                assert await drive(postgres_url, run.id) == "ended"

            await ways.plain_asyncpg(postgres_url, inside, False)
            with pytest.raises(RunEnded):
                await client.resume_hook(token, 1)

    async def test_a_message_to_a_run_that_continued_meanwhile_reaches_its_successor(self, postgres_url):
        async with AsyncClient(postgres_url) as client:
            run = await client.start(rounds, 1)
            assert await drive(postgres_url, run.id) == "waiting"

            async def inside(connection: Any) -> None:
                await run.signal("note", "late", connection=connection)
                await run.signal("next")
                assert await drive(postgres_url, run.id) == "waiting"
                assert (await run.refresh()).status is RunStatus.CONTINUED

            await ways.plain_asyncpg(postgres_url, inside, True)
            async with Worker(client, workflows=FLOWS):
                assert await run.result(timeout=30) == "late"

    @pytest.mark.parametrize("is_kept", [True, False])
    async def test_a_second_resume_of_a_hook_waits_for_the_transaction_of_the_first(self, postgres_url, is_kept):
        async with AsyncClient(postgres_url) as client:
            _, token = await begun(client, postgres_url)
            connection = await asyncpg.connect(postgres_url)
            holding = connection.transaction()
            await holding.start()
            await client.resume_hook(token, 1, connection=connection)
            second = asyncio.create_task(client.resume_hook(token, 2))
            # Others are not kept waiting.
            await client.publish("news")
            assert not second.done()
            await (holding.commit() if is_kept else holding.rollback())
            if is_kept:
                with pytest.raises(HookUsed):
                    await second
            else:
                await second
            await connection.close()


class TestSteps:
    """In the transaction of a step."""

    async def test_a_transactional_step_tells_another_run_what_it_has_committed(self, sqlite_url):
        with Client(sqlite_url) as outside:

            @step(transaction=True)
            def tell(db: sqlite3.Connection, run_id: str) -> None:
                db.execute(ways.INSERT)
                outside.signal(run_id, "stop", "told", connection=db)

            @workflow
            async def telling(run_id: str) -> None:
                tell(run_id)

            async with AsyncClient(sqlite_url) as client, Worker(client, workflows=[*FLOWS, telling]):
                told = await client.start(quick)
                await (await client.start(telling, told.id)).result(timeout=30)
                assert (await told.result(timeout=30), ways.orders(sqlite_url)) == ("told", 1)

    async def test_a_transactional_step_that_fails_sends_no_message(self, postgres_url):
        async with AsyncClient(postgres_url) as client:

            @step(transaction=True, retry=Retry(attempts=2, initial=0))
            async def tell(db: asyncpg.Connection[Any], run_id: str) -> None:
                await db.execute(ways.INSERT)
                attempt = holdfast.current_step().attempt
                await client.signal(run_id, "stop", f"attempt {attempt}", connection=db)
                if attempt == 1:
                    raise ValueError("once more")

            @workflow
            async def telling(run_id: str) -> None:
                await tell(run_id)

            async with Worker(client, workflows=[*FLOWS, telling]):
                told = await client.start(quick)
                await (await client.start(telling, told.id)).result(timeout=30)
                assert (await told.result(timeout=30), ways.orders(postgres_url)) == ("attempt 2", 1)
