"""What two commits on Postgres hide from each other is found later: strays, untold ends, owners long fenced out."""

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from holdfast.model import ClaimedRun, NewWait, Out, RowChange, RunStatus, Sent
from holdfast.store import Store, open_store
from holdfast.store.postgres import children
from holdfast.testing.contract.chains import continued
from holdfast.testing.contract.children import end_in
from holdfast.testing.contract.stage import LANE, LEASE, T0, Stage, new_run, turn
from tests.servers import Databases, execute, fetch


@pytest.fixture
def url(postgres: Databases) -> str:
    """An empty database."""
    return postgres.create_database()


@pytest.fixture
def play(url: str) -> Callable[..., None]:
    """Play an act on a stage on this database."""

    def play(act: Callable[[Stage], object]) -> None:
        async def run() -> None:
            stage = Stage(lambda namespace="default": open_store(url, namespace=namespace))
            await stage.store.open()
            try:
                await act(stage)  # type: ignore[misc]
            finally:
                await stage.close()

        asyncio.run(run())

    return play


async def follow(url: str, joined: ClaimedRun, follower: ClaimedRun) -> None:
    """As a join that was committed just when the run ended or continued as new."""
    await execute(
        url,
        "INSERT INTO holdfast.followers (run, follower, parent_key) SELECT joined.number, runs.number, 'pay'"
        f" FROM holdfast.runs JOIN holdfast.runs AS joined ON joined.id = '{joined.id}'"
        f" WHERE runs.id = '{follower.id}'",
    )


async def look_for_the_dead(store: Store) -> None:
    await store.register_worker("one", [LANE], LEASE, now=T0)
    await store.reap_workers("reaper", now=T0)


async def count_messages(url: str) -> int:
    [(count,)] = await fetch(url, "SELECT count(*) FROM holdfast.inbox")
    return int(count)


def test_a_run_that_continues_as_new_leaves_no_message_behind(url, play):
    async def act(stage: Stage) -> None:
        first = await stage.held()
        await stage.end(await stage.held(parent_id=first.id, parent_key="pay"))
        await stage.store.pause_runs([first.id], True, now=T0)
        await stage.store.pause_runs([first.id], False, now=T0)
        await stage.store.cancel_run(first.id, now=T0)
        messages = await stage.store.read_inbox("one")
        assert sorted(message.kind for message in messages) == ["cancel", "child", "pause"]
        [cancel] = [message.id for message in messages if message.kind == "cancel"]
        assert await stage.commit(turn(first, taken=(cancel,))) == [True]
        await continued(stage, first, after=1)
        assert await count_messages(url) == 0

    play(act)


def test_a_message_for_a_run_that_had_just_continued_reaches_its_successor(url, play):
    async def act(stage: Stage) -> None:
        first = await stage.held()
        second = await continued(stage, first)
        insert = "INSERT INTO holdfast.inbox (run, lane_id, priority, kind, name, payload, sent_at, trace)"
        where = f"FROM holdfast.runs WHERE id = '{first.id}'"
        for kind in ("signal", "child", "cancel"):
            await execute(
                url, f"{insert} SELECT number, lane_id, priority, '{kind}', 'n', '', 7, 'its sender''s' {where}"
            )
        messages = await stage.store.read_inbox("one")
        # The end of a child that the successor did not ask for is not for it.
        assert [(one.run_id, one.kind) for one in messages] == [(second.id, "signal"), (second.id, "cancel")]
        assert messages[0].trace == "its sender's"
        await stage.store.cancel_run(second.id, now=T0)
        assert len(await stage.store.read_inbox("one")) == 2

    play(act)


async def send_while_it_continues(stage: Stage, url: str) -> ClaimedRun:
    """Have a run continue as new while a caller's transaction sends to it, and send again when that is committed."""
    first = await stage.held()
    connection = await asyncpg.connect(url)
    async with connection.transaction():
        assert await stage.store.guest(connection).send_signal(first.id, "n", b"before", now=T0) is Sent.SENT
        second = await continued(stage, first)
    await connection.close()
    assert await stage.store.send_signal(first.id, "n", b"after", now=T0) is Sent.SENT
    return second


def test_what_a_caller_sent_while_a_run_continued_comes_before_what_was_sent_later(url, play):
    async def act(stage: Stage) -> None:
        second = await send_while_it_continues(stage, url)
        messages = await stage.store.read_inbox("one")
        assert [(one.run_id, one.payload) for one in messages] == [(second.id, b"before"), (second.id, b"after")]

    play(act)


def test_what_a_caller_sent_while_a_run_continued_is_claimed_with_what_was_sent_later(url, play):
    async def act(stage: Stage) -> None:
        second = await send_while_it_continues(stage, url)
        assert await stage.hand_back(second) is True
        again = await stage.claim_one()
        assert [(one.run_id, one.payload) for one in again.inbox] == [(second.id, b"before"), (second.id, b"after")]

    play(act)


def test_a_message_for_a_run_that_had_just_failed_waits_for_a_retry(url, play):
    async def act(stage: Stage) -> None:
        run = await stage.held()
        await stage.end(run, RunStatus.FAILED)
        for kind in ("signal", "child"):
            await execute(
                url,
                "INSERT INTO holdfast.inbox (run, lane_id, priority, kind, payload, sent_at)"
                f" SELECT number, lane_id, priority, '{kind}', '', 7 FROM holdfast.runs",
            )
        await look_for_the_dead(stage.store)
        assert await count_messages(url) == 1
        assert await stage.store.next_due([LANE], now=T0) is None
        retry = await stage.held(chain_id=run.id, forked_from=run.id)
        assert [one.kind for one in retry.inbox] == ["signal"]

    play(act)


def test_a_message_for_a_run_that_had_just_ended_is_removed(url, play):
    async def act(stage: Stage) -> None:
        run = await stage.held()
        await stage.end(run)
        await execute(
            url,
            "INSERT INTO holdfast.inbox (run, lane_id, priority, kind, payload, sent_at)"
            " SELECT number, lane_id, priority, 'signal', '', 7 FROM holdfast.runs",
        )
        await look_for_the_dead(stage.store)
        assert await count_messages(url) == 0

    play(act)


def test_a_message_for_a_run_deleted_before_its_sender_committed_is_removed(url, play):
    async def act(stage: Stage) -> None:
        run = await stage.held()
        connection = await asyncpg.connect(url)
        async with connection.transaction():
            assert await stage.store.guest(connection).send_signal(run.id, "n", b"", now=T0) is Sent.SENT
            await stage.end(run)
            assert await stage.store.delete_runs([run.id]) == [run.id]
        await connection.close()
        assert await count_messages(url) == 1
        await look_for_the_dead(stage.store)
        assert await count_messages(url) == 0

    play(act)


def test_a_follower_is_told_of_an_end_that_it_missed(url, play):
    async def act(stage: Stage) -> None:
        follower, joined = await stage.held(), await stage.held(worker="two")
        await stage.commit(turn(joined, change=RowChange(status=RunStatus.FAILED, error=b"why")))
        await follow(url, joined, follower)
        for _ in range(2):
            await look_for_the_dead(stage.store)
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, message.name) == (follower.id, "pay")
        assert (end_in(message).run_id, end_in(message).error) == (joined.id, b"why")

    play(act)


def test_searches_for_missed_ends_take_the_followers_in_turn(url, play, monkeypatch):
    monkeypatch.setattr(children, "WALKED_AT_ONCE", 2)

    async def act(stage: Stage) -> None:
        living, joined = await stage.held(worker="two"), await stage.held(worker="two")
        follower, *others = [await stage.held() for _ in range(4)]
        for other in others:
            await follow(url, living, other)
        await stage.commit(turn(joined, change=RowChange(status=RunStatus.FAILED, error=b"why")))
        await follow(url, joined, follower)
        told = []
        for _ in range(4):
            await look_for_the_dead(stage.store)
            told.append([message.run_id for message in await stage.store.read_inbox("one")])
        assert told == [[], [follower.id], [follower.id], [follower.id]]

    play(act)


@pytest.mark.parametrize("when", ["before anybody looks", "after"])
def test_whoever_joined_a_run_that_was_just_continuing_is_told_of_its_successor_s_end(url, play, when):
    async def act(stage: Stage) -> None:
        follower, joined = await stage.held(), await stage.held(worker="two")
        successor = await continued(stage, joined, worker="two")
        await follow(url, joined, follower)
        if when == "after":
            await look_for_the_dead(stage.store)
            assert await stage.store.read_inbox("one") == []
        await stage.commit(turn(successor, change=RowChange(status=RunStatus.FAILED, error=b"why")))
        for _ in range(2):
            await look_for_the_dead(stage.store)
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, message.name) == (follower.id, "pay")
        assert (end_in(message).run_id, end_in(message).error) == (successor.id, b"why")

    play(act)


def test_whoever_joined_a_run_that_was_just_continuing_and_then_its_successor_is_told_once(url, play):
    async def act(stage: Stage) -> None:
        follower, joined = await stage.held(), await stage.held(worker="two", key="k")
        successor = await continued(stage, joined, worker="two", key="k")
        await follow(url, joined, follower)
        # As a later try asks for the same child.
        again = new_run(parent_id=follower.id, parent_key="pay", key="k")
        assert await stage.commit(turn(follower, out=Out(children=(again,)))) == [True]
        await look_for_the_dead(stage.store)
        await stage.end(successor)
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, end_in(message).run_id) == (follower.id, successor.id)

    play(act)


@pytest.mark.parametrize("way", ["by force", "taken over"])
def test_a_stale_owner_stays_fenced_out_when_another_store_deletes_the_run(play, way):
    async def act(stage: Stage) -> None:
        other = await stage.open()
        stale = await stage.held()
        assert await stage.commit(turn(stale)) == [True]
        if way == "by force":
            await other.cancel_run(stale.id, force=True, now=T0)
        else:
            await other.register_worker("one", [], 1, now=T0 - 2)
            await other.reap_workers("reaper", now=T0)
            [run] = await other.claim_runs("two", [], 1, run_id=stale.id, now=T0)
            ended = turn(run, change=RowChange(status=RunStatus.COMPLETED))
            assert await other.commit_turns([ended], now=T0) == [True]
        assert await other.delete_runs([stale.id]) == [stale.id]
        assert await stage.commit(turn(stale, after=1)) == [False]
        assert await stage.commit(turn(stale, after=1, out=Out(values=(("at", b"1"),)))) == [False]
        assert await stage.store.read_journal(stale.id) == []

    play(act)


def test_a_hook_opened_in_the_turn_that_continues_as_new_moves_to_the_next_run(play):
    async def act(stage: Stage) -> None:
        run = await stage.held()
        successor = new_run()
        waits = (NewWait(number=1, kind="hook", name="ok", token="t"), NewWait(number=2, kind="event", name="paid"))
        change = RowChange(status=RunStatus.CONTINUED)
        await stage.commit(turn(run, change=change, out=Out(successor=successor, waits=waits)))
        assert [(wait.run_id, wait.name) for wait in await stage.store.read_waits(run.id)] == [(successor.id, "ok")]
        assert (await stage.store.read_unmatched(10)).waits == ()

    play(act)
