"""SQLite and Postgres are one store: hundreds of random sequences of operations, compared after each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential.fuzz import Difference, Fuzz
from tests.servers import Databases

SEEDS = 80
CHUNK = 20


@pytest.fixture(scope="module")
def fuzz(postgres: Databases, tmp_path_factory: pytest.TempPathFactory) -> Fuzz:
    """One file and one database for all of them."""
    folder: Path = tmp_path_factory.mktemp("differential")
    return Fuzz(folder, postgres.create_database())


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
async def test_both_dialects_answer_alike_and_hold_the_same_after_each_operation(fuzz, first):
    found = [one for one in await fuzz.play_all(range(first, first + CHUNK)) if isinstance(one, Difference)]
    if found:
        pytest.fail(str(await fuzz.shrink(found[0])))
