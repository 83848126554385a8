"""Traces: a message carries its sender's span context, which is read back unchanged."""

from __future__ import annotations

from holdfast.model import NewWait, Out, OutEvent, OutSignal

from .chains import continued
from .hooks import hooked
from .stage import T0, Stage, on_stage, turn

TRACE = f"00-{'a' * 32}-{'b' * 16}-01"


@on_stage
class TestTracesOfMessages:
    async def test_a_signal_comes_with_its_sender_s_trace(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.send_signal(run.id, "traced", b"", trace=TRACE, now=T0)
        await stage.store.send_signal(run.id, "untraced", b"", now=T0)
        assert [message.trace for message in await stage.store.read_inbox("one")] == [TRACE, None]
        await stage.hand_back(run)
        assert [message.trace for message in (await stage.claim_one()).inbox] == [TRACE, None]

    async def test_a_hook_s_payload_comes_with_its_sender_s_trace(self, stage: Stage) -> None:
        await hooked(stage)
        await stage.store.resume_hook("t", b"", trace=TRACE, now=T0)
        [message] = await stage.store.read_inbox("one")
        assert message.trace == TRACE

    async def test_an_event_comes_with_its_publisher_s_trace(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.commit(turn(run, out=Out(waits=(NewWait(number=1, kind="event", name="paid"),))))
        await stage.store.publish_event("paid", b"", trace=TRACE, now=T0)
        found = await stage.store.read_unmatched(10)
        [wait] = found.waits
        events = [*found.events, *await stage.store.find_events(wait)]
        assert [event.trace for event in events] == [TRACE, TRACE]
        assert await stage.store.deliver_event(events[0], [wait]) == 1
        [message] = await stage.store.read_inbox("one")
        assert message.trace == TRACE

    async def test_what_a_turn_sends_comes_with_its_run_s_trace(self, stage: Stage) -> None:
        run, other = await stage.held(), await stage.held(worker="two")
        out = Out(
            signals=(OutSignal(other.id, "go", b"", TRACE), OutSignal(other.id, "go", b"")),
            events=(OutEvent("paid", b"", TRACE), OutEvent("paid", b"")),
        )
        assert await stage.commit(turn(run, out=out)) == [True]
        assert [message.trace for message in await stage.store.read_inbox("two")] == [TRACE, None]
        assert [event.trace for event in (await stage.store.read_unmatched(10)).events] == [TRACE, None]

    async def test_a_message_that_goes_on_to_a_successor_keeps_its_trace(self, stage: Stage) -> None:
        run = await stage.held()
        await stage.store.send_signal(run.id, "go", b"", trace=TRACE, now=T0)
        [message] = (await continued(stage, run)).inbox
        assert message.trace == TRACE

    async def test_a_run_is_read_with_the_trace_it_was_started_in(self, stage: Stage) -> None:
        runs = [await stage.start_one(trace=TRACE), await stage.start_one()]
        assert [(await stage.run(run_id)).trace for run_id in runs] == [TRACE, None]
