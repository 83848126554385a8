"""Retries: runs that go on in a chain where another run of it stopped."""

from __future__ import annotations

import pytest

from holdfast.model import Out, OutSignal, RowChange, RunStatus, Sent

from .events import chain_began
from .stage import LANE, T0, Stage, after, on_stage, turn


@on_stage
class TestRetriedRuns:
    async def test_a_retry_is_in_the_chain_of_the_run_that_failed(self, stage: Stage) -> None:
        failed = await stage.held()
        await stage.end(failed, RunStatus.FAILED)
        retried = await stage.held(chain_id=failed.id, forked_from=failed.id, now=after(1))
        assert await chain_began(stage, retried) == T0
        assert await stage.store.send_signal(failed.id, "go", b"", now=T0) is Sent.SENT
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [retried.id]

    async def test_a_message_to_one_of_two_live_retries_reaches_that_one(self, stage: Stage) -> None:
        failed = await stage.held()
        await stage.end(failed, RunStatus.FAILED)
        one = await stage.held(chain_id=failed.id, forked_from=failed.id)
        two = await stage.held(chain_id=failed.id, forked_from=failed.id)
        assert await stage.store.send_signal(one.id, "go", b"", now=T0) is Sent.SENT
        sends = (OutSignal(one.id, "go", b""), OutSignal(two.id, "go", b""))
        assert await stage.commit(turn(one, out=Out(signals=sends))) == [True]
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [one.id, one.id, two.id]
        await stage.end(two)
        assert await stage.store.send_signal(one.id, "go", b"", now=T0) is Sent.SENT

    @pytest.mark.parametrize("status", [RunStatus.FAILED, RunStatus.CANCELLED])
    @pytest.mark.parametrize("key", [None, "k"])
    async def test_unread_messages_go_over_to_a_retry(self, stage: Stage, status: RunStatus, key: str | None) -> None:
        ended = await stage.held(key=key)
        for payload in (b"read", b"seen"):
            await stage.store.send_signal(ended.id, "go", payload, now=T0)
        read, _ = await stage.store.read_inbox("one")
        await stage.store.send_signal(ended.id, "go", b"fresh", now=T0)
        await stage.store.cancel_run(ended.id, now=T0)
        assert await stage.commit(turn(ended, taken=(read.id,), change=RowChange(status=status))) == [True]
        assert await stage.claim() == []
        assert await stage.store.next_due([LANE], now=T0) is None
        giver = None if key is None else ended.id
        retry = await stage.held(chain_id=ended.id, forked_from=ended.id, key=key, takes_key_of=giver)
        assert [(one.kind, one.payload) for one in retry.inbox] == [("signal", b"seen"), ("signal", b"fresh")]
        await stage.store.send_signal(ended.id, "go", b"later", now=T0)
        assert [(one.run_id, one.payload) for one in await stage.store.read_inbox("one")] == [(retry.id, b"later")]

    async def test_unread_messages_of_a_run_cancelled_by_force_go_over_to_a_retry(self, stage: Stage) -> None:
        ended = await stage.held()
        await stage.store.send_signal(ended.id, "go", b"unread", now=T0)
        await stage.store.cancel_run(ended.id, force=True, now=T0)
        retry = await stage.held(chain_id=ended.id, forked_from=ended.id)
        assert [(one.kind, one.payload) for one in retry.inbox] == [("signal", b"unread")]

    async def test_unread_messages_of_a_failed_retry_go_over_to_the_next(self, stage: Stage) -> None:
        ended = await stage.held()
        await stage.store.send_signal(ended.id, "go", b"unread", now=T0)
        await stage.end(ended, RunStatus.FAILED)
        first = await stage.held(chain_id=ended.id, forked_from=ended.id)
        await stage.end(first, RunStatus.FAILED)
        other = await stage.held(chain_id=ended.id, forked_from=ended.id)
        assert [(one.kind, one.payload) for one in other.inbox] == [("signal", b"unread")]

    async def test_a_live_retry_keeps_its_unread_messages(self, stage: Stage) -> None:
        ended = await stage.held()
        await stage.store.send_signal(ended.id, "go", b"unread", now=T0)
        await stage.end(ended, RunStatus.FAILED)
        await stage.held(chain_id=ended.id, forked_from=ended.id)
        assert (await stage.held(chain_id=ended.id, forked_from=ended.id)).inbox == ()

    async def test_a_fork_gets_no_messages_of_the_run_that_it_is_forked_from(self, stage: Stage) -> None:
        ended = await stage.held()
        await stage.store.send_signal(ended.id, "go", b"unread", now=T0)
        await stage.end(ended, RunStatus.FAILED)
        assert (await stage.held(forked_from=ended.id)).inbox == ()
