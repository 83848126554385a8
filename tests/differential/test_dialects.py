"""SQLite and Postgres are one store: hundreds of random sequences of operations, compared after each of them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from holdfast.store import Store
from tests.differential.fuzz import Difference, Fuzz
from tests.differential.sides import Side
from tests.servers import Databases

SEEDS = 80
CHUNK = 20
ELSEWHERE = {
    "read_clock": "each has a clock of its own; tests/contract has it",
    "subscribe": "what comes of a notification is a matter of time; tests/contract has it",
    "guest": "a caller's own connection is of another kind in each dialect; tests/contract has it",
    "lender": "so is the one that a step is lent; tests/worker and tests/acceptance have it",
}


@pytest.fixture(scope="module")
def fuzz(postgres: Databases, tmp_path_factory: pytest.TempPathFactory) -> Fuzz:
    """One file and one database for all of them."""
    folder: Path = tmp_path_factory.mktemp("differential")
    return Fuzz(folder, postgres.create_database())


class Counting:
    """A store that remembers which of its methods were called."""

    def __init__(self, store: Any, called: set[str]) -> None:
        self._store = store
        self._called = called

    def __getattr__(self, name: str) -> Any:
        self._called.add(name)
        return getattr(self._store, name)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The methods of stores that are called."""
    found: set[str] = set()
    open_side = Side.open

    async def counted(side: Side) -> None:
        make_store = side.make_store
        side.make_store = lambda: Counting(make_store(), found)
        await open_side(side)

    monkeypatch.setattr(Side, "open", counted)
    return found


async def first_difference(fuzz: Fuzz, first: int) -> str:
    """Of a chunk of seeds, as short as it can be shown; nothing if there is none."""
    found = [one for one in await fuzz.play_all(range(first, first + CHUNK)) if isinstance(one, Difference)]
    return str(await fuzz.shrink(found[0])) if found else ""


@pytest.mark.parametrize("first", range(CHUNK, SEEDS, CHUNK))
async def test_both_dialects_answer_alike_and_hold_the_same_after_each_operation(fuzz, first):
    assert await first_difference(fuzz, first) == ""


async def test_they_do_so_in_the_first_sequences_too_which_call_every_method_of_the_contract(fuzz, called):
    """What the fuzz never calls, it can't compare."""
    assert await first_difference(fuzz, 0) == ""
    wanted = {name for name, one in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")}
    assert set(ELSEWHERE) <= wanted
    assert wanted - set(ELSEWHERE) - called == set()
