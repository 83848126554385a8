"""The shape of modules: how they open, how long they get, what they are called, and what must not be in them."""

import ast
import re
import sys

from tests.house.sources import ROOT, Module, parse

LONGEST = 400
EMPTY_NAMES = {"utils", "util", "common", "helpers", "helper", "base", "core", "manager", "impl", "misc", "types"}
BANNER = re.compile(r"^ *#.*-{5}$", re.MULTILINE)
HOME = re.compile(r"(?<![\w.])/(?:home|Users|root)/\w")
SUFFIXES = {".cfg", ".in", ".ini", ".json", ".md", ".py", ".sh", ".sql", ".toml", ".txt", ".yaml", ".yml"}


def bad_names(module: Module) -> list[str]:
    """Parts of a module's name that say nothing, or that mean a module of the standard library."""
    taken = EMPTY_NAMES | (sys.stdlib_module_names - {"__main__"})
    return [f"{module.name}: {part}" for part in module.name.split(".")[1:] if part.lstrip("_") in taken]


def test_every_module_opens_with_a_docstring(modules):
    assert [module.name for module in modules if not ast.get_docstring(module.tree)] == []


def test_no_module_is_too_long_to_read(modules):
    lengths = {module.name: module.text.count("\n") for module in modules}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}


def test_module_names_say_what_is_inside(modules):
    assert [found for module in modules for found in bad_names(module)] == []


def test_a_bad_name_is_found():
    assert bad_names(parse("", "holdfast.store.utils"))
    assert bad_names(parse("", "holdfast.engine._base"))
    assert bad_names(parse("", "holdfast.observe.logging"))
    assert not bad_names(parse("", "holdfast.store.runs"))


def test_no_banner_divides_a_module(modules):
    """One that needs them wants to be two."""
    assert BANNER.search("    # -- life -----\n")
    beside = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "examples").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    texts = {module.name: module.text for module in modules} | {str(path): path.read_text("utf-8") for path in beside}
    assert [name for name, text in texts.items() if BANNER.search(text)] == []


def test_nothing_names_somebody_s_home_directory():
    found = []
    places = ["src", "tests", "examples", "benchmarks", "docs", ".ci"]
    files = [path for place in places for path in (ROOT / place).rglob("*")] + list(ROOT.iterdir())
    for path in files:
        if not path.is_file() or (path.suffix not in SUFFIXES and path.name not in {"Makefile", "run"}):
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if HOME.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "src" / "holdfast" / "py.typed").exists()
