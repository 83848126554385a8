"""Children: a turn begins them, or joins a run that exists. And who is told of an end that two commits hid from each
other."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial

import msgspec

from holdfast.errors import StoreError
from holdfast.model import Instant, NewRun, OutSignal
from holdfast.store.starts import is_takeover, parts_of
from holdfast.store.subscribers import News

from .links import Pool
from .starts import Creation, create_runs, start_keyed
from .transactions import Transaction

WALKED_AT_ONCE = 5_000
"""How many followers one look for missed ends walks along. It takes a few hundredths of a second."""


async def begin_children(
    tx: Transaction, children: Sequence[tuple[int, NewRun, Instant]], now: Instant | None
) -> list[int]:
    """Create the children of turns, each given as (the asker's number, the child, the time), or join runs that exist.

    Returns the numbers of the askers that joined a run.
    """
    joined: list[int] = []
    for part in parts_of([child for _, child, _ in children]):
        left = children[part]
        while left:
            joining = await _begin_part(tx, left, now)
            met = await _join(tx, joining) if joining else set()
            # The runs that the rest were to join have been removed since they were found: those are begun after all.
            left = [one for one in joining if (one[0], one[1].parent_key) not in met]
            joined += [asker for asker, _ in met]
    return joined


async def _begin_part(
    tx: Transaction, children: Sequence[tuple[int, NewRun, Instant]], now: Instant | None
) -> list[tuple[int, NewRun, Instant]]:
    """Create the children that can be created, and return those whose askers have to join a run that exists."""
    rows = await tx.all("find_ids", {"namespace_id": tx.namespace_id, "ids": [child.id for _, child, _ in children]})
    known = {id for id, _ in rows}
    free: dict[str, NewRun] = {}
    for _, child, _ in children:
        if child.id not in known:
            free.setdefault(child.id, child)
    # Keys are taken in one order: two commits that begin children with the same keys wait in line.
    ordered = sorted(free.values(), key=lambda child: (child.workflow, child.key or ""))
    created = await create_runs(tx, [Creation(child) for child in ordered if not is_takeover(child)], now)
    for child in ordered:
        # A later try of the asker wants another run than the ended one that holds the key.
        if is_takeover(child) and (await start_keyed(tx, child, now)).created:
            created.add(child.id)
    joining: list[tuple[int, NewRun, Instant]] = []
    for asker, child, at in children:
        if child.id in created:
            created.discard(child.id)
        elif child.parent_key is not None:
            joining.append((asker, child, at))
    return joining


async def _join(tx: Transaction, joining: Sequence[tuple[int, NewRun, Instant]]) -> set[tuple[int, str]]:
    """Join runs. Returns (asker, key) for each that has found its run; `key` is the one that the asker's body uses."""
    params = {
        "namespace_id": tx.namespace_id,
        "askers": [asker for asker, _, _ in joining],
        "parent_keys": [child.parent_key for _, child, _ in joining],
        "ids": [child.id for _, child, _ in joining],
        "workflows": [child.workflow for _, child, _ in joining],
        "keys": [child.key for _, child, _ in joining],
        "ats": [at for _, _, at in joining],
    }
    return {(asker, parent_key) for asker, parent_key in await tx.all("join_runs", params)}


async def to_followed(
    tx: Transaction, strays: Sequence[tuple[int, OutSignal]], signals: Sequence[OutSignal]
) -> list[OutSignal]:
    """The signals, those to children that were never begun sent to the runs that were joined instead.

    `strays` are those of the signals that go to children, each with the number of the run that sends it.
    """
    params = {
        "namespace_id": tx.namespace_id,
        "askers": [asker for asker, _ in strays],
        "parent_keys": [signal.child for _, signal in strays],
        "ids": [signal.run_id for _, signal in strays],
    }
    wanted = {(asker, signal.child): signal.run_id for asker, signal in strays}
    joined = {wanted[asker, key]: run_id for asker, key, run_id in await tx.all("find_followed", params)}
    return [msgspec.structs.replace(signal, run_id=joined.get(signal.run_id, signal.run_id)) for signal in signals]


async def cancel_orphans(tx: Transaction, child_ids: Sequence[str]) -> None:
    """Ask children to end that were begun by the very turn that ended their parent."""
    await tx.all("cancel_orphans", {"namespace_id": tx.namespace_id, "ids": list(child_ids)})


async def look_again(pool: Pool, followers: Sequence[int]) -> None:
    """Tell followers, after the commit in which they joined, of ends that happened at the same time: a run that was
    just ending did not see them.

    Each statement is a commit of its own. Whatever is missed here is told by the next worker that looks for the dead:
    after a crash here, of an end that began before this and locks its run only after `await_ends` has looked, and of a
    run that somebody has locked for longer than an end takes, since turns don't wait for this.
    """

    async def await_ends(tx: Transaction) -> None:
        await tx.all("await_ends", {"followers": list(followers)})

    with contextlib.suppress(StoreError):
        await pool.run(await_ends, patience=0)
    with contextlib.suppress(StoreError):
        await pool.run(partial(_tell_missed, followers=followers), is_one=True, patience=0)


async def tell_missed(tx: Transaction) -> None:
    """Tell followers of ends that they were not told of. Each look goes on where the last one stopped."""
    after_run, after_follower = tx.known.walked
    params = {
        "namespace_id": tx.namespace_id,
        "after_run": after_run,
        "after_follower": after_follower,
        "limit": WALKED_AT_ONCE,
    }
    rows = await tx.all("find_missed", params)
    tx.known.walked = next(((run, follower) for run, follower, _, is_last in rows if is_last), (0, 0))
    missed = [follower for _, follower, is_missed, _ in rows if is_missed]
    if missed:
        await _tell_missed(tx, missed)


async def tell_followers(tx: Transaction, runs: Sequence[int], chains: Sequence[str]) -> None:
    """Before ended runs are removed, tell those who still follow them, or earlier runs of their chains."""
    params = {"namespace_id": tx.namespace_id, "runs": list(runs), "chains": list(chains)}
    while found := await tx.all("find_followers", params):
        await _tell_missed(tx, [follower for (follower,) in found])


async def _tell_missed(tx: Transaction, followers: Sequence[int]) -> None:
    if await tx.all("tell_missed", {"followers": list(followers)}):
        tx.news |= News.WORK
