"""tests/GUARDS.md says which test guards which promise: those tests have to be there."""

import ast
import re

import pytest

from tests.house.sources import ROOT

TEXT = (ROOT / "tests/GUARDS.md").read_text("utf-8")
SENTENCE = re.compile(r"`([\w/.]+)`: ([^;`|(]+)")


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


def as_name(sentence: str) -> str:
    return re.sub(r"\W+", "_", sentence.lower()).strip("_")


@pytest.fixture(scope="module")
def there() -> dict[str, set[str]]:
    return names()


def test_every_file_and_class_that_is_named_is_there(there):
    named = set(re.findall(r"`(tests/[\w/]+/test_\w+\.py|Test\w+)`", TEXT))
    assert len(named) > 40
    assert named - there.keys() == set()


def test_every_sentence_about_a_test_is_a_test_s_name(there):
    rows = [line.rstrip("| ").rpartition(" | ")[2] for line in TEXT.splitlines() if line.startswith("| ")]
    said = [found for row in rows for found in SENTENCE.findall(row) if found[0] in there]
    assert len(said) > 40
    lost = [found for found in said if not any(as_name(found[1]) in name for name in there[found[0]])]
    assert lost == []
