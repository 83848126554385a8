"""Which subscribers are notified of what. Those concerned must be; needless notifications are allowed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.model import (
    ClaimedRun,
    NewRun,
    NewWait,
    Out,
    OutEvent,
    OutSignal,
    RowChange,
    RunStatus,
    StepItems,
)
from holdfast.store import News

from .stage import T0, Stage, new_run, on_stage, quiet, turn, until

Happening = Callable[[], Awaitable[object]]


@on_stage
class TestNews:
    async def test_an_end_notifies_those_who_wait_for_ends(self, stage: Stage) -> None:
        for happen in (
            lambda run: stage.end(run),
            lambda run: stage.end(run, RunStatus.FAILED),
            lambda run: stage.store.cancel_run(run.id, force=True, now=T0),
            lambda run: stage.commit(_continued(run)),
        ):
            run = await stage.held()
            assert await _notifies(stage, News.ENDS, lambda happen=happen, run=run: happen(run))  # type: ignore[misc]

    async def test_a_cancel_before_a_run_began_notifies_those_who_wait_for_ends(self, stage: Stage) -> None:
        run_id = await stage.start_one()
        assert await _notifies(stage, News.ENDS, lambda: stage.store.cancel_run(run_id, now=T0))

    async def test_an_end_notifies_workers_if_a_parent_waits_for_it(self, stage: Stage) -> None:
        parent = await stage.held()
        child = await _begun(stage, parent)
        assert await _notifies(stage, News.WORK, lambda: stage.end(child))

    async def test_an_end_notifies_workers_if_it_cancels_a_child(self, stage: Stage) -> None:
        parent = await stage.held()
        await _begun(stage, parent)
        assert await _notifies(stage, News.WORK, lambda: stage.commit(_ended(parent, after=1)))

    async def test_an_end_notifies_workers_if_another_run_waits_for_its_key(self, stage: Stage) -> None:
        run = await stage.held(key="k")
        await stage.start_one(key="k", on_conflict="replace")
        assert await _notifies(stage, News.WORK, lambda: stage.commit(_ended(run)))

    async def test_an_end_notifies_workers_if_another_run_has_joined_the_run(self, stage: Stage) -> None:
        joined = await stage.held(key="k")
        parent = await stage.held()
        again = new_run(key="k", parent_id=parent.id, parent_key="pay")
        assert await stage.commit(turn(parent, out=Out(children=(again,)))) == [True]
        assert await _notifies(stage, News.WORK, lambda: stage.commit(_ended(joined)))

    async def test_whatever_a_turn_gives_out_for_others_notifies_workers(self, stage: Stage) -> None:
        other = await stage.held()
        outs = (
            lambda run: Out(children=(new_run(parent_id=run.id, parent_key="pay"),)),
            lambda _: Out(signals=(OutSignal(other.id, "go", b"1"),)),
            lambda _: Out(events=(OutEvent("paid", b"1"),)),
            lambda _: Out(waits=(NewWait(number=0, kind="event", name="paid"),)),
        )
        for out in outs:
            run = await stage.held()
            await quiet()
            assert await _notifies(stage, News.WORK, lambda run=run, out=out: stage.commit(turn(run, out=out(run))))  # type: ignore[misc]

    async def test_a_start_a_message_and_a_hand_back_notify_workers(self, stage: Stage) -> None:
        run, other = await stage.held(), await stage.held()
        happenings: list[Happening] = [
            lambda: stage.start_one(),
            lambda: stage.store.send_signal(run.id, "go", b"1", now=T0),
            lambda: stage.store.publish_event("paid", b"1", now=T0),
            lambda: stage.store.cancel_run(run.id, now=T0),
            lambda: stage.store.pause_runs([run.id], paused=True, now=T0),
            lambda: stage.hand_back(run, due_at=T0),
            lambda: stage.commit(turn(other, change=RowChange(status=RunStatus.WAITING, due_at=T0, release=True))),
        ]
        for happen in happenings:
            assert await _notifies(stage, News.WORK, happen)

    async def test_values_and_items_notify_those_who_follow_them(self, stage: Stage) -> None:
        run, other = await stage.held(), await stage.held()
        sent = StepItems(run.id, "log", (b"1",), "pay", 1, run.epoch)
        happenings: list[Happening] = [
            lambda: stage.store.set_value(run.id, "at", b"1", epoch=run.epoch, now=T0),
            lambda: stage.store.append_items(sent, now=T0),
            lambda: stage.commit(turn(run, out=Out(values=(("at", b"2"),)))),
            lambda: stage.commit(turn(other, out=Out(items=(("log", b"2"),)))),
        ]
        for happen in happenings:
            assert await _notifies(stage, News.VALUES, happen)

    async def test_the_end_of_a_wait_notifies_those_who_follow_its_run(self, stage: Stage) -> None:
        run = await stage.held()
        wait = NewWait(number=0, kind="event", name="paid")
        assert await stage.commit(turn(run, out=Out(waits=(wait,)))) == [True]
        over = turn(run, after=1, change=RowChange(status=RunStatus.RUNNING), out=Out(closed=(0,)))
        assert await _notifies(stage, News.VALUES, lambda: stage.commit(over))


def _ended(run: ClaimedRun, **fields: Any) -> Any:
    return turn(run, change=RowChange(status=RunStatus.COMPLETED), **fields)


def _continued(run: ClaimedRun) -> Any:
    successor: NewRun = new_run(chain_id=run.id)
    return turn(run, change=RowChange(status=RunStatus.CONTINUED), out=Out(successor=successor))


async def _begun(stage: Stage, parent: ClaimedRun) -> ClaimedRun:
    """A claimed child that a turn of its parent has begun."""
    child = new_run(parent_id=parent.id, parent_key="pay")
    assert await stage.commit(turn(parent, out=Out(children=(child,)))) == [True]
    return await stage.claim_one(run_id=child.id)


async def _notifies(stage: Stage, news: News, happen: Happening) -> bool:
    """Whether a subscriber to this news is notified of the happening, and not of something earlier."""
    notified: list[int] = []
    unsubscribe = stage.store.subscribe(lambda: notified.append(1), news)
    await quiet()
    notified.clear()
    answer = await happen()
    assert answer != [False]
    is_notified = await until(lambda: bool(notified))
    unsubscribe()
    return is_notified
