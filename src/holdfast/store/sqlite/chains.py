"""Chains: which of a chain's runs is live. Inboxes, taken events, values and streams belong to chains.

Writers look a chain up while they hold the write lock: no run can continue as new between the look and the insert, so
no message is left behind with a run that has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.model import Instant

from .transactions import Transaction, as_json


class Chain(NamedTuple):
    """A chain, and its newest run."""

    id: str
    run: int
    run_id: str
    is_live: bool


def find_chains(tx: Transaction, run_ids: Sequence[str]) -> dict[str, Chain]:
    """The chains of runs by the runs' ids. A chain of which no run is left is missing."""
    params = {"namespace_id": tx.namespace_id, "ids": as_json(list(dict.fromkeys(run_ids)))}
    return {
        asked: Chain(chain_id, run, run_id, bool(is_live))
        for asked, chain_id, run, run_id, is_live in tx.all("find_chains", params)
    }


def find_chain(tx: Transaction, run_id: str) -> Chain | None:
    """The chain of one run, or None."""
    return find_chains(tx, [run_id]).get(run_id)


def chain_start(tx: Transaction, chain_id: str) -> Instant | None:
    """When the chain began, if any run of it is left."""
    chain = find_chain(tx, chain_id)
    row = None if chain is None else tx.one("find_chain_start", {"run": chain.run})
    return None if row is None else int(row[0])


def chains_of(tx: Transaction, runs: Sequence[int]) -> Mapping[int, str]:
    """The ids of the chains of runs by the runs' numbers."""
    return dict(tx.all("chains_of", {"runs": as_json(list(runs))}))
