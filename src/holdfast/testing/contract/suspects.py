"""Suspects: runs with which two or more workers have died. A claim takes no more of them than it is allowed."""

from __future__ import annotations

from typing import Any

from holdfast.model import RunStatus

from .stage import LANE, T0, Stage, after, ids_of, on_stage


@on_stage
class TestSuspects:
    """A worker's death counts against every run that it has claimed, so suspects beyond the limit are not claimed."""

    async def test_no_more_suspects_are_claimed_than_allowed(self, stage: Stage) -> None:
        suspects = [await _crashed(stage, 2, due_at=after(n)) for n in range(3)]
        fresh = await stage.start(2, now=after(3))
        assert ids_of(await stage.claim(9, suspects=1, now=after(4))) == [suspects[0], *fresh]
        assert ids_of(await stage.claim(9, suspects=0, now=after(4))) == []
        assert ids_of(await stage.claim(9, suspects=1, now=after(4))) == [suspects[1]]

    async def test_a_suspect_that_is_not_claimed_stays_as_it_is(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.hand_back(run, due_at=T0, crashes=2, blocked="it diverged")
        before = await stage.run(run.id)
        assert await stage.claim(9, suspects=0) == []
        assert await stage.run(run.id) == before

    async def test_a_run_whose_second_crash_is_not_counted_yet_is_a_suspect(self, stage: Stage) -> None:
        run_id = await _crashed(stage, 1)
        [run] = await stage.claim(1)
        await stage.lose()
        assert await stage.claim(9, suspects=0) == []
        [again] = await stage.claim(9, suspects=1)
        assert (again.id, again.crashes, again.is_takeover, again.epoch) == (run_id, 2, True, run.epoch + 1)

    async def test_no_suspect_is_claimed_with_a_run_that_a_worker_has_just_died_with(self, stage: Stage) -> None:
        suspect = await _crashed(stage, 2)
        once = await stage.held()
        await stage.lose()
        assert ids_of(await stage.claim(9, suspects=1)) == [once.id]
        assert ids_of(await stage.claim(9, suspects=1)) == [suspect]

    async def test_a_message_does_not_let_a_suspect_be_claimed_beyond_the_limit(self, stage: Stage) -> None:
        suspects = [await _crashed(stage, 2, due_at=None) for _ in range(2)]
        for run_id in suspects:
            await stage.store.send_signal(run_id, "go", b"1", now=T0)
        assert await stage.claim(9, suspects=0) == []
        assert await stage.store.next_due([LANE], suspects=False, now=T0) is None
        assert await stage.store.next_due([LANE], now=T0) == T0
        [first] = await stage.claim(9, suspects=1)
        [second] = await stage.claim(9, suspects=1)
        assert sorted([first.id, second.id]) == sorted(suspects)
        assert [message.name for message in (*first.inbox, *second.inbox)] == ["go", "go"]

    async def test_a_paused_suspect_past_its_deadline_is_limited_like_other_suspects(self, stage: Stage) -> None:
        run_id = await _crashed(stage, 2, deadline_at=after(1))
        await stage.store.pause_runs([run_id], True, now=T0)
        assert await stage.claim(9, suspects=0, now=after(2)) == []
        assert await stage.store.next_due([LANE], suspects=False, now=T0) is None
        assert await stage.store.next_due([LANE], now=T0) == after(1)
        assert ids_of(await stage.claim(9, suspects=1, now=after(2))) == [run_id]

    async def test_suspects_beyond_the_limit_take_no_other_run_s_place(self, stage: Stage) -> None:
        for _ in range(9):
            await _crashed(stage, 2)
        fresh = await stage.start(2, now=after(1))
        assert ids_of(await stage.claim(2, suspects=0, now=after(2))) == fresh

    async def test_a_suspect_of_a_larger_priority_comes_first(self, stage: Stage) -> None:
        await _crashed(stage, 2)
        urgent = await _crashed(stage, 2, due_at=T0, priority=9)
        fresh = await stage.start(3, now=T0, priority=5)
        assert ids_of(await stage.claim(2, suspects=1)) == [urgent, fresh[0]]

    async def test_without_suspects_next_due_leaves_them_out(self, stage: Stage) -> None:
        await _crashed(stage, 2, due_at=after(5))
        assert await stage.store.next_due([LANE], suspects=False, now=T0) is None
        assert await stage.store.next_due([LANE], now=T0) == after(5)
        await stage.start_one(due_at=after(7))
        assert await stage.store.next_due([LANE], suspects=False, now=T0) == after(7)

    async def test_without_a_limit_all_suspects_are_claimed(self, stage: Stage) -> None:
        suspects = [await _crashed(stage, 3) for _ in range(2)]
        once = await stage.held()
        await stage.lose()
        assert sorted(ids_of(await stage.claim(9))) == sorted([*suspects, once.id])


async def _crashed(stage: Stage, crashes: int, *, due_at: int | None = T0, **fields: Any) -> str:
    """A run with `crashes` crashes, handed back and due at `due_at`."""
    run = await stage.held(**fields)
    assert await stage.hand_back(run, status=RunStatus.WAITING, due_at=due_at, crashes=crashes)
    return run.id
