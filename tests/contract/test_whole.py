"""No part of the contract is left out: each of its classes is run on SQLite and on Postgres."""

import pytest

from holdfast.testing import contract
from tests.contract import test_postgres, test_sqlite, test_sqlite_shared


@pytest.mark.parametrize(
    "run",
    [[*test_sqlite.__all__, *test_sqlite_shared.__all__], test_postgres.__all__],
    ids=["sqlite", "postgres"],
)
def test_every_part_of_the_contract_is_run(run):
    assert set(contract.__all__) - set(run) == set()
