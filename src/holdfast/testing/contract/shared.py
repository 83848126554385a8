"""Several stores on one database: each sees what the others write, and namespaces are separate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.model import RowChange, RunFilter, RunStatus
from holdfast.store import News, Store

from .managing import refuse_stale_turns
from .stage import LANE, LEASE, PATIENCE, T0, Stage, after, ids_of, new_run, on_stage, turn, until


@on_stage
class TestTwoStores:
    async def test_what_one_store_writes_the_other_reads(self, stage: Stage) -> None:
        other = await stage.open()
        run_id = await stage.start_one()
        assert await other.get_run(run_id) == await stage.run(run_id)

    async def test_a_run_is_claimed_by_one_of_several_stores(self, stage: Stage) -> None:
        stores = [stage.store, await stage.open(), await stage.open()]
        ids = await stage.start(60)
        claims = await asyncio.gather(
            *(store.claim_runs(f"w{n}", [LANE], 7, now=T0) for n, store in enumerate(stores) for _ in range(5))
        )
        claimed = [run.id for claim in claims for run in claim]
        # A run that several want goes to one of them. How many are left for the next claim is a matter of chance.
        while rest := await stage.store.claim_runs("w0", [LANE], 60, now=T0):
            claimed += [run.id for run in rest]
        assert sorted(claimed) == sorted(ids)

    async def test_a_stale_store_s_turn_is_refused(self, stage: Stage) -> None:
        other = await stage.open()
        stale = await stage.held()
        assert await stage.commit(turn(stale)) == [True]
        await stage.lose("one")
        [run] = await other.claim_runs("two", [LANE], 1, now=T0)
        assert await stage.commit(turn(stale, after=1, change=RowChange(status=RunStatus.COMPLETED))) == [False]
        assert await other.commit_turns([turn(run)], now=T0) == [True]
        assert await stage.commit(turn(stale, after=1), turn(stale, after=2)) == [False, False]

    async def test_a_turn_for_a_run_that_the_other_store_has_deleted_is_refused(self, stage: Stage) -> None:
        other = await stage.open()
        run, alive = await stage.held(), await stage.held()
        assert await stage.commit(turn(run)) == [True]
        await other.cancel_run(run.id, force=True, now=T0)
        assert await other.delete_runs([run.id]) == [run.id]
        assert await stage.commit(turn(run, after=1), turn(alive)) == [False, True]
        for place in range(3):
            assert await stage.commit(turn(run, after=place)) == [False]
        [again] = await stage.store.start_runs([new_run(id=run.id)], now=T0)
        assert again.created
        assert await stage.journal(run.id) == []

    async def test_a_turn_of_a_run_that_the_other_store_has_deleted_is_not_taken_for_one_of_a_run_that_has_its_id(
        self, stage: Stage
    ) -> None:
        await refuse_stale_turns(stage, await stage.open())

    async def test_a_turn_racing_a_takeover_is_accepted_before_it_or_refused(self, stage: Stage) -> None:
        other = await stage.open()
        for _ in range(20):
            stale = await stage.held()
            await stage.lose("one")
            (accepted,), claimed = await asyncio.gather(
                stage.commit(turn(stale, b"stale")), other.claim_runs("two", [LANE], 1, run_id=stale.id, now=T0)
            )
            [run] = claimed
            assert (b"stale" in [row.data for row in run.rows]) == accepted
            assert [row.seq for row in run.rows] == list(range(run.next_seq))
            await other.commit_turns([turn(run, change=RowChange(status=RunStatus.COMPLETED))], now=T0)

    async def test_turns_of_two_stores_at_once_are_all_there(self, stage: Stage) -> None:
        other = await stage.open()
        await stage.start(40)
        mine, theirs = await stage.claim(20), await other.claim_runs("two", [LANE], 20, now=T0)
        commits = [stage.store.commit_turns([turn(run, after=seq) for run in mine]) for seq in range(20)]
        commits += [other.commit_turns([turn(run, after=seq) for run in theirs]) for seq in range(20)]
        assert all(all(answer) for answer in await asyncio.gather(*commits))
        for run in (mine[0], theirs[-1]):
            assert [row.seq for row in await other.read_journal(run.id)] == list(range(20))

    async def test_a_cancel_reaches_a_worker_elsewhere(self, stage: Stage) -> None:
        other = await stage.open()
        run = await stage.held()
        await other.cancel_run(run.id, now=T0)
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [run.id]


@on_stage
class TestWakeUps:
    async def test_a_start_in_another_store_notifies_subscribers(self, stage: Stage) -> None:
        other = await stage.open()
        notified: list[int] = []
        unsubscribe = other.subscribe(lambda: notified.append(1))
        for _ in range(3):
            await asyncio.sleep(0.1)
            notified.clear()
            await stage.start_one()
            assert await until(lambda: bool(notified))
        unsubscribe()

    async def test_news_of_another_store_reaches_its_subscribers(self, stage: Stage) -> None:
        other = await stage.open()
        run = await stage.held()
        happenings: dict[News, Callable[[], Awaitable[object]]] = {
            News.VALUES: lambda: stage.store.set_value(run.id, "at", b"1", epoch=run.epoch, now=T0),
            News.ENDS: lambda: stage.end(run),
            News.WORK: lambda: stage.start_one(),
        }
        for news, happen in happenings.items():
            notified: list[int] = []
            unsubscribe = other.subscribe(partial(notified.append, 1), news)
            await asyncio.sleep(0.1)
            notified.clear()
            await happen()
            assert await until(partial(bool, notified))
            unsubscribe()

    async def test_the_last_of_many_quick_writes_notifies_subscribers(self, stage: Stage) -> None:
        other = await stage.open()
        for pause in (0, 0.001, 0.004, 0.009, 0.011) * 3:
            runs = [new_run() for _ in range(3)]
            seen = asyncio.Event()
            unsubscribe = other.subscribe(partial(_look, other, runs[-1].id, seen))
            for run in runs:
                await stage.store.start_runs([run], now=T0)
                await asyncio.sleep(pause)
            assert await until(seen.is_set)
            unsubscribe()

    async def test_a_store_that_writes_itself_still_hears_of_others(self, stage: Stage) -> None:
        other = await stage.open()
        [run] = [await stage.held()]
        notified: list[int] = []
        unsubscribe = stage.store.subscribe(lambda: notified.append(1))
        await asyncio.sleep(0.1)
        notified.clear()
        start = asyncio.ensure_future(other.start_runs([new_run()], now=T0))
        number = 0
        async with asyncio.timeout(PATIENCE):
            while not notified:
                assert await stage.commit(turn(run, after=number)) == [True]
                number += 1
        await start
        unsubscribe()


def _look(store: Store, run_id: str, seen: asyncio.Event) -> None:
    async def look() -> None:
        if await store.get_run(run_id) is not None:
            seen.set()

    task = asyncio.ensure_future(look())
    task.add_done_callback(lambda done: done.exception())


@on_stage
class TestNamespaces:
    async def test_each_namespace_has_ids_and_keys_of_its_own(self, stage: Stage) -> None:
        other = await stage.open(namespace="other")
        run = new_run(id="same", key="k", input=b"mine")
        await stage.store.start_runs([run], now=T0)
        [theirs] = await other.start_runs([new_run(id="same", key="k", input=b"theirs")], now=T0)
        assert theirs.created
        found = await other.find_run(LANE.workflow, "k")
        assert found is not None
        assert found.input == b"theirs"
        assert (await stage.run("same")).input == b"mine"

    async def test_nothing_is_seen_from_another_namespace(self, stage: Stage) -> None:
        other = await stage.open(namespace="other")
        run = await stage.held(key="k")
        await stage.commit(turn(run))
        await stage.store.register_worker("one", [LANE], LEASE)
        assert await other.get_run(run.id) is None
        assert await other.find_run(LANE.workflow, "k") is None
        assert await other.read_journal(run.id) == []
        assert (await other.list_runs(RunFilter())).items == ()
        assert await other.list_workers() == []
        assert await other.list_workflows() == []
        assert await other.list_versions() == []
        assert await other.cancel_run(run.id, force=True, now=T0) is None
        await stage.end(run)
        assert await other.read_ended([run.id]) == []

    async def test_nothing_is_claimed_by_or_due_for_another_namespace(self, stage: Stage) -> None:
        other = await stage.open(namespace="other")
        [run_id] = await stage.start()
        assert await other.next_due([LANE], now=T0) is None
        assert await other.claim_runs("one", [LANE], 10, now=T0) == []
        assert await other.claim_runs("one", [LANE], 10, run_id=run_id, now=T0) == []
        run = await stage.claim_one()
        await stage.hand_back(run)
        await stage.store.cancel_run(run.id, now=T0)
        assert await other.next_due([LANE], now=T0) is None
        assert await other.claim_runs("one", [LANE], 10, now=T0) == []
        assert ids_of(await stage.claim()) == [run_id]

    async def test_nothing_is_written_into_another_namespace(self, stage: Stage) -> None:
        other = await stage.open(namespace="other")
        run = await stage.held()
        assert await other.commit_turns([turn(run)], now=T0) == [False]
        assert await stage.journal(run.id) == []

    async def test_workers_of_one_id_in_two_namespaces_are_two(self, stage: Stage) -> None:
        other = await stage.open(namespace="other")
        await other.register_worker("one", [LANE], 1, now=T0)
        await stage.store.register_worker("one", [LANE], LEASE, now=T0)
        run = await stage.held()
        assert await other.reap_workers("two", now=after(9)) == ["one"]
        await other.remove_worker("one")
        assert (await stage.run(run.id)).owner == "one"
        assert stage.store.renew_lease("one", LEASE, now=after(9)) == after(9)
