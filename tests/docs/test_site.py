"""Every page has its place on the site, and every public name its place in the reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

import holdfast
import holdfast.blocking
import holdfast.errors
import holdfast.testing
from tests.docs.pages import DOCS, ROOT

SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
# Modules that the reference shows whole.
WHOLE = ("holdfast.blocking", "holdfast.errors", "holdfast.observe", "holdfast.testing", "holdfast.web")


def placed(nav: Any) -> Iterator[str]:
    """The pages that a part of the navigation names."""
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from placed(part)


def directives() -> list[str]:
    """The names that the reference asks for."""
    pages = (DOCS / "reference").glob("*.md")
    return [name for page in pages for name in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE)]


def test_the_site_has_the_five_parts_that_readers_look_for():
    assert [part for entry in SITE["nav"] for part in entry] == [
        "Start",
        "How to",
        "Why it works",
        "Reference",
        "Operate",
    ]


def test_every_page_has_its_place_on_the_site():
    """A page that is missing here goes into `nav` in mkdocs.yml: `make check` builds the site and would refuse it."""
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert pages - set(placed(SITE["nav"])) == set()


def test_every_place_has_a_page():
    places = {place for place in placed(SITE["nav"]) if not place.startswith("repository/")}
    assert {place for place in places if not (DOCS / place).exists()} == set()


def test_files_of_the_repository_that_have_a_place_on_the_site_exist():
    places = [place for place in placed(SITE["nav"]) if place.startswith("repository/")]
    assert [place for place in places if not (ROOT / place.removeprefix("repository/")).exists()] == []


def test_every_public_name_is_in_the_reference():
    shown = {name.removeprefix("holdfast.") for name in directives()} | set(vars(holdfast.errors))
    assert set(holdfast.__all__) - shown == set()


@pytest.mark.parametrize("module", WHOLE)
def test_a_public_module_is_in_the_reference(module):
    assert module in directives()


def test_the_site_fetches_nothing_from_elsewhere():
    assert (SITE["theme"]["font"], SITE.get("extra_javascript"), SITE.get("extra_css")) == (False, None, None)
