"""The modules that the rules of the house are held against, read once."""

import pytest

from tests.house.sources import ROOT, SOURCE, Module, modules_under


@pytest.fixture(scope="session")
def modules() -> list[Module]:
    """Every module of the package."""
    return modules_under(SOURCE / "holdfast", SOURCE)


@pytest.fixture(scope="session")
def examples() -> list[Module]:
    """Every example: they show what users may import."""
    return modules_under(ROOT / "examples", ROOT)
