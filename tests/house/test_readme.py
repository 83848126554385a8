"""README stays short, names its two commands, and shows code that is Python."""

import ast
import re

import pytest

from tests.house.sources import ROOT

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
LINKS = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", README)


def test_the_readme_is_short():
    assert len(README.splitlines()) < 150


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_names_its_two_commands(command):
    assert command in README


def test_the_readme_has_an_example():
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_code_in_the_readme_is_python(block):
    ast.parse(block)


@pytest.mark.parametrize("link", LINKS)
def test_a_link_in_the_readme_leads_somewhere(link):
    assert (ROOT / link).exists()
