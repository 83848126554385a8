"""What the rules of the house are held against, read or made once: modules, and a Postgres with many runs."""

import pytest

from tests.house.filled_postgres import filled
from tests.house.sources import ROOT, SOURCE, Module, modules_under
from tests.servers import Databases


@pytest.fixture(scope="session")
def modules() -> list[Module]:
    """Every module of the package."""
    return modules_under(SOURCE / "holdfast", SOURCE)


@pytest.fixture(scope="session")
def examples() -> list[Module]:
    """Every example: they show what users may import."""
    return modules_under(ROOT / "examples", ROOT)


@pytest.fixture(scope="session")
def url(postgres: Databases) -> str:
    """A Postgres database with many runs of every kind in it. Leave it as it is."""
    return filled(postgres.create_database())
