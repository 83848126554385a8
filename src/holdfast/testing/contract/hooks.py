"""Hooks: one-time tokens, and what happens to a payload for one."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from holdfast.model import ClaimedRun, NewWait, Out, RowChange, RunStatus, Sent

from .chains import continued
from .stage import T0, Stage, after, new_run, on_stage, turn


@on_stage
class TestHooks:
    async def test_a_hook_is_found_by_its_token(self, stage: Stage) -> None:
        run = await hooked(stage, schema=b"{}", expires_at=after(9))
        found = await stage.store.find_hook("t")
        assert found is not None
        assert (found.run_id, found.number, found.kind, found.name) == (run.id, 7, "hook", "ok")
        assert (found.schema, found.expires_at) == (b"{}", after(9))
        assert await stage.store.find_hook("nothing") is None

    async def test_a_payload_goes_to_the_run_once(self, stage: Stage) -> None:
        run = await hooked(stage)
        assert await stage.store.resume_hook("t", b"\x00p", now=after(1)) is Sent.SENT
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, message.kind, message.name, message.wait) == (run.id, "hook", "ok", 7)
        assert (message.payload, message.sent_at) == (b"\x00p", after(1))
        assert await stage.store.resume_hook("t", b"", now=after(1)) is Sent.USED
        assert await stage.store.find_hook("t") is None
        assert len(await stage.store.read_inbox("one")) == 1

    async def test_only_the_first_of_many_payloads_is_sent(self, stage: Stage) -> None:
        await hooked(stage)
        answers = await asyncio.gather(*(stage.store.resume_hook("t", b"", now=T0) for _ in range(8)))
        assert sorted(answers) == [Sent.SENT] + [Sent.USED] * 7
        assert len(await stage.store.read_inbox("one")) == 1

    async def test_a_message_id_tells_a_redelivery_from_a_second_payload(self, stage: Stage) -> None:
        await hooked(stage)
        answers = [await stage.store.resume_hook("t", b"", message_id=name, now=T0) for name in ("a", "a", "b")]
        assert answers == [Sent.SENT, Sent.DUPLICATE, Sent.USED]

    async def test_a_payload_wakes_a_parked_run(self, stage: Stage) -> None:
        run = await hooked(stage)
        await stage.hand_back(run, next_seq=1)
        assert await stage.claim() == []
        await stage.store.resume_hook("t", b"", now=T0)
        assert [message.kind for message in (await stage.claim_one()).inbox] == ["hook"]

    async def test_an_expired_hook_says_so(self, stage: Stage) -> None:
        await hooked(stage, expires_at=after(9))
        assert await stage.store.resume_hook("t", b"", now=after(10)) is Sent.EXPIRED
        assert await stage.store.read_inbox("one") == []
        assert await stage.store.resume_hook("t", b"", now=after(8)) is Sent.SENT

    async def test_a_hook_that_its_run_has_closed_is_expired(self, stage: Stage) -> None:
        run = await hooked(stage, expires_at=after(9))
        await stage.commit(turn(run, after=1, out=Out(closed=(7,))))
        assert await stage.store.resume_hook("t", b"", now=after(10)) is Sent.EXPIRED

    async def test_closing_a_hook_that_was_used_leaves_it_used(self, stage: Stage) -> None:
        run = await hooked(stage)
        await stage.store.resume_hook("t", b"", now=T0)
        [message] = await stage.store.read_inbox("one")
        await stage.commit(turn(run, after=1, taken=(message.id,), out=Out(closed=(7,))))
        assert await stage.store.resume_hook("t", b"", now=T0) is Sent.USED

    async def test_a_hook_of_an_ended_run_says_so(self, stage: Stage) -> None:
        run = await hooked(stage)
        await stage.commit(turn(run, after=1, change=RowChange(status=RunStatus.COMPLETED)))
        assert await stage.store.resume_hook("t", b"", now=T0) is Sent.ENDED
        assert await stage.store.find_hook("t") is None

    async def test_a_hook_that_its_run_s_last_turn_registers_says_that_it_has_ended(self, stage: Stage) -> None:
        run = await stage.held()
        waits = tuple(NewWait(number=number, kind="hook", name="ok", token=f"t{number}") for number in (7, 8))
        end = turn(run, change=RowChange(status=RunStatus.COMPLETED), out=Out(waits=waits))
        assert await stage.commit(end) == [True]
        for token in ("t7", "t8"):
            assert await stage.store.resume_hook(token, b"", message_id="m", now=T0) is Sent.ENDED
            assert await stage.store.find_hook(token) is None
        assert await stage.store.read_waits(run.id) == []

    async def test_a_hook_that_a_continuing_turn_registers_goes_over(self, stage: Stage) -> None:
        run = await stage.held()
        wait = NewWait(number=7, kind="hook", name="ok", token="t")
        change = RowChange(status=RunStatus.CONTINUED)
        await stage.commit(turn(run, change=change, out=Out(waits=(wait,), successor=new_run())))
        successor = await stage.claim_one()
        assert await stage.store.resume_hook("t", b"", now=T0) is Sent.SENT
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [successor.id]

    async def test_a_last_turn_leaves_another_run_s_hook_alone(self, stage: Stage) -> None:
        first = await hooked(stage)
        run = await stage.held()
        wait = NewWait(number=7, kind="hook", name="ok", token="t")
        await stage.commit(turn(run, change=RowChange(status=RunStatus.COMPLETED), out=Out(waits=(wait,))))
        assert await stage.store.resume_hook("t", b"", now=T0) is Sent.SENT
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [first.id]

    async def test_a_used_hook_that_its_run_s_last_turn_registers_anew_stays_used(self, stage: Stage) -> None:
        run = await hooked(stage)
        await stage.store.resume_hook("t", b"", now=T0)
        wait = NewWait(number=7, kind="hook", name="ok", token="t")
        await stage.commit(turn(run, after=1, change=RowChange(status=RunStatus.COMPLETED), out=Out(waits=(wait,))))
        assert await stage.store.resume_hook("t", b"", now=T0) is Sent.USED

    async def test_a_used_token_of_an_ended_run_may_be_registered_by_another_run(self, stage: Stage) -> None:
        # A fork has its original's tokens in the history that they share.
        first = await hooked(stage)
        assert await stage.store.resume_hook("t", b"", message_id="m", now=T0) is Sent.SENT
        await stage.commit(turn(first, after=1, change=RowChange(status=RunStatus.COMPLETED)))
        second = await hooked(stage)
        assert await stage.store.resume_hook("t", b"", message_id="n", now=T0) is Sent.SENT
        assert await stage.store.resume_hook("t", b"", now=T0) is Sent.USED
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [second.id]

    async def test_a_used_hook_of_an_ended_run_stays_used(self, stage: Stage) -> None:
        run = await hooked(stage)
        await stage.store.resume_hook("t", b"", now=T0)
        await stage.commit(turn(run, after=1, change=RowChange(status=RunStatus.COMPLETED)))
        assert await stage.store.resume_hook("t", b"", now=T0) is Sent.USED

    async def test_an_unknown_token_is_missing(self, stage: Stage) -> None:
        assert await stage.store.resume_hook("nothing", b"", message_id="m", now=T0) is Sent.MISSING

    async def test_everything_about_a_hook_goes_with_its_run(self, stage: Stage) -> None:
        run = await hooked(stage)
        await stage.store.resume_hook("t", b"", message_id="m", now=T0)
        await stage.commit(turn(run, after=1, change=RowChange(status=RunStatus.COMPLETED)))
        assert await stage.store.delete_runs([run.id]) == [run.id]
        assert await stage.store.resume_hook("t", b"", message_id="m", now=T0) is Sent.MISSING

    async def test_a_used_hook_is_not_opened_again_by_being_registered_anew(self, stage: Stage) -> None:
        run = await hooked(stage)
        await stage.store.resume_hook("t", b"", now=T0)
        wait = NewWait(number=7, kind="hook", name="ok", token="t")
        assert await stage.commit(turn(run, after=1, out=Out(waits=(wait,)))) == [True]
        assert await stage.store.resume_hook("t", b"", now=T0) is Sent.USED

    async def test_a_retry_opens_the_hooks_of_the_failed_run_again(self, stage: Stage) -> None:
        failed = await hooked(stage)
        await stage.commit(turn(failed, after=1, change=RowChange(status=RunStatus.FAILED)))
        retried = await hooked(stage, chain_id=failed.id)
        found = await stage.store.find_hook("t")
        assert found is not None
        assert found.run_id == retried.id
        assert await stage.store.resume_hook("t", b"", now=T0) is Sent.SENT

    async def test_a_token_that_another_live_run_has_given_out_stays_with_it(self, stage: Stage) -> None:
        first = await hooked(stage)
        await hooked(stage)
        await stage.store.resume_hook("t", b"", now=T0)
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [first.id]

    async def test_open_hooks_go_over_to_successors(self, stage: Stage) -> None:
        run = await stage.held()
        waits = (NewWait(number=1, kind="hook", name="ok", token="t"), NewWait(number=2, kind="event", name="paid"))
        await stage.commit(turn(run, out=Out(waits=waits)))
        second = await continued(stage, run, after=1)
        assert [wait.name for wait in await stage.store.read_waits(run.id)] == ["ok"]
        mine = NewWait(number=2, kind="hook", name="mine", token="mine")
        await stage.commit(turn(second, out=Out(waits=(mine,))))
        third = await continued(stage, second, after=1)
        other = NewWait(number=3, kind="hook", name="other", token="other")
        await stage.commit(turn(third, out=Out(waits=(other,))))
        for token in ("t", "mine", "other"):
            assert await stage.store.resume_hook(token, token.encode(), now=T0) is Sent.SENT
        messages = await stage.store.read_inbox("one")
        assert [(one.run_id, one.kind, one.name, one.wait) for one in messages] == [
            (third.id, "hook", "ok", 1),
            (third.id, "hook", "mine", 2),
            (third.id, "hook", "other", 3),
        ]

    async def test_a_successor_may_register_a_hook_anew_that_goes_over(self, stage: Stage) -> None:
        run = await stage.held()
        wait = NewWait(number=1, kind="hook", name="ok", token="t", expires_at=T0 + 1)
        await stage.commit(turn(run, out=Out(waits=(wait,))))
        second = await continued(stage, run, after=1)
        await stage.commit(turn(second, out=Out(waits=(msgspec.structs.replace(wait, expires_at=after(10)),))))
        assert [one.expires_at for one in await stage.store.read_waits(run.id)] == [after(10)]
        assert await stage.store.resume_hook("t", b"1", now=after(5)) is Sent.SENT
        assert await stage.store.resume_hook("t", b"2", now=after(5)) is Sent.USED

    async def test_an_unread_payload_goes_over_with_its_hook(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.commit(turn(run, out=Out(waits=(NewWait(number=7, kind="hook", name="ok", token="t"),))))
        assert await stage.store.resume_hook("t", b"1", now=T0) is Sent.SENT
        second = await continued(stage, run, after=1)
        assert [(one.kind, one.wait) for one in second.inbox] == [("hook", 7)]


async def hooked(stage: Stage, *, chain_id: str | None = None, **fields: Any) -> ClaimedRun:
    """A run held by "one" whose first turn has made the hook with number 7."""
    run = await stage.held(chain_id=chain_id)
    wait = NewWait(number=7, kind="hook", name="ok", token="t", **fields)
    assert await stage.commit(turn(run, out=Out(waits=(wait,)))) == [True]
    return run
