"""Writing what accepted turns give out, in the commit of their rows: for all turns of a batch together, noun by
noun."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, Turn

from .children import cancel_all, continue_run, start_children
from .events import insert_events
from .messages import send_signals
from .transactions import Transaction
from .values import append_outs, set_values
from .waits import close_waits, register_waits


def give_out(tx: Transaction, turns: Sequence[tuple[int, Turn]], at: Instant) -> None:
    """Write what turns give out, each given with its run's number. What they change in their runs is written before."""
    outs = [(run, turn.out) for run, turn in turns if turn.out is not None]
    for run, turn in turns:
        if turn.out is not None and turn.out.truncate:
            tx.run("truncate_journal", {"run": run, "seq": turn.seq})
            tx.run("cut_journal", {"run": run, "seq": turn.seq, "epoch": turn.epoch})
    if closed := [(run, number) for run, out in outs for number in out.closed]:
        close_waits(tx, closed)
    if waits := [(run, wait) for run, out in outs for wait in out.waits]:
        register_waits(tx, waits, at)
    # Before anything is sent: what is sent to a run that continues in this batch is for its successor.
    for run, turn in turns:
        if turn.out is not None and turn.out.successor is not None:
            continue_run(tx, run, turn.run_id, turn.out.successor, at)
    if children := [(run, child) for run, out in outs for child in out.children]:
        start_children(tx, children, at)
    if signals := [(run, signal) for run, out in outs for signal in out.signals]:
        send_signals(tx, signals, at)
    if cancels := [(run, run_id) for run, out in outs for run_id in out.cancels]:
        cancel_all(tx, cancels, at)
    if events := [event for _, out in outs for event in out.events]:
        insert_events(tx, events, at)
    if values := [(run, name, value) for run, out in outs for name, value in out.values]:
        set_values(tx, values, at)
    if items := [(run, stream, payload) for run, out in outs for stream, payload in out.items]:
        append_outs(tx, items, at)
