"""replay: today's code against a recorded journal."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

import holdfast
from holdfast import Done, JournalDiverged, Machine, Next, RunStatus, step, workflow
from holdfast.errors import BadArguments, DefinitionError, IOInBody
from holdfast.testing import Environment, export_journal, replay
from tests.testing.orders import ORDER, Order, charge, checkout, ship


async def recorded(body, *args, until_end: bool = True, stubs=None):
    """The journal of one run, ended or as far as it gets before time moves."""
    async with Environment([body], stubs={charge: "paid"} if stubs is None else stubs) as env:
        run = await env.client.start(body, *args)
        if until_end:
            await run.wait()
        else:
            await env.until_waiting(run)
        return await env.client.journal(run.id)


def changed(fn):
    return workflow(name="checkout")(fn)


async def test_the_same_code_matches_the_journal_of_a_run_that_has_ended():
    journal = await recorded(checkout, ORDER)
    replayed = replay(journal, checkout)
    assert (replayed.entries, replayed.status, replayed.waits_for) == (len(journal), RunStatus.COMPLETED, ())


async def test_a_replay_says_what_a_run_waits_for():
    journal = await recorded(checkout, ORDER, until_end=False)
    replayed = replay(journal, checkout)
    assert replayed.status is None
    [wait] = replayed.waits_for
    assert wait.startswith("timer until ")


async def test_a_replay_leaves_nothing_behind():
    journal = await recorded(checkout, ORDER)
    gc.collect()
    heard = len(gc.callbacks)
    replay(journal, checkout)
    with pytest.raises(JournalDiverged):
        replay(journal, changed(lambda order: None))
    assert len(gc.callbacks) == heard


async def test_a_replay_lists_open_steps_too():
    journal = await recorded(checkout, ORDER)
    entries = [one.entry for one in journal]
    cut = next(n for n, one in enumerate(journal) if one.kind == "step_completed")
    assert replay(entries[:cut], checkout, args=[ORDER]).waits_for == ("step 'charge'",)


async def test_a_machine_is_replayed_from_its_last_checkpoint():
    """The rows before it are gone, and with them the entry that says that the run has begun."""

    def count(ctx: Any) -> Any:
        ctx["n"] = ctx.get("n", 0) + 1
        return Done(ctx["n"]) if ctx["n"] == 120 else Next("count")

    counter = Machine("counter", {"start": count, "count": count})
    journal = await recorded(counter, None, stubs={})
    assert journal[0].kind != "started"
    assert replay(journal, counter).status is RunStatus.COMPLETED
    with pytest.raises(JournalDiverged):
        replay(journal, Machine("counter", {"start": count}))


async def test_no_step_is_executed():
    journal = await recorded(checkout, ORDER)
    # The function of `charge` raises when it is called.
    assert replay(journal, checkout).status is RunStatus.COMPLETED


async def test_a_journal_may_come_as_entries_rows_or_bytes():
    async with Environment([checkout], stubs={charge: "paid"}) as env:
        run = await env.client.start(checkout, ORDER)
        await run.wait()
        journal = await env.client.journal(run.id)
        rows = await env.client.store.read_journal(run.id)
    for form in (journal, export_journal(journal)):
        assert replay(form, checkout).status is RunStatus.COMPLETED
    for form in (list(journal), [one.entry for one in journal], rows):
        assert replay(form, checkout, args=[ORDER]).status is RunStatus.COMPLETED
        assert replay(form, checkout, kwargs={"order": ORDER}).status is RunStatus.COMPLETED
        with pytest.raises(BadArguments):
            replay(form, checkout)


async def test_other_arguments_of_a_step_are_divergence():
    journal = await recorded(checkout, ORDER)

    @changed
    async def more(order: Order) -> str:
        payment = await charge(order.card, order.cents + 1)
        await holdfast.sleep("1d")
        return ship(order, payment)

    with pytest.raises(JournalDiverged, match=r"step 'charge' with other arguments .* in more"):
        replay(journal, more)


async def test_other_steps_are_divergence():
    journal = await recorded(checkout, ORDER)

    @changed
    async def early(order: Order) -> str:
        return ship(order, "nothing")

    with pytest.raises(JournalDiverged, match=r"holds: step 'charge' asked.*\n.*asked for: step 'ship'"):
        replay(journal, early)


@pytest.mark.parametrize("until_end", [True, False])
async def test_a_body_that_ends_too_early_is_divergence(until_end):
    journal = await recorded(checkout, ORDER, until_end=until_end)

    @changed
    async def short(order: Order) -> str:
        return await charge(order.card, order.cents)

    with pytest.raises(JournalDiverged):
        replay(journal, short)


async def test_a_body_that_does_not_end_any_more_is_divergence():
    journal = await recorded(checkout, ORDER)

    @changed
    async def longer(order: Order) -> str:
        payment = await charge(order.card, order.cents)
        await holdfast.sleep("1d")
        shipped = ship(order, payment)
        await holdfast.sleep("1d")
        return shipped

    with pytest.raises(JournalDiverged, match=r"holds: the end, completed.*\n.*goes on waiting"):
        replay(journal, longer)


async def test_another_step_in_the_last_turn_is_divergence():
    journal = await recorded(checkout, ORDER)

    @changed
    async def more(order: Order) -> str:
        payment = await charge(order.card, order.cents)
        await holdfast.sleep("1d")
        shipped = ship(order, payment)
        return shipped + ship(order, payment)

    with pytest.raises(JournalDiverged, match=r"holds: nothing more\n.*step 'ship:1' asked"):
        replay(journal, more)


@workflow
async def reminder(order: Order) -> None:
    await holdfast.sleep("1d")


def reminded(target) -> None:
    target.options(on_parent_end="abandon").start(ORDER)


async def test_a_child_begun_in_the_last_turn_matches_in_whichever_form_the_journal_comes():
    @changed
    async def reminding(order: Order) -> str:
        payment = await charge(order.card, order.cents)
        reminded(reminder)
        return payment

    journal = await recorded(reminding, ORDER)
    assert replay(journal, reminding).status is RunStatus.COMPLETED
    assert replay([one.entry for one in journal], reminding, args=[ORDER]).status is RunStatus.COMPLETED


async def test_a_run_that_continued_matches_in_whichever_form_the_journal_comes():
    @workflow
    async def counting(n: int) -> int:
        return n if n else counting.continue_as_new(n + 1)

    journal = await recorded(counting, 0)
    assert replay(journal, counting).status is RunStatus.CONTINUED
    assert replay([one.entry for one in journal], counting, args=[0]).status is RunStatus.CONTINUED


async def test_a_run_that_passed_its_deadline_matches_in_whichever_form_the_journal_comes():
    @workflow(deadline="1h")
    async def slow() -> None:
        await holdfast.sleep("1d")

    journal = await recorded(slow)
    assert replay(journal, slow).status is RunStatus.FAILED
    assert replay([one.entry for one in journal], slow).status is RunStatus.FAILED


async def test_another_child_in_the_last_turn_is_divergence():
    @workflow
    async def other(order: Order) -> None:
        await holdfast.sleep("1d")

    def reminding(target):
        @changed
        async def body(order: Order) -> str:
            payment = await charge(order.card, order.cents)
            reminded(target)
            return payment

        return body

    journal = await recorded(reminding(reminder), ORDER)
    with pytest.raises(JournalDiverged, match=r"holds: child run 'reminder' asked.*\n.*child run 'other' asked"):
        replay(journal, reminding(other))


async def test_a_patch_no_longer_asked_about_in_the_last_turn_matches():
    @changed
    async def patching(order: Order) -> str:
        payment = await charge(order.card, order.cents)
        return payment if holdfast.patched("no-shipping") else ship(order, payment)

    @changed
    async def patched(order: Order) -> str:
        return await charge(order.card, order.cents)

    journal = await recorded(patching, ORDER)
    assert replay(journal, patching).status is RunStatus.COMPLETED
    assert replay(journal, patched).status is RunStatus.COMPLETED


async def test_another_result_is_divergence():
    journal = await recorded(checkout, ORDER)

    @changed
    async def louder(order: Order) -> str:
        payment = await charge(order.card, order.cents)
        await holdfast.sleep("1d")
        return ship(order, payment).upper()

    with pytest.raises(JournalDiverged, match=r"completed with \"4711 paid by paid\"\n.*\"4711 PAID BY PAID\""):
        replay(journal, louder)


async def test_a_failed_run_matches_code_that_would_try_it_again():
    """Whether it is tried again is up to a policy, and to a cancel that came with the failure: it is in no entry."""
    journal = await recorded(checkout, ORDER, stubs={charge: ValueError("no money")})

    @workflow(name="checkout", retry=holdfast.Retry(attempts=5))
    async def patient(order: Order) -> str:
        return await charge(order.card, order.cents)

    @workflow(name="checkout", retry=holdfast.Retry(attempts=5))
    async def caught(order: Order) -> str:
        try:
            return await charge(order.card, order.cents)
        except ValueError:
            raise ValueError("other words") from None

    assert replay(journal, patient).status is RunStatus.FAILED
    with pytest.raises(JournalDiverged, match=r"ValueError: no money\n.*ValueError: other words"):
        replay(journal, caught)


async def test_a_failed_run_replays_to_the_same_failure():
    journal = await recorded(checkout, ORDER, stubs={charge: holdfast.FatalError("no money")})
    assert replay(journal, checkout).status is RunStatus.FAILED

    @changed
    async def caught(order: Order) -> str:
        try:
            return await charge(order.card, order.cents)
        except holdfast.FatalError:
            raise ValueError("other words") from None

    with pytest.raises(JournalDiverged, match=r"FatalError: no money\n.*ValueError: other words"):
        replay(journal, caught)


@pytest.mark.parametrize("force", [False, True])
async def test_a_cancelled_run_replays(force):
    async with Environment([checkout], stubs={charge: "paid"}) as env:
        run = await env.client.start(checkout, ORDER)
        await env.until_waiting(run)
        await run.cancel(force=force)
        await run.wait()
        journal = await env.client.journal(run.id)
    assert replay(journal, checkout).status is RunStatus.CANCELLED


async def test_a_run_that_never_began_replays_to_nothing():
    async with Environment([checkout]) as env:
        run = await env.client.start(checkout.options(delay="1d"), ORDER)
        waiting = await env.client.journal(run.id)
        await run.cancel()
        cancelled = await env.client.journal(run.id)
    assert replay(waiting, checkout).waits_for == ("its first turn",)
    assert replay(cancelled, checkout).status is RunStatus.CANCELLED


async def test_races_and_timers_replay_in_journal_order():
    @workflow
    async def racing() -> str:
        tasks = [asyncio.create_task(charge(card, 1)) for card in "abc"]
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        await asyncio.sleep(60)
        return done.pop().result()

    journal = await recorded(racing, stubs={charge: lambda card, cents: card})
    assert replay(journal, racing).status is RunStatus.COMPLETED


async def test_a_workflow_that_was_retried_as_a_whole_replays():
    answers = iter([ValueError("no"), "shipped"])

    def answer(*_):
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    @workflow(retry=holdfast.Retry(attempts=2))
    async def twice() -> str:
        return ship.options(retry=holdfast.Retry(attempts=1))(ORDER, await charge("4711", 1))

    journal = await recorded(twice, stubs={charge: "paid", ship: answer})
    assert "run_retrying" in [entry.kind for entry in journal]
    assert replay(journal, twice).status is RunStatus.COMPLETED


async def test_io_in_the_body_is_refused_in_a_replay():
    journal = await recorded(checkout, ORDER)

    @changed
    async def reading(order: Order) -> str:
        return open(__file__).read()

    with pytest.raises(IOInBody):
        replay(journal, reading)


async def test_a_replay_refuses_wrong_input():
    journal = await recorded(checkout, ORDER)

    @workflow
    async def other() -> None: ...

    @step
    async def alone() -> None: ...

    with pytest.raises(DefinitionError, match="not of 'other'"):
        replay(journal, other)
    with pytest.raises(DefinitionError, match="decorated with @workflow"):
        replay(journal, alone)
    with pytest.raises(DefinitionError, match="not an exported journal"):
        replay(b"nonsense", checkout)
    with pytest.raises(DefinitionError, match="no entry of a journal"):
        replay(["started"], checkout)


@workflow
async def talkative() -> None:
    ship(ORDER, "paid")
    holdfast.logger.warning("shipped")


@workflow
async def losing() -> None:
    task = asyncio.create_task(fail())
    await holdfast.sleep("1h")
    assert task.done()


async def fail() -> None:
    raise KeyError("lost")


@pytest.mark.parametrize("body", [talkative, losing], ids=["its own lines", "what a task has failed with"])
async def test_a_replay_does_not_log_what_the_body_logged_before(caplog, body):
    journal = await recorded(body, stubs={ship: "parcel"})
    assert len(caplog.messages) == 1
    caplog.clear()
    replay(journal, body)
    assert caplog.messages == []
