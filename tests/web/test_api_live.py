"""Changes of all runs, followed: each is told once, to whoever is there or comes back, and nobody looks for nobody."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import AsyncClient, ClientClosed, DefinitionError, RunEnded, RunNotFound
from holdfast.web.live import LiveRuns
from tests.web.events import followed
from tests.web.stage import checkout, listening, served
from tests.worker.stage import until


async def test_changes_of_runs_are_followed(database_url):
    async with served(database_url) as made, listening(made.app) as address:
        await made.client.start("checkout", "before")
        async with followed(address, "/v1/live?workflow=approval") as events:
            assert (await anext(events)).kind == "ready"
            run = await made.client.start("approval", "ann")
            seen = []
            async for one in events:
                seen.append((one.kind, one.data["id"], one.data["status"]))
                if one.data["status"] == "waiting":
                    await run.signal("answer", "yes")
                elif one.data["status"] == "completed":
                    break
        assert {one[:2] for one in seen} == {("run", run.id)}
        assert seen[-1][2] == "completed"


@pytest.mark.parametrize("name", ["%00", "", "w" * 201])
async def test_following_runs_of_an_invalid_workflow_name_is_refused(database_url, name):
    async with served(database_url) as made:
        for path in ("/v1/live", "/v1/runs"):
            answer = await made.call("GET", f"{path}?workflow={name}")
            [wrong] = answer.json()["errors"]
            assert (answer.status_code, wrong["place"], wrong["field"]) == (422, "query", "workflow")


async def test_a_follower_that_reconnects_gets_the_changes_that_it_missed(database_url):
    async with served(database_url) as made, listening(made.app) as address:
        async with followed(address, "/v1/live") as events:
            place = (await anext(events)).id
        assert place is not None
        await until(lambda: made.app.state.holdfast.live.followers == 0)
        run = await made.client.start("checkout", "4711")
        await run.wait("60s")
        async with followed(address, "/v1/live", **{"Last-Event-ID": place}) as events:
            first, second = await anext(events), await anext(events)
        assert (first.kind, second.kind) == ("ready", "run")
        assert (second.data["id"], second.data["status"]) == (run.id, "completed")


@pytest.mark.parametrize("id", ["nonsense", "00000000-1", "-", "٣"])
async def test_a_follower_that_reconnects_to_another_server_is_told_to_list_again(database_url, id):
    async with served(database_url) as made:
        live = LiveRuns(made.client, pause=0.01)
        changes = live.follow(id)
        assert (await anext(changes)).kind == "reset"
        await changes.aclose()  # type: ignore[attr-defined]


async def test_a_follower_that_missed_more_than_is_kept_is_told_to_list_again(database_url):
    async with served(database_url) as made:
        live = LiveRuns(made.client, pause=0.01, kept=3)
        changes = live.follow(None)
        place = live.id_of((await anext(changes)).number)
        await changes.aclose()  # type: ignore[attr-defined]
        for number in range(8):
            await made.client.start("checkout", str(number), id=str(number))
        changes = live.follow(place)
        assert (await anext(changes)).kind == "reset"
        await changes.aclose()  # type: ignore[attr-defined]


async def test_followers_that_come_at_once_are_told_each_change_once(database_url):
    async with served(database_url) as made:
        live = LiveRuns(made.client, pause=0.01)
        first = live.follow(None)
        place = live.id_of((await anext(first)).number)
        await first.aclose()  # type: ignore[attr-defined]
        run = await made.client.start("checkout", "4711")
        await run.wait("60s")
        several = [live.follow(place) for _ in range(3)]
        await asyncio.gather(*(anext(one) for one in several))
        seen = [await anext(one) for one in several]
        assert [change.run_id for change in seen] == [run.id] * 3
        assert {change.number for change in seen} == {1}
        later = await made.client.start("approval", "ann")
        assert (await anext(several[0])).run_id == later.id
        for one in several:
            await one.aclose()  # type: ignore[attr-defined]


def test_many_followers_at_once_are_served_in_one_event_loop_after_another(database_url):
    client = AsyncClient(database_url)
    live = LiveRuns(client)

    async def follow() -> list[str]:
        several = [live.follow(None) for _ in range(3)]
        kinds = [one.kind for one in await asyncio.gather(*(anext(one) for one in several))]
        for one in several:
            await one.aclose()  # type: ignore[attr-defined]
        return kinds

    assert [asyncio.run(follow()) for _ in range(2)] == [["ready"] * 3] * 2
    asyncio.run(client.close())


async def test_the_database_is_not_asked_while_nobody_follows(database_url):
    async with served(database_url) as made:
        live = LiveRuns(made.client, pause=0.01)
        names = {task.get_name() for task in asyncio.all_tasks()}
        changes = live.follow(None)
        await anext(changes)
        following = asyncio.ensure_future(anext(changes))
        await until(lambda: "holdfast: look at runs" in {task.get_name() for task in asyncio.all_tasks()})
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await changes.aclose()  # type: ignore[attr-defined]
        await until(lambda: {task.get_name() for task in asyncio.all_tasks()} <= names)
        assert live.followers == 0


async def test_a_follower_that_leaves_does_not_disturb_the_others(database_url):
    async with AsyncClient(database_url) as client:
        live = LiveRuns(client, pause=0.01)
        stays, leaves = live.follow(None), live.follow(None)
        hearing = []
        for changes in (stays, leaves):
            assert (await anext(changes)).kind == "ready"
            hearing.append(asyncio.ensure_future(anext(changes)))
        await until(lambda: "holdfast: look at runs" in {task.get_name() for task in asyncio.all_tasks()})
        hearing[1].cancel()
        await asyncio.gather(hearing[1], return_exceptions=True)
        await leaves.aclose()  # type: ignore[attr-defined]
        run = await client.start(checkout, "4711", delay="1h")
        async with asyncio.timeout(60):
            assert (await hearing[0]).run_id == run.id
        await stays.aclose()  # type: ignore[attr-defined]


async def test_a_run_that_newer_ones_crowd_out_has_not_changed(database_url):
    async with served(database_url) as made:
        first = await made.client.start("approval", "first", delay="1h")
        await (await made.client.start("checkout", "4711")).wait("60s")
        live = LiveRuns(made.client, pause=0.01, newest=1, live=1)
        changes = live.follow(None)
        assert (await anext(changes)).kind == "ready"
        for who in ("second", "third"):
            run = await made.client.start("approval", who, delay="1h")
            assert (await anext(changes)).run_id == run.id != first.id
        await changes.aclose()  # type: ignore[attr-defined]


async def test_followers_end_with_the_client(database_url):
    async with AsyncClient(database_url) as client:
        live = LiveRuns(client, pause=0.01)
        changes = live.follow(None)
        assert (await anext(changes)).kind == "ready"
        following = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClientClosed):
            await following


async def test_followers_are_told_of_a_deleted_run(database_url):
    async with served(database_url) as made:
        run = await made.client.start("approval", "ann")
        await made.stage.until_waiting(run)
        live = LiveRuns(made.client, pause=0.01)
        changes = live.follow(None)
        assert (await anext(changes)).kind == "ready"
        await run.cancel(force=True)
        await made.client.delete(run.id)
        change = await anext(changes)
        assert (change.kind, change.run_id) == ("deleted", run.id)
        await changes.aclose()  # type: ignore[attr-defined]


async def test_a_follower_of_one_workflow_is_not_told_of_deleted_runs_of_others(database_url):
    async with served(database_url) as made, listening(made.app) as address:
        other = await made.client.start("approval", "ann", delay="1h")
        own = await made.client.start("checkout", "4711", delay="1h")
        async with followed(address, "/v1/live?workflow=checkout") as told:
            assert (await anext(told)).kind == "ready"
            await other.cancel(force=True)
            await made.client.delete(other.id)
            # Of one look, what has changed is told before what is gone.
            for change in (made.client.pause, made.client.resume):
                await change(own.id)
                one = await anext(told)
                assert (one.kind, one.data["id"]) == ("run", own.id)


async def test_followers_are_told_when_a_run_ends_that_newer_runs_have_crowded_out(database_url):
    async with served(database_url) as made:
        runs = [await made.client.start("approval", str(number)) for number in range(12)]
        for run in runs:
            await made.stage.until_waiting(run)
        live = LiveRuns(made.client, pause=0.01, newest=1, live=2, others=3)
        changes = live.follow(None)
        assert (await anext(changes)).kind == "ready"
        for run in runs:
            await run.signal("answer", "yes")
        ended: set[str] = set()
        async for change in changes:
            if change.run is not None and change.run.status == "completed":
                ended.add(change.run_id)
            if len(ended) == len(runs):
                break
        assert ended == {run.id for run in runs}
        await changes.aclose()  # type: ignore[attr-defined]


async def test_too_many_ends_at_once_tell_followers_to_list_again(database_url, monkeypatch):
    monkeypatch.setattr("holdfast.web.live.GONE", 1)
    async with AsyncClient(database_url) as client:
        runs = [await client.start(checkout, "a", delay="1h") for _ in range(4)]
        live = LiveRuns(client, newest=1)
        await live.look()
        await runs[0].cancel()
        await live.look()
        await runs[1].cancel()
        await runs[2].cancel()
        await live.look()
        assert [(one.kind, one.run_id) for one in live.changes] == [("changed", runs[0].id), ("reset", "")]
        assert live.followed == 1


async def test_runs_created_at_one_moment_that_change_pages_are_not_taken_for_deleted(database_url, monkeypatch):
    monkeypatch.setattr("holdfast.web.live.GONE", 0)
    async with AsyncClient(database_url) as client:
        await client.start_many(checkout, [("a",)] * 9, delay="1h")
        live = LiveRuns(client, newest=1, live=2, others=3)
        for _ in range(7):
            await live.look()
        assert live.changes == ()


async def test_the_oldest_live_runs_are_forgotten_when_there_are_too_many_to_follow(database_url):
    async with AsyncClient(database_url) as client:
        for _ in range(4):
            await client.start(checkout, "a", delay="1h")
        live = LiveRuns(client, newest=1, live=2, others=2, followed=6)
        await live.look()
        for _ in range(20):
            await client.start(checkout, "a", delay="1h")
        for _ in range(12):
            await live.look()
        assert live.followed == 6


DEEDS = st.lists(
    st.tuples(st.sampled_from(["start", "pause", "resume", "cancel", "delete", "look"]), st.integers(0, 30)),
    max_size=40,
)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(DEEDS, st.sampled_from([1, 2, 5]), st.sampled_from([1, 3]))
def test_the_last_change_told_of_a_run_is_always_its_actual_state(deeds, live_page, others):
    async def play() -> None:
        async with AsyncClient("sqlite:///:memory:") as client:
            ids = [(await client.start(checkout, "a", delay="1h")).id for _ in range(5)]
            live = LiveRuns(client, newest=2, live=live_page, others=others)
            await live.look()
            told = await listed(client)
            for deed, number in deeds:
                run_id = ids[number % len(ids)]
                if deed == "start":
                    # All of one moment.
                    ids += [run.id for run in await client.start_many(checkout, [("a",)] * (number % 4), delay="1h")]
                elif deed == "look":
                    await live.look()
                else:
                    with suppress(RunEnded, RunNotFound, DefinitionError):
                        await getattr(client, deed)(run_id)
            # So many looks are two rounds of all there are.
            for _ in range(2 * len(ids) + 2):
                await live.look()
            for change in live.changes:
                if change.kind == "reset":
                    told = await listed(client)
                elif change.run is None:
                    told.pop(change.run_id, None)
                else:
                    told[change.run_id] = (change.run.status, change.run.paused)
            now = await listed(client)
            assert {run_id: told[run_id] for run_id in now} == now

    asyncio.run(play())


async def listed(client: AsyncClient) -> dict[str, tuple[str, bool]]:
    runs = [run.record async for run in client.runs()]
    return {record.id: (record.status.value, record.paused) for record in runs if record is not None}
