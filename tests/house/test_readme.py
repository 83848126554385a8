"""README stays short and names its two commands. On every page links lead somewhere, and code is Python."""

import ast
import re
from pathlib import Path

import pytest

import holdfast
import holdfast.testing
import holdfast.web
from tests.house.sources import ROOT

README = (ROOT / "README.md").read_text("utf-8")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
# Where a name with "holdfast." in front of it is no name of the package's: files, the database's own, and a logger.
FILES = {"db", "toml", "sql", "audit"}


def blocks_of(page: Path) -> list[str]:
    return re.findall(r"^```python[^\n]*\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def links_of(page: Path) -> list[str]:
    return re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text("utf-8"))


def wrong_in(block: str) -> list[str]:
    """What is no Python in it. A page may show what stands inside an `async def`."""
    try:
        compile(block, "page", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        return [f"{error}: {error.text}"]
    return []


def unknown_names(text: str) -> list[str]:
    """Names such as holdfast.sleep that there are not."""
    return [
        name for name in re.findall(r"\bholdfast\.(\w+)", text) if name not in FILES and not hasattr(holdfast, name)
    ]


def test_the_readme_is_short():
    assert len(README.splitlines()) < 150


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_names_its_two_commands(command):
    assert command in README


def test_the_readme_has_an_example():
    assert blocks_of(ROOT / "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_on_a_page_is_python(page):
    assert [wrong for block in blocks_of(page) for wrong in wrong_in(block)] == []


def test_code_that_is_no_python_is_found():
    assert wrong_in("receipt = await charge()") == []
    assert "invalid syntax" in wrong_in("def charge(:")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_link_on_a_page_leads_somewhere(page):
    assert [link for link in links_of(page) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_only_what_exists(page):
    assert unknown_names(page.read_text("utf-8")) == []


def test_a_name_that_does_not_exist_is_found():
    assert unknown_names("call holdfast.slep() or holdfast.sleep(), see holdfast.toml") == ["slep"]


def test_every_page_is_in_the_index():
    index = set(links_of(ROOT / "docs" / "README.md"))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - index == {"README.md"}
