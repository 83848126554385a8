"""The fuzz leaves nothing of the contract out: what it never calls, it can't compare."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from holdfast.store import Store
from tests.differential.fuzz import Fuzz
from tests.differential.sides import Side
from tests.differential.test_dialects import SEEDS
from tests.servers import Databases

ELSEWHERE = {
    "subscribe": "what comes of a notification is a matter of time; tests/contract has it",
    "guest": "a caller's own connection is of another kind in each dialect; tests/contract has it",
    "lender": "so is the one that a step is lent; tests/worker and tests/acceptance have it",
}


class Counting:
    """A store that remembers which of its methods were called."""

    def __init__(self, store: Any, called: set[str]) -> None:
        self._store = store
        self._called = called

    def __getattr__(self, name: str) -> Any:
        self._called.add(name)
        return getattr(self._store, name)


async def test_every_method_of_the_contract_is_called_by_the_fuzz(
    postgres: Databases, tmp_path: Path, monkeypatch
) -> None:
    called: set[str] = set()
    open_sides = Side.open

    async def counted(side: Side) -> None:
        make_store = side.make_store
        side.make_store = lambda: Counting(make_store(), called)
        await open_sides(side)

    monkeypatch.setattr(Side, "open", counted)
    wanted = {name for name, one in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")}
    assert set(ELSEWHERE) <= wanted
    fuzz = Fuzz(tmp_path, postgres.create_database())
    # A few of the suite's own seeds will do; more are played only while something is missing.
    for first in range(0, SEEDS, 5):
        await fuzz.play_all(range(first, first + 5))
        if wanted - set(ELSEWHERE) <= called:
            return
    assert wanted - set(ELSEWHERE) - called == set()
