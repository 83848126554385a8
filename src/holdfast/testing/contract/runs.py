"""Reading runs, listing them, cancelling them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.model import (
    FORCED,
    SECOND,
    Cancel,
    Claimed,
    Entry,
    Out,
    RowChange,
    RunFilter,
    RunStatus,
    Started,
    StepAsked,
    StepCompleted,
    Stopped,
    decode_entries,
    encode_entries,
    moment_of,
)

from .stage import LANE, T0, Stage, after, ids_of, new_run, on_stage, turn

_COMPLETED = RowChange(status=RunStatus.COMPLETED)


@on_stage
class TestReading:
    async def test_an_unknown_run_is_none(self, stage: Stage) -> None:
        assert await stage.store.get_run("nobody") is None
        assert await stage.store.find_run(LANE.workflow, "nothing") is None
        # No run can be started with such a key.
        for key in ("a\0b", "\ud800"):
            assert await stage.store.find_run(LANE.workflow, key) is None
        assert await stage.store.read_journal("nobody") == []
        assert await stage.store.cancel_run("nobody", now=T0) is None

    async def test_the_last_run_of_a_chain_is_found_by_any_of_its_runs(self, stage: Stage) -> None:
        ids, run = [], await stage.held()
        for _ in range(3):
            ids.append(run.id)
            out = Out(successor=new_run())
            await stage.commit(turn(run, change=RowChange(status=RunStatus.CONTINUED), out=out))
            run = await stage.claim_one()
        await stage.store.delete_runs([ids[1]])
        for run_id in (ids[0], ids[2], run.id):
            last = await stage.store.find_last(run_id)
            assert last is not None
            assert last.id == run.id
        for run_id in (ids[1], "nobody", "a\0b"):
            assert await stage.store.find_last(run_id) is None

    async def test_only_ended_runs_are_read_as_ended(self, stage: Stage) -> None:
        ids = await stage.start(4)
        for run in (await stage.claim())[:2]:
            await stage.end(run)
        found = await stage.store.read_ended([*ids, "nobody"])
        assert sorted(ids_of(found)) == sorted(ids[:2])
        assert {run.status for run in found} == {RunStatus.COMPLETED}
        assert await stage.store.read_ended([]) == []

    async def test_only_deleted_and_unknown_runs_are_read_as_gone(self, stage: Stage) -> None:
        live, ended, deleted = await stage.start(3)
        for run in await stage.claim():
            if run.id != live:
                await stage.end(run)
        assert await stage.store.delete_runs([deleted]) == [deleted]
        assert await stage.store.read_gone([live, deleted, ended, "nobody"]) == [deleted, "nobody"]
        assert await stage.store.read_gone([]) == []

    async def test_many_ended_runs_are_read_in_one_call(self, stage: Stage) -> None:
        ids = await stage.start(2000)
        runs = await stage.claim(2000)
        assert await stage.store.read_ended(ids) == []
        assert all(await stage.commit(*(turn(run, change=_COMPLETED) for run in runs)))
        assert len(await stage.store.read_ended(ids)) == 2000


@on_stage
class TestListRuns:
    async def listed(self, stage: Stage, limit: int = 100, **where: Any) -> list[str]:
        page = await stage.store.list_runs(RunFilter(**where), limit=limit)
        return ids_of(page.items)

    async def pages(self, stage: Stage, limit: int, **where: Any) -> list[list[str]]:
        pages, cursor = [], None
        while True:
            page = await stage.store.list_runs(RunFilter(**where), cursor=cursor, limit=limit)
            pages.append(ids_of(page.items))
            if page.next is None:
                return pages
            cursor = page.next

    async def test_the_newest_comes_first(self, stage: Stage) -> None:
        ids = [await stage.start_one(now=after(number), workflow=f"w{number % 3}") for number in range(7)]
        assert await self.listed(stage) == ids[::-1]

    async def test_pages_are_full_and_end(self, stage: Stage) -> None:
        ids = [await stage.start_one(now=after(number // 2)) for number in range(7)]
        pages = await self.pages(stage, 3)
        assert [len(page) for page in pages] == [3, 3, 1]
        assert sorted(run_id for page in pages for run_id in page) == sorted(ids)
        assert [len(page) for page in await self.pages(stage, 7)] == [7]

    async def test_pages_are_stable_under_inserts(self, stage: Stage) -> None:
        ids = await stage.start(6)
        first = await stage.store.list_runs(RunFilter(), limit=3)
        await stage.start(5, now=after(1))
        rest = await stage.store.list_runs(RunFilter(), cursor=first.next, limit=10)
        assert sorted(ids_of([*first.items, *rest.items])) == sorted(ids)

    async def test_an_empty_store_has_one_empty_page(self, stage: Stage) -> None:
        assert await self.pages(stage, 5) == [[]]

    @pytest.mark.parametrize("cursor", ["", "x", "AAAA", "äöü", "ks8ABmBMD66jwg==x"])
    async def test_an_invalid_cursor_is_refused(self, stage: Stage, cursor: str) -> None:
        with pytest.raises(ValueError, match="cursor"):
            await stage.store.list_runs(RunFilter(), cursor=cursor)

    async def test_a_limit_below_one_is_refused(self, stage: Stage) -> None:
        with pytest.raises(ValueError, match="limit"):
            await stage.store.list_runs(RunFilter(), limit=0)

    async def test_by_workflow(self, stage: Stage) -> None:
        await stage.start_one()
        other = await stage.start(2, workflow="other")
        assert sorted(await self.listed(stage, workflow="other")) == sorted(other)
        assert await self.listed(stage, workflow="nobody") == []

    async def test_by_status(self, stage: Stage) -> None:
        ids = await stage.start(3)
        first, second = (await stage.claim(2))[:2]
        await stage.end(first, RunStatus.FAILED)
        assert await self.listed(stage, status=RunStatus.FAILED) == [first.id]
        assert await self.listed(stage, status="pending") == [ids[2]]
        assert sorted(await self.listed(stage, status=(RunStatus.FAILED, "running"))) == sorted([first.id, second.id])
        assert await self.listed(stage, status=()) == []
        with pytest.raises(ValueError, match="finished"):
            await self.listed(stage, status="finished")

    async def test_a_status_given_twice_counts_once(self, stage: Stage) -> None:
        ids = await stage.start(5)
        pages = await self.pages(stage, 2, status=("pending", RunStatus.PENDING))
        assert [run_id for page in pages for run_id in page] == ids[::-1]

    async def test_by_key_also_runs_that_no_longer_hold_it(self, stage: Stage) -> None:
        first = await stage.held(key="k")
        await stage.end(first)
        second = await stage.start_one(key="k", on_conflict="restart", now=after(1))
        await stage.start_one(key="other")
        assert await self.listed(stage, key="k") == [second, first.id]

    async def test_by_tags(self, stage: Stage) -> None:
        both = await stage.start_one(tags={"a": "1", "b": "2"})
        one = await stage.start_one(tags={"a": "1"}, now=after(1))
        await stage.start_one()
        assert await self.listed(stage, tags={"a": "1"}) == [one, both]
        assert await self.listed(stage, tags={"a": "1", "b": "2"}) == [both]
        assert await self.listed(stage, tags={"a": "2"}) == []

    async def test_by_the_caller_s_own_function(self, stage: Stage) -> None:
        ids = await stage.start(3, tags={"a": "1"})
        await stage.start_one()
        page = await stage.store.list_runs(RunFilter(tags={"a": "1"}), accept=lambda run: run.id != ids[1])
        assert sorted(ids_of(page.items)) == sorted([ids[0], ids[2]])

    async def test_pages_filtered_by_the_caller_are_complete(self, stage: Stage) -> None:
        runs = [new_run(input=str(number).encode()) for number in range(700)]
        await stage.store.start_runs(runs, now=T0)
        found: list[bytes] = []
        cursor = None
        while True:
            page = await stage.store.list_runs(
                RunFilter(), cursor=cursor, limit=40, accept=lambda run: int(run.input) % 3 == 0
            )
            assert len(page.items) <= 40
            found += [run.input for run in page.items]
            cursor = page.next
            if cursor is None:
                break
        assert sorted(map(int, found)) == list(range(0, 700, 3))

    async def test_the_store_does_not_filter_by_input(self, stage: Stage) -> None:
        found = await stage.start_one(input=b"\xff no json")
        assert await self.listed(stage, input={"a": 1}) == [found]

    async def test_pages_filtered_by_tags_are_complete(self, stage: Stage) -> None:
        runs = [new_run(tags={"odd": str(number % 2)}) for number in range(1300)]
        await stage.store.start_runs(runs, now=T0)
        pages = await self.pages(stage, 100, tags={"odd": "1"})
        found = [run_id for page in pages for run_id in page]
        assert found == [run.id for run in runs if run.tags["odd"] == "1"][::-1]

    async def test_by_time(self, stage: Stage) -> None:
        ids = [await stage.start_one(now=after(number)) for number in range(4)]
        assert await self.listed(stage, since=moment_of(after(1)), until=moment_of(after(3))) == [ids[2], ids[1]]

    async def test_by_parent(self, stage: Stage) -> None:
        child = await stage.start_one(parent_id="p")
        await stage.start_one(parent_id="q")
        assert await self.listed(stage, parent="p") == [child]

    async def test_all_conditions_must_hold(self, stage: Stage) -> None:
        wanted = await stage.start_one(key="k", tags={"a": "1"}, parent_id="p")
        await stage.start_one(key="l", tags={"a": "1"}, parent_id="p")
        where: dict[str, Any] = {
            "workflow": LANE.workflow, "status": "pending", "key": "k", "tags": {"a": "1"}, "parent": "p",
            "since": moment_of(T0), "until": moment_of(after(1)),
        }  # fmt: skip
        assert await self.listed(stage, **where) == [wanted]
        for name in where:
            other = {"status": "failed", "tags": {"a": "2"}, "since": moment_of(after(1)),
                     "until": moment_of(T0)}.get(name, "nothing")  # fmt: skip
            assert await self.listed(stage, **{**where, name: other}) == []


@on_stage
class TestCancelRun:
    async def test_a_run_never_begun_ends_at_once(self, stage: Stage) -> None:
        run_id = await stage.start_one(delay=SECOND)
        before = await stage.store.cancel_run(run_id, now=after(0.5))
        assert before is not None
        assert before.status is RunStatus.PENDING
        found = await stage.run(run_id)
        assert (found.status, found.ended_at, found.due_at) == (RunStatus.CANCELLED, moment_of(after(0.5)), None)
        [(seq, _, data)] = await stage.journal(run_id)
        assert (seq, decode_entries(data)) == (0, [Stopped(after(0.5), "cancelled")])
        assert await stage.claim(now=after(100)) == []

    @pytest.mark.parametrize("force", [False, True])
    async def test_the_reason_for_ending_a_run_never_begun_is_kept(self, stage: Stage, force: bool) -> None:
        run_id = await stage.start_one()
        await stage.store.cancel_run(run_id, reason="sold out", force=force, now=T0)
        [(_, _, data)] = await stage.journal(run_id)
        assert decode_entries(data)[-1] == Stopped(T0, "cancelled", None, None, "sold out")

    async def test_a_run_that_begins_with_rows_hears_of_its_cancel(self, stage: Stage) -> None:
        """The run may have to undo what the rows record, so it is not cancelled without a worker."""
        run_id = await stage.start_one(rows=(b"zero", b"one"), delay=SECOND)
        await stage.store.cancel_run(run_id, now=T0)
        [claimed] = await stage.claim()
        assert (claimed.id, [message.kind for message in claimed.inbox]) == (run_id, ["cancel"])

    async def test_a_run_waiting_for_another_s_end_was_never_begun(self, stage: Stage) -> None:
        old = await stage.held(key="k")
        new = await stage.start_one(key="k", on_conflict="replace")
        await stage.store.cancel_run(new, now=T0)
        assert (await stage.run(new)).status is RunStatus.CANCELLED
        await stage.end(old)
        assert await stage.claim() == []
        assert (await stage.run(new)).due_at is None

    async def test_a_live_run_gets_one_cancel(self, stage: Stage) -> None:
        run = await stage.held()
        for reason in ("first", "second"):
            before = await stage.store.cancel_run(run.id, reason=reason, now=T0)
            assert before is not None
            assert before.status is RunStatus.RUNNING
        [message] = await stage.store.read_inbox("one")
        assert (message.kind, message.name, message.payload) == ("cancel", None, b"first")
        assert (await stage.run(run.id)).status is RunStatus.RUNNING

    async def test_a_cancel_is_found_until_a_turn_has_taken_it(self, stage: Stage) -> None:
        run, other = await stage.held(), await stage.held()
        assert await stage.store.find_cancel(run.id) is None
        await stage.store.cancel_run(run.id, reason="sold out", now=after(1))
        [message] = await stage.store.read_inbox("one")
        assert await stage.store.find_cancel(run.id) == message
        assert (message.run_id, message.payload, message.sent_at) == (run.id, b"sold out", after(1))
        assert await stage.commit(turn(run, taken=(message.id,))) == [True]
        assert await stage.store.find_cancel(run.id) is None
        assert [await stage.store.find_cancel(one) for one in (other.id, "nobody", "\x00")] == [None] * 3

    async def test_a_cancel_that_was_taken_is_not_sent_again(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.cancel_run(run.id, now=T0)
        [message] = await stage.store.read_inbox("one")
        assert await stage.commit(turn(run, taken=(message.id,))) == [True]
        await stage.store.cancel_run(run.id, now=T0)
        assert await stage.store.read_inbox("one") == []

    async def test_a_run_between_two_owners_gets_the_cancel(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.lose("one")
        await stage.store.cancel_run(run.id, now=T0)
        assert (await stage.run(run.id)).status is not RunStatus.CANCELLED
        assert len((await stage.claim_one(worker="two")).inbox) == 1

    async def test_a_cancel_without_a_reason_has_no_payload(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.cancel_run(run.id, now=T0)
        [message] = await stage.store.read_inbox("one")
        assert message.payload == b""

    async def test_force_ends_a_run_whoever_holds_it(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.commit(turn(run)) == [True]
        await stage.store.cancel_run(run.id, now=T0)
        before = await stage.store.cancel_run(run.id, reason="enough", force=True, now=after(1))
        assert before is not None
        assert before.owner == "one"
        found = await stage.run(run.id)
        assert (found.status, found.owner, found.epoch) == (RunStatus.CANCELLED, None, 2)
        assert found.ended_at == moment_of(after(1))
        row = (await stage.store.read_journal(run.id))[-1]
        claimed, ended = decode_entries(row.data)
        assert (row.seq, row.epoch) == (1, 2)
        assert isinstance(claimed, Claimed)
        assert claimed.worker_id == FORCED
        assert isinstance(ended, Stopped)
        assert (ended.at, ended.status, ended.reason) == (after(1), "cancelled", "enough")
        assert ended.skipped == ("whatever its journal asked for, which can't be read",)
        assert await stage.store.read_inbox("one") == []
        assert await stage.commit(turn(run, after=1, change=_COMPLETED)) == [False]
        assert not await stage.hand_back(run, due_at=T0)
        assert await stage.claim(now=after(100)) == []

    @pytest.mark.parametrize(
        ("entries", "skipped"),
        [
            ([], ("its first turn, whose steps are not in the journal yet",)),
            (
                [Started(T0, b"s"), StepAsked("a", b""), StepAsked("b", b""), StepCompleted(T0, "a", 1, b"1")],
                ("step 'b'", "the cleanup of its body"),
            ),
            ([Started(T0, b"s")], ("a wait until 2027-01-15 08:01:00 UTC", "the cleanup of its body")),
            (
                [Started(T0, b"s"), Cancel(T0), StepAsked("tidy", b"")],
                ("step 'tidy'", "the rest of the cleanup that a cancel began"),
            ),
        ],
    )
    async def test_force_lists_what_it_skipped(
        self, stage: Stage, entries: list[Entry], skipped: tuple[str, ...]
    ) -> None:
        run = await stage.held()
        if entries:
            waits = RowChange(status=RunStatus.WAITING, due_at=after(60))
            assert await stage.commit(turn(run, encode_entries(entries), change=waits)) == [True]
        await stage.store.cancel_run(run.id, force=True, now=T0)
        ended = decode_entries((await stage.store.read_journal(run.id))[-1].data)[-1]
        assert isinstance(ended, Stopped)
        assert ended.skipped == skipped

    @pytest.mark.parametrize("force", [False, True])
    async def test_an_ended_run_is_left_alone(self, stage: Stage, force: bool) -> None:
        run = await stage.held()
        await stage.end(run)
        before = await stage.run(run.id)
        assert await stage.store.cancel_run(run.id, force=force, now=after(1)) == before
        assert await stage.run(run.id) == before
        assert len(await stage.journal(run.id)) == 1
