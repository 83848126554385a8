"""Children that a turn begins or joins, and how a run continues as new. All of it is part of the turn's commit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model import Instant, NewRun
from holdfast.store.subscribers import News

from .chains import find_chains
from .ends import told
from .messages import insert_messages
from .starts import create_run, start_runs
from .transactions import Transaction, as_json


def start_children(tx: Transaction, children: Sequence[tuple[int, NewRun]], at: Instant) -> None:
    """Create children, each given with the number of the run that asks for it. Where a run with the same id or key
    exists, the asking run joins that one."""
    started = start_runs(tx, [child for _, child in children], at)
    joined = [
        (run, child.parent_key, answer.id)
        for (run, child), answer in zip(children, started, strict=True)
        if not answer.created and child.parent_key is not None
    ]
    if not joined:
        return
    chains = find_chains(tx, [run_id for _, _, run_id in joined])
    followed = [(run, key, chains[run_id]) for run, key, run_id in joined if run_id in chains]
    live = [(chain.run, run, key) for run, key, chain in followed if chain.is_live]
    if live:
        tx.rows("insert_followers", live)
    ended = {chain.run for _, _, chain in followed if not chain.is_live}
    if ended:
        ends = {row[0]: row[1:] for row in tx.all("read_ends", {"runs": as_json(list(ended))})}
        insert_messages(tx, [told(run, key, ends[chain.run], at) for run, key, chain in followed if chain.run in ends])


def cancel_all(tx: Transaction, cancels: Sequence[tuple[int, str]], at: Instant) -> None:
    """Ask children to end, each given with its parent's number. The live run of the child's chain is asked. If it never
    began, the cancel makes it due, and the worker that claims it ends it."""
    chains = find_chains(tx, [run_id for _, run_id in cancels])
    asked = [(chains[run_id].run, run) for run, run_id in cancels if run_id in chains and chains[run_id].is_live]
    if asked:
        tx.run("send_cancels", {"asked": as_json(asked), "payload": b"", "now": at})
        tx.news |= News.WORK


def continue_run(tx: Transaction, run: int, run_id: str, successor: NewRun, at: Instant) -> None:
    """Create the run that goes on after this one, and hand over to it what belongs to the chain.

    Messages about ended children stay behind: the successor has not asked for those children, and may ask for others by
    the same keys.
    """
    row = tx.one("find_inherited", {"run": run})
    assert row is not None
    key, chain_id, parent_id, parent_key, on_parent_end, trace, kept, is_own, workflow, is_paused, holder = row
    new = msgspec.structs.replace(
        successor,
        key=key,
        chain_id=chain_id,
        parent_id=parent_id,
        parent_key=parent_key,
        on_parent_end=on_parent_end,
        trace=trace,
        retention=kept if is_own else successor.retention,
        has_own_retention=bool(is_own),
    )
    number, lane_id = create_run(tx, new, at)
    moved = {"run": run, "successor": number, "lane_id": lane_id, "successor_id": new.id, "id": run_id}
    moved["namespace_id"] = tx.namespace_id
    if holder == run and new.workflow == workflow:
        tx.run("hold_key", {"namespace_id": tx.namespace_id, "workflow": workflow, "key": key, "run": number})
    if is_paused:
        tx.run("inherit_pause", {"run": number})
    for name in ("name_successor", "move_messages", "move_hooks", "move_followers", "move_waiting"):
        tx.run(name, moved)
    tx.news |= News.WORK
