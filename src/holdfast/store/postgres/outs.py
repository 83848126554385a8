"""Writing what turns give out (children, waits, messages, values, successors) in the commit of their journal rows.

Turns that give nothing out are one statement. The others are a transaction: the journal rows come first, and then a
fixed number of statements, however many turns there are, for those whose rows were inserted just now. A turn that is
sent again finds its row, and does nothing. Rows are locked in this order: runs that are continued, runs that are
changed (both by number), keys (by name), and then only rows that are held for a moment or that nobody waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.model import Instant, Out, RowChange, RunStatus, Turn
from holdfast.store.subscribers import News

from . import chains, children, events, messages, values, waits
from .transactions import Transaction


class Given(NamedTuple):
    """What an accepted turn gives out, with its run's number and the time."""

    run: int
    turn: Turn
    out: Out
    at: Instant


def split_turns(turns: Sequence[Turn]) -> tuple[list[int], list[int]]:
    """The places of turns whose runs give nothing out, and of all others. All turns of a run are in the same list."""
    giving = {turn.run_id for turn in turns if turn.out is not None}
    plain = [place for place, turn in enumerate(turns) if turn.run_id not in giving]
    return plain, [place for place, turn in enumerate(turns) if turn.run_id in giving]


def ending(turn: Turn) -> Turn:
    """The turn; if it gives out a successor, with the change that ends its run as continued."""
    if turn.out is None or turn.out.successor is None:
        return turn
    if turn.change is not None and turn.change.status is RunStatus.CONTINUED:
        return turn
    return msgspec.structs.replace(turn, change=RowChange(status=RunStatus.CONTINUED))


async def lock_continued(tx: Transaction, turns: Sequence[Turn], numbers: dict[str, int]) -> set[int]:
    """Lock the runs that are about to continue. Returns those that somebody else has locked."""
    runs = [
        numbers[turn.run_id]
        for turn in turns
        if turn.run_id in numbers and turn.out is not None and turn.out.successor is not None
    ]
    return await chains.lock_continued(tx, runs) if runs else set()


async def give_out(tx: Transaction, turns: Sequence[Turn], numbers: dict[str, int], now: Instant | None) -> list[int]:
    """Write what turns give out whose rows were inserted by this transaction. Returns the numbers of runs that joined
    one.

    Successors come before signals, so that what is sent to a chain goes to the run that goes on.
    """
    given = [
        Given(numbers[turn.run_id], turn, turn.out, turn.at if now is None else now)
        for turn in turns
        if turn.out is not None
    ]
    joined: list[int] = []
    if any(_is_work(one.out) for one in given):
        tx.news |= News.WORK
    if cut := [one for one in given if one.out.truncate]:
        params = {
            "runs": [one.run for one in cut],
            "seqs": [one.turn.seq for one in cut],
            "epochs": [one.turn.epoch for one in cut],
        }
        await tx.all("truncate_journal", params)
    if closed := [(one.run, number) for one in given for number in one.out.closed]:
        await waits.close_waits(tx, closed)
    if opened := [(one.run, wait, one.at) for one in given for wait in one.out.waits]:
        await waits.register_waits(tx, opened)
    if successors := [(one.run, one.out.successor) for one in given if one.out.successor is not None]:
        await chains.continue_runs(tx, successors, now)
    if born := [(one.run, child, one.at) for one in given for child in one.out.children]:
        joined = await children.begin_children(tx, born, now)
    if orphans := [child.id for one in given if _ends(one.turn) for child in one.out.children]:
        await children.cancel_orphans(tx, orphans)
    if sent := [signal for one in given for signal in one.out.signals]:
        if strays := [(one.run, signal) for one in given for signal in one.out.signals if signal.child]:
            sent = await children.to_followed(tx, strays, sent)
        await messages.send_signals(tx, sent, now)
    if cancelled := [(one.run, run_id) for one in given for run_id in one.out.cancels]:
        await messages.send_cancels(tx, cancelled, now)
    if published := [event for one in given for event in one.out.events]:
        await events.publish_events(tx, published, now)
    if state := [(one.run, name, value, one.at) for one in given for name, value in one.out.values]:
        await values.set_values(tx, state)
    if items := [(one.run, stream, item, one.at) for one in given for stream, item in one.out.items]:
        await values.append_given(tx, items)
    return joined


def _is_work(out: Out) -> bool:
    """Whether it gives out anything that concerns workers: values and items do not."""
    return bool(out.waits or out.successor is not None or out.children or out.signals or out.cancels or out.events)


def _ends(turn: Turn) -> bool:
    return turn.change is not None and turn.change.status.is_final
