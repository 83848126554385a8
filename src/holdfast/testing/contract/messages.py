"""Messages: signals into inboxes, and what a turn gives out."""

from __future__ import annotations

import asyncio

from holdfast.model import Lane, NewWait, Out, OutEvent, OutSignal, RowChange, RunStatus, Sent, Unmatched, Unread

from .stage import LANE, LEASE, T0, Stage, after, ids_of, new_run, on_stage, turn, until


@on_stage
class TestSendSignal:
    async def test_a_signal_for_a_held_run_is_in_its_owner_s_inbox(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.store.send_signal(run.id, "go", b"\x00payload", now=after(1)) is Sent.SENT
        [message] = await stage.store.read_inbox("one")
        assert (message.run_id, message.kind, message.name) == (run.id, "signal", "go")
        assert (message.payload, message.sent_at, message.wait) == (b"\x00payload", after(1), None)

    async def test_a_signal_wakes_a_run_that_waits_for_nothing_else(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.hand_back(run)
        assert await stage.claim() == []
        await stage.store.send_signal(run.id, "go", b"1", now=T0)
        due_at = await stage.store.next_due([LANE], now=T0)
        assert due_at is not None
        assert due_at <= T0
        [again] = await stage.claim()
        assert [(message.kind, message.name, message.payload) for message in again.inbox] == [("signal", "go", b"1")]

    async def test_older_signals_to_others_however_many_hide_no_run_that_was_sent_one(self, stage: Stage) -> None:
        many, later, urgent = [await stage.held(priority=priority) for priority in (0, 0, 5)]
        for run in (many, later, urgent):
            await stage.hand_back(run)
        for _ in range(1_010):
            await stage.store.send_signal(many.id, "go", b"", now=T0)
        for run in (later, urgent):
            await stage.store.send_signal(run.id, "go", b"", now=after(1))
        claimed = [ids_of(await stage.claim(1, now=after(2))) for _ in range(3)]
        assert claimed == [[urgent.id], [many.id], [later.id]]

    async def test_a_signal_changes_nothing_in_the_run_s_row(self, stage: Stage) -> None:
        run_id = await stage.start_one(due_at=after(100))
        before = await stage.run(run_id)
        await stage.store.send_signal(run_id, "go", b"", now=T0)
        assert await stage.run(run_id) == before

    async def test_signals_sent_one_after_the_other_come_in_that_order(self, stage: Stage) -> None:
        run = await stage.held()
        for number in range(20):
            await stage.store.send_signal(run.id, "go", str(number).encode(), now=T0)
        payloads = [message.payload for message in await stage.store.read_inbox("one")]
        assert payloads == [str(number).encode() for number in range(20)]

    async def test_signals_that_come_with_a_claim_are_in_the_order_in_which_they_were_sent(self, stage: Stage) -> None:
        run_ids = await stage.start(2)
        for number in range(20):
            await stage.store.send_signal(run_ids[number % 2], "go", str(number).encode(), now=T0)
        claimed = {run.id: [message.payload for message in run.inbox] for run in await stage.claim(2)}
        sent = [str(number).encode() for number in range(20)]
        assert claimed == {run_ids[0]: sent[::2], run_ids[1]: sent[1::2]}

    async def test_messages_that_no_turn_has_taken_are_counted_by_name(self, stage: Stage) -> None:
        run, other = await stage.held(), await stage.held()
        for name in ("go", "stop", "go"):
            await stage.store.send_signal(run.id, name, b"1", now=T0)
        await stage.store.cancel_run(run.id, now=T0)
        assert await stage.store.count_unread(run.id) == [Unread("signal", "go", 2), Unread("signal", "stop", 1)]
        taken = [message.id for message in await stage.store.read_inbox("one") if message.name == "go"]
        assert await stage.commit(turn(run, taken=tuple(taken[:1]))) == [True]
        assert sorted(one.count for one in await stage.store.count_unread(run.id)) == [1, 1]
        assert [await stage.store.count_unread(one) for one in (other.id, "nobody", "\x00")] == [[], [], []]

    async def test_a_signal_to_nobody_is_missing(self, stage: Stage) -> None:
        assert await stage.store.send_signal("nobody", "go", b"", message_id="m", now=T0) is Sent.MISSING

    async def test_a_signal_to_an_ended_run_says_so(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.end(run)
        assert await stage.store.send_signal(run.id, "go", b"", now=T0) is Sent.ENDED

    async def test_the_same_message_id_is_sent_once(self, stage: Stage) -> None:
        run = await stage.held()
        answers = [await stage.store.send_signal(run.id, "go", b"", message_id="m", now=T0) for _ in range(2)]
        assert answers == [Sent.SENT, Sent.DUPLICATE]
        [message] = await stage.store.read_inbox("one")
        assert await stage.commit(turn(run, taken=(message.id,))) == [True]
        assert await stage.store.send_signal(run.id, "go", b"", message_id="m", now=T0) is Sent.DUPLICATE
        assert await stage.store.read_inbox("one") == []

    async def test_a_message_id_is_remembered_after_the_end(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.send_signal(run.id, "go", b"", message_id="m", now=T0)
        await stage.end(run)
        assert await stage.store.send_signal(run.id, "go", b"", message_id="m", now=T0) is Sent.DUPLICATE
        assert await stage.store.send_signal(run.id, "go", b"", message_id="other", now=T0) is Sent.ENDED

    async def test_a_message_id_holds_for_one_run_only(self, stage: Stage) -> None:
        ids = await stage.start(2)
        answers = [await stage.store.send_signal(run_id, "go", b"", message_id="m", now=T0) for run_id in ids]
        assert answers == [Sent.SENT, Sent.SENT]

    async def test_one_of_many_senders_of_a_message_id_sends_it(self, stage: Stage) -> None:
        run = await stage.held()
        answers = await asyncio.gather(
            *(stage.store.send_signal(run.id, "go", b"", message_id="m", now=T0) for _ in range(8))
        )
        assert sorted(answers) == [Sent.DUPLICATE] * 7 + [Sent.SENT]
        assert len(await stage.store.read_inbox("one")) == 1

    async def test_a_worker_gets_the_messages_of_all_its_runs_also_of_lanes_that_it_has_not_registered(
        self, stage: Stage
    ) -> None:
        first, second = await stage.start_one(), await stage.start_one(workflow="pack")
        await stage.claim()
        await stage.store.register_worker("one", [Lane("bill", "1")], LEASE, now=T0)
        assert ids_of(await stage.store.claim_runs("one", [Lane("pack", "1")], 1, now=T0)) == [second]
        for run_id in (first, second):
            await stage.store.send_signal(run_id, "go", b"", now=T0)
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [first, second]

    async def test_an_end_empties_the_inbox_of_signals(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.send_signal(run.id, "go", b"", now=T0)
        await stage.end(run)
        assert await stage.store.read_inbox("one") == []
        assert await stage.store.next_due([LANE], now=T0) is None


@on_stage
class TestTurnsGiveOut:
    async def test_a_signal_goes_out_with_the_turn(self, stage: Stage) -> None:
        sender, other = await stage.held(), await stage.held(worker="two")
        out = Out(signals=(OutSignal(other.id, "go", b"1"), OutSignal(other.id, "go", b"2")))
        assert await stage.commit(turn(sender, out=out), now=after(3)) == [True]
        messages = await stage.store.read_inbox("two")
        assert [(message.name, message.payload, message.sent_at) for message in messages] == [
            ("go", b"1", after(3)),
            ("go", b"2", after(3)),
        ]

    async def test_a_turn_sent_again_gives_out_once(self, stage: Stage) -> None:
        run, other = await stage.held(), await stage.held(worker="two")
        out = Out(
            signals=(OutSignal(other.id, "go", b""),),
            events=(OutEvent("paid", b""),),
            items=(("log", b"a"),),
            children=(new_run(parent_id=run.id, parent_key="c"),),
            waits=(NewWait(number=0, kind="event", name="paid"),),
        )
        both = turn(run, out=out)
        assert await stage.commit(both, both) == [True, True]
        assert await stage.commit(both) == [True]
        assert len(await stage.store.read_inbox("two")) == 1
        assert len((await stage.store.read_unmatched(10)).events) == 1
        assert len(await stage.store.read_waits(run.id)) == 1
        assert len(await stage.store.read_items(run.id, "log")) == 1
        assert len(await stage.claim()) == 1

    async def test_a_refused_turn_gives_out_nothing(self, stage: Stage) -> None:
        stale = await stage.held()
        await stage.lose("one")
        await stage.claim_one(worker="three")
        other = await stage.held(worker="two")
        out = Out(
            signals=(OutSignal(other.id, "go", b""),),
            events=(OutEvent("paid", b""),),
            items=(("log", b"a"),),
            values=(("at", b"b"),),
            cancels=(other.id,),
            children=(new_run(parent_id=stale.id, parent_key="c"),),
            waits=(NewWait(number=0, kind="event", name="paid"),),
            successor=new_run(),
        )
        change = RowChange(status=RunStatus.CONTINUED)
        assert await stage.commit(turn(stale, change=change, out=out)) == [False]
        assert await stage.store.read_inbox("two") == []
        assert await stage.store.read_unmatched(10) == Unmatched((), ())
        assert await stage.store.read_waits(stale.id) == []
        assert await stage.store.read_items(stale.id, "log") == []
        assert await stage.store.read_value(stale.id, "at") is None
        assert await stage.claim() == []

    async def test_signals_to_the_ended_and_the_missing_are_dropped(self, stage: Stage) -> None:
        run, ended = await stage.held(), await stage.held()
        await stage.end(ended)
        out = Out(
            signals=(OutSignal(ended.id, "go", b""), OutSignal("nobody", "go", b"")), cancels=(ended.id, "nobody")
        )
        assert await stage.commit(turn(run, out=out)) == [True]
        assert await stage.store.read_inbox("one") == []

    async def test_a_run_may_signal_itself(self, stage: Stage) -> None:
        run = await stage.held()
        assert await stage.commit(turn(run, out=Out(signals=(OutSignal(run.id, "go", b""),)))) == [True]
        assert [message.name for message in await stage.store.read_inbox("one")] == ["go"]

    async def test_waits_are_kept_until_the_run_closes_them(self, stage: Stage) -> None:
        run = await stage.held()
        waits = (
            NewWait(number=1, kind="signal", name="go", schema=b"{}"),
            NewWait(number=2, kind="event", name="paid", match=b'{"a":1}', probe=b"p"),
            NewWait(number=3, kind="hook", name="ok", token="digest", expires_at=after(9)),
        )
        assert await stage.commit(turn(run, out=Out(waits=waits)), now=after(2)) == [True]
        found = await stage.store.read_waits(run.id)
        assert [(wait.run_id, wait.number, wait.kind, wait.name) for wait in found] == [
            (run.id, 1, "signal", "go"),
            (run.id, 2, "event", "paid"),
            (run.id, 3, "hook", "ok"),
        ]
        assert [(wait.match, wait.schema, wait.expires_at, wait.registered_at) for wait in found] == [
            (None, b"{}", None, after(2)),
            (b'{"a":1}', None, None, after(2)),
            (None, None, after(9), after(2)),
        ]
        assert await stage.commit(turn(run, after=1, out=Out(closed=(1, 3)))) == [True]
        assert [wait.number for wait in await stage.store.read_waits(run.id)] == [2]

    async def test_a_wait_may_be_registered_anew(self, stage: Stage) -> None:
        run = await stage.held()
        wait = NewWait(number=1, kind="hook", name="ok", token="digest")
        assert await stage.commit(turn(run, out=Out(waits=(wait,)))) == [True]
        assert await stage.commit(turn(run, after=1, out=Out(waits=(wait,)))) == [True]
        assert [wait.number for wait in await stage.store.read_waits(run.id)] == [1]

    async def test_an_end_closes_all_waits(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.commit(turn(run, out=Out(waits=(NewWait(number=1, kind="event", name="paid"),))))
        await stage.commit(turn(run, after=1, change=RowChange(status=RunStatus.FAILED)))
        assert await stage.store.read_waits(run.id) == []
        assert (await stage.store.read_unmatched(10)).waits == ()

    async def test_many_turns_of_a_batch_each_give_out_their_own(self, stage: Stage) -> None:
        other = await stage.held(worker="two")
        await stage.start(50)
        runs = await stage.claim()
        turns = [turn(run, out=Out(signals=(OutSignal(other.id, run.id, b""),), values=(("v", b"1"),))) for run in runs]
        assert await stage.commit(*turns) == [True] * 50
        assert [message.name for message in await stage.store.read_inbox("two")] == ids_of(runs)

    async def test_what_a_turn_gives_out_notifies_subscribers(self, stage: Stage) -> None:
        run, other = await stage.held(), await stage.held()
        notified = asyncio.Event()
        unsubscribe = stage.store.subscribe(notified.set)
        await stage.commit(turn(run, out=Out(signals=(OutSignal(other.id, "go", b""),))))
        assert await until(notified.is_set)
        unsubscribe()
