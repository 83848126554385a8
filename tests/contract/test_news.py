"""Nobody is woken by what is none of theirs: every busy worker would wake all others with each of its commits.

What must be told, and to whom, is the contract's; that no more is told is our own stores' affair.
"""

import pytest

from holdfast.model import Out, RowChange, RunStatus, StepItems
from holdfast.store import News, open_store
from holdfast.store.postgres.notifications import notification, understood
from holdfast.testing.contract.stage import T0, new_run, quiet, turn, until
from tests.contract.staging import staged
from tests.servers.wire import Wire


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/holdfast.db"
    return request.getfixturevalue("postgres").create_database()


async def heard(listener, news, happen):
    """How often a subscriber to that is told while it happens."""
    told = []
    unsubscribe = listener.subscribe(lambda: told.append(1), news)
    if listener.is_remote:
        # Listening begins with a wake-up of its own.
        assert await until(lambda: bool(told))
    await quiet()
    told.clear()
    await happen()
    await quiet()
    unsubscribe()
    return len(told)


async def test_an_end_that_concerns_no_other_run_wakes_no_worker(url):
    async with staged(url) as stage:
        for status in (RunStatus.COMPLETED, RunStatus.FAILED):
            run = await stage.held()
            assert await heard(stage.store, News.WORK, lambda run=run, status=status: stage.end(run, status)) == 0


async def test_values_and_items_wake_neither_workers_nor_those_who_wait_for_an_end(url):
    async with staged(url) as stage:
        run = await stage.held()

        async def send():
            await stage.store.set_value(run.id, "at", b"1", epoch=run.epoch, now=T0)
            await stage.store.append_items(StepItems(run.id, "log", (b"1",), "pay", 1, run.epoch), now=T0)
            out = Out(values=(("at", b"2"),), items=(("log", b"2"),))
            assert await stage.commit(turn(run, out=out)) == [True]

        assert await heard(stage.store, News.WORK | News.ENDS, send) == 0


async def test_a_start_wakes_no_one_who_waits_for_an_end(url):
    async with staged(url) as stage:
        assert await heard(stage.store, News.ENDS | News.VALUES, lambda: stage.start(3)) == 0


async def test_an_end_wakes_no_worker_of_another_process(postgres):
    """Over LISTEN; on SQLite all that another process can see is that the file has changed."""
    url = postgres.create_database()
    async with staged(url) as stage:
        runs = [await stage.held() for _ in range(5)]
    # Its last notifications are sent: whoever listens from here on hears nothing of how the runs began.
    async with staged(url) as stage:
        other = await stage.open()

        async def end():
            for run in runs:
                await stage.end(run)

        assert await heard(other, News.WORK, end) == 0


async def test_a_turn_sent_again_after_a_lost_answer_is_told_to_workers(postgres):
    """Whoever was to be told the first time was not: that comes with the answer."""

    async with staged(postgres.create_database()) as stage:
        other = await stage.open()
        parent = await stage.held()
        child = new_run(parent_id=parent.id, parent_key="pay")
        begin = turn(parent, out=Out(children=(child,)))
        assert await other.commit_turns([begin], now=T0) == [True]
        assert await heard(stage.store, News.WORK, lambda: stage.commit(begin)) >= 1
        end = turn(await stage.claim_one(run_id=child.id), change=RowChange(status=RunStatus.COMPLETED))
        assert await other.commit_turns([end], now=T0) == [True]
        assert await heard(stage.store, News.WORK, lambda: stage.commit(end)) >= 1


async def test_a_notification_that_failed_is_sent_again(postgres):
    url = postgres.create_database()

    async with staged(url) as stage, Wire(url) as wire:
        store = open_store(wire.url)
        await store.open()
        told = []
        unsubscribe = stage.store.subscribe(lambda: told.append(1), News.WORK)
        await quiet()
        told.clear()
        wire.cut_before(lambda data: store._watcher.channel.encode() in data)
        await store.start_runs([new_run()])
        # The next look of whoever was not told would come in seconds; nothing else happens here.
        assert await until(lambda: bool(told) and wire.cuts == 1)
        unsubscribe()
        await store.close()


async def test_a_store_sends_failed_notifications_when_it_is_opened_again(postgres):
    url = postgres.create_database()
    async with staged(url) as stage, Wire(url) as wire:
        store = open_store(wire.url)
        await store.open()
        wire.cut_before(lambda data: store._watcher.channel.encode() in data)
        # Whoever connects anew for it is not answered: the close waits for that in vain.
        wire.is_slow = True
        await store.start_runs([new_run()])
        assert await until(lambda: wire.cuts == 1)
        await store.close()
        wire.is_slow = False
        await store.open()
        assert await heard(stage.store, News.WORK, lambda: store.start_runs([new_run()])) >= 1
        await store.close()


@pytest.mark.parametrize("news", [News.WORK, News.ENDS, News.VALUES, News.WORK | News.VALUES, News.ANY])
def test_a_notification_is_read_back_as_the_news_that_was_sent(news):
    said = notification("channel", "me", news, None)
    assert understood(f"{said['sender']} 17") == ("me", news, 17)


def test_a_notification_of_an_earlier_version_wakes_everybody():
    assert understood("me 17") == ("me", News.ANY, 17)
