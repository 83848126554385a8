"""What is deleted leaves no row behind, in any table, and a failed reap no lock: looked at from beside the store."""

import sqlite3

import pytest

from holdfast.model import NewWait, Out, OutEvent, OutSignal, RowChange, RunStatus, Sent, StepItems
from holdfast.store import open_store
from holdfast.testing.contract.stage import LANE, LEASE, T0, after, new_run, turn
from tests.contract.staging import play_on

STAYS = {"migrations", "namespaces", "lanes", "registered", "workers", "sqlite_sequence"}


@pytest.fixture
def file(tmp_path):
    return f"{tmp_path}/holdfast.db"


def play(file, act):
    play_on(lambda: open_store(f"sqlite:///{file}"), act)


def counts(file):
    """How many rows each table has, without those that may stay and those that have none."""
    connection = sqlite3.connect(file)
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}
    connection.close()
    return {name: count for name, count in found.items() if count and name not in STAYS}


async def live(stage):
    """A family that has had everything that runs can have. Returns those that have not ended."""
    parent = await stage.held(key="parent", retention=0)
    other = await stage.held(key="joined", retention=0)
    out = Out(
        children=(
            new_run(parent_id=parent.id, parent_key="c", key="child", retention=0),
            new_run(parent_id=parent.id, parent_key="j", key="joined", retention=0),
        ),
        waits=tuple(
            NewWait(number=number, kind=kind, name="paid", token="t" + str(number) if kind == "hook" else None)
            for number, kind in enumerate(["signal", "event", "hook", "hook", "event"])
        ),
        signals=(OutSignal(other.id, "go", b""),),
        events=(OutEvent("paid", b""),),
        values=(("at", b""),),
        items=(("log", b""),),
    )
    await stage.commit(turn(parent, out=out))
    await stage.store.send_signal(parent.id, "go", b"", message_id="m", now=T0)
    await stage.store.publish_event("paid", b"", message_id="m", now=T0)
    assert await stage.store.resume_hook("t2", b"", message_id="m", now=T0) is Sent.SENT
    found = await stage.store.read_unmatched(10)
    assert await stage.store.deliver_event(found.events[0], found.waits) == 1
    await stage.store.mark_matched({found.events[0].id: [b"p", b"q"]}, [], now=T0)
    await stage.store.append_items(StepItems(parent.id, "log", (b"",), "s", 1, parent.epoch), now=T0)
    child = await stage.claim_one(worker="two")
    await stage.store.pause_runs([child.id], True, now=T0)
    successor = new_run(retention=0)
    change = RowChange(status=RunStatus.CONTINUED)
    await stage.commit(turn(parent, after=1, change=change, out=Out(successor=successor)))
    return [other, child, await stage.claim_one(run_id=successor.id)]


def test_ended_runs_keep_only_rows_that_are_read_after_the_end(file):
    async def act(stage):
        for run in await live(stage):
            await stage.end(run)

    play(file, act)
    assert set(counts(file)) == {
        "runs", "starts", "keys", "journal", "message_ids", "used_hooks", "events", "event_probes", "taken_events",
        "chain_values", "stream_items",
    }  # fmt: skip


def test_swept_runs_and_events_leave_nothing(file):
    async def act(stage):
        for run in await live(stage):
            await stage.end(run)
        swept = await stage.store.sweep(100, events_before=after(1), now=after(1))
        assert (len(swept.run_ids), swept.events) == (4, 2)

    play(file, act)
    assert counts(file) == {}


def test_deleted_runs_leave_nothing_but_events(file):
    async def act(stage):
        runs = await live(stage)
        for run in runs:
            await stage.store.cancel_run(run.id, force=True, now=T0)
        ended = [*runs, await stage.store.get_run(runs[-1].chain_id)]
        assert len(await stage.store.delete_runs([run.id for run in ended])) == 4

    play(file, act)
    assert counts(file) == {"events": 2, "event_probes": 2, "message_ids": 1}


def test_messages_to_ended_runs_are_not_kept(file):
    async def act(stage):
        run, ended = await stage.held(), await stage.held()
        await stage.end(ended)
        await stage.commit(turn(run, out=Out(signals=(OutSignal(ended.id, "go", b""),), cancels=(ended.id,))))
        await stage.store.send_signal(ended.id, "go", b"", message_id="m", now=T0)

    play(file, act)
    assert counts(file).keys() == {"runs", "starts", "journal"}


def test_a_run_that_has_ended_follows_nobody(file):
    async def act(stage):
        run, joined = await stage.held(), await stage.held(key="k")
        await stage.commit(turn(run, out=Out(children=(new_run(parent_id=run.id, parent_key="c", key="k"),))))
        await stage.commit(turn(run, after=1, change=RowChange(status=RunStatus.COMPLETED)))
        assert (await stage.run(joined.id)).status is RunStatus.RUNNING

    play(file, act)
    assert "followers" not in counts(file)


def test_dead_workers_are_found_again_after_a_reap_that_failed(file):
    async def act(stage):
        dying = open_store(f"sqlite:///{file}")
        await dying.open()
        await dying.register_worker("dying", [LANE], LEASE)
        # It leaves its row and the file of its lock behind, as a process does that dies.
        await dying.close()
        with sqlite3.connect(file) as db:
            db.execute("CREATE TRIGGER stays BEFORE DELETE ON workers BEGIN SELECT raise(ABORT, 'no'); END")
        with pytest.raises(sqlite3.IntegrityError):
            await stage.store.reap_workers("other")
        with sqlite3.connect(file) as db:
            db.execute("DROP TRIGGER stays")
        db.close()
        assert await stage.store.reap_workers("other") == ["dying"]

    play(file, act)
