"""tests/GUARDS.md says which test guards which promise: those tests have to be there."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.sources import ROOT

TEXT = (ROOT / "tests/GUARDS.md").read_text("utf-8")
PLACE = re.compile(r"(?:contract )?`([\w/.*]+)`(?:: |$)")


def names() -> dict[str, set[str]]:
    """The names of all tests, by file and by class."""
    found: dict[str, set[str]] = {}
    for path in (*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "src/holdfast/testing/contract").glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in (tree, *(one for one in ast.walk(tree) if isinstance(one, ast.ClassDef))):
            place = node.name if isinstance(node, ast.ClassDef) else str(path.relative_to(ROOT))
            functions = (one for one in ast.walk(node) if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)))
            found.setdefault(place, set()).update(one.name for one in functions)
    return found


def sentences(cell: str) -> Iterator[tuple[str, str]]:
    """What a cell of the last column says of tests: `file`: one sentence; another one of the same file; `Class`: …"""
    place = ""
    for part in re.split(r"; |, (?=`)", re.sub(r" \([^)]*\)", "", cell)):
        found = PLACE.match(part)
        place = found[1] if found else place
        said = part[found.end() :] if found else part
        if said and not said.startswith("the simulation"):
            yield place, said


def as_name(sentence: str) -> str:
    return re.sub(r"\W+", "_", sentence.lower()).strip("_")


@pytest.fixture(scope="module")
def there() -> dict[str, set[str]]:
    return names()


def test_every_file_and_class_that_is_named_is_there(there):
    named = set(re.findall(r"`(tests/[\w/]+/test_\w+\.py|Test\w+)`", TEXT))
    assert len(named) > 40
    assert named - there.keys() == set()


def test_every_sentence_about_a_test_is_the_name_of_a_test(there):
    rows = [line.rstrip("| ").rpartition(" | ")[2] for line in TEXT.splitlines() if line.startswith("| ")]
    said = [found for row in rows if "`" in row for found in sentences(row)]
    assert len(said) > 60
    lost = [found for found in said if not any(as_name(found[1]) in name for name in there.get(found[0], ()))]
    assert lost == []


def test_every_sentence_of_a_cell_is_looked_at():
    cell = (
        "contract `TestKeys`: one; another one; `tests/a/test_b.py`, `tests/a/test_c.py`: a third; the simulation (P1)"
    )
    assert [*sentences(cell)] == [("TestKeys", "one"), ("TestKeys", "another one"), ("tests/a/test_c.py", "a third")]
