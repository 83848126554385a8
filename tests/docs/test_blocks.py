"""The code on pages is run: all of it where a page stands by itself, and its calls are compared everywhere else."""

from __future__ import annotations

import ast
import asyncio
import builtins
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import holdfast
import holdfast.testing
from holdfast import IOInBody, JournalDiverged, NeverAwaited, RunStatus
from holdfast.cli import app as command
from holdfast.define import Workflow
from holdfast.testing import Environment
from tests.docs.pages import DOCS, ROOT, Block, blocks_of

PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
# What a name stands for on every page.
KNOWN = {
    "client": holdfast.AsyncClient,
    "async_client": holdfast.AsyncClient,
    "run": holdfast.AsyncRun,
    "worker": holdfast.Worker,
    "env": Environment,
    "holdfast": holdfast,
}


def page_as_module(page: Path, folder: Path) -> ModuleType:
    """All of a page's Python in one module. Lines keep their numbers, so that errors name the page's."""
    lines = [""] * len(page.read_text("utf-8").splitlines())
    for block in blocks_of(page):
        if block.language == "python":
            text = block.text.splitlines()
            lines[block.line - 1 : block.line - 1 + len(text)] = text
    source = folder / f"page_{page.stem}.py"
    source.write_text("\n".join(lines) + "\n", "utf-8")
    module = ModuleType(source.stem)
    module.__file__ = str(source)
    sys.modules[module.__name__] = module
    exec(compile(source.read_text("utf-8"), page, "exec"), module.__dict__)
    return module


def parse(block: Block) -> ast.Module:
    """A page may show what stands inside an `async def`."""
    tree = compile(block.text, "page", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(tree, ast.Module)
    return tree


def calls_of(block: Block) -> Iterator[tuple[str, Any, list[str]]]:
    """Calls of things that are known by name: how they are written, what is called, and the keywords given."""
    for node in ast.walk(parse(block)):
        if not isinstance(node, ast.Call):
            continue
        keywords = [keyword.arg for keyword in node.keywords if keyword.arg is not None]
        match node.func:
            case ast.Name(id=name) if name in holdfast.__all__ or name in holdfast.testing.__all__:
                yield name, getattr(holdfast, name, None) or getattr(holdfast.testing, name), keywords
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in KNOWN:
                yield f"{owner}.{name}", getattr(KNOWN[owner], name, None), keywords


def unknown_calls(block: Block) -> list[str]:
    """Calls on a page of what there is not, or with keywords that it does not take."""
    wrong = []
    for text, called, keywords in calls_of(block):
        if called is None:
            wrong.append(f"{text}()")
            continue
        taken = (
            {} if isinstance(called, type) and issubclass(called, Exception) else inspect.signature(called).parameters
        )
        if not any(one.kind is one.VAR_KEYWORD for one in taken.values()):
            wrong += [f"{text}({keyword}=)" for keyword in keywords if keyword not in taken]
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_calls_on_a_page_fit_existing_functions(page):
    assert [call for block in blocks_of(page) if block.language == "python" for call in unknown_calls(block)] == []


def test_a_call_that_fits_no_function_is_found():
    block = Block("python", "client.strat(x)\nsleep(1, jitter=2)\nclient.start(x, key='y')\n", 1)
    assert unknown_calls(block) == ["client.strat()", "sleep(jitter=)"]


class Anything:
    """Stands for what a page does not show, in annotations, decorators and defaults."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __getitem__ = __or__


class Names(dict[str, Any]):
    """What a page's code finds: what it has defined, the public names, and anything else for what it does not show."""

    def __missing__(self, name: str) -> Any:
        if name == "holdfast":
            return holdfast
        if name in KNOWN:
            return Anything()
        for module in (builtins, holdfast, holdfast.testing):
            if name in dir(module):
                return getattr(module, name)
        return Anything()


def define(block: Block, names: Names) -> set[str]:
    """Define what a block defines, and say what. Decorators and annotations are run, what functions hold is not."""
    tree = parse(block)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [node for node in tree.body if isinstance(node, kinds)]
    exec(compile(ast.Module(found, []), f"line {block.line}", "exec"), {"__name__": "page"}, names)
    return {node.name for node in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_defines_can_be_defined(page):
    names = Names()
    for block in blocks_of(page):
        if block.language == "python":
            assert define(block, names) <= set(names), f"line {block.line}"


def test_a_definition_that_is_refused_is_found():
    with pytest.raises(holdfast.BadDuration):
        define(Block("python", "@workflow(deadline='1 fortnight')\nasync def x() -> Unknown: ...\n", 1), Names())


def test_the_tests_on_the_page_about_tests_pass(tmp_path):
    lines = [block.text for block in blocks_of(DOCS / "testing.md") if block.language == "python"]
    # The last test is a coroutine: pytest needs a plugin for those, and a reader has one.
    lines.append("import asyncio, inspect\n_test = test_with_a_worker\n")
    lines.append("def test_with_a_worker(tmp_path): asyncio.run(_test(tmp_path))\n")
    (tmp_path / "test_page.py").write_text("\n\n".join(lines), "utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_page.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    told = sum(block.text.count("def test_") for block in blocks_of(DOCS / "testing.md"))
    assert (ran.returncode, f"{told} passed" in ran.stdout) == (0, True), ran.stdout


MISTAKES = {
    "greeting_by_the_clock": ((), JournalDiverged),
    "lottery_by_dice": (([str(number) for number in range(10_000)],), JournalDiverged),
    "mirror_in_the_body": (("http://127.0.0.1:9/",), IOInBody),
    "crawl_by_threads": ((["a", "b"],), IOInBody),
    "once_by_memory": (("page",), JournalDiverged),
    "notice_forgotten": (("text",), NeverAwaited),
    "approved_unseen": (("page",), NeverAwaited),
}
FIXES = {
    "first_answer": (["a", "b"],),
    "greeting": (),
    "lottery": ([str(number) for number in range(10_000)],),
    "mirror": ("http://127.0.0.1:9/",),
    "crawl_at_once": (["b", "a"],),
    "crawl": (["b", "a"],),
    "once": ("page",),
    "notice": ("text",),
    "approved_or_called_off": ("page",),
    "approved_in_a_task": ("page",),
}


@pytest.fixture(scope="module")
def determinism(tmp_path_factory) -> ModuleType:
    return page_as_module(DOCS / "determinism.md", tmp_path_factory.mktemp("determinism"))


def status_of(workflow: Any, args: tuple[Any, ...]) -> RunStatus:
    """How a run of it ends; what it raises is raised."""

    async def run() -> RunStatus:
        async with Environment(workflows=[workflow]) as env:
            made = await env.client.start(workflow, *args)
            await made.result()
            return (await made.refresh()).status

    return asyncio.run(run())


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name, determinism):
    args, error = MISTAKES[name]
    determinism.seen.clear()
    with pytest.raises(error):
        status_of(vars(determinism)[name], args)


@pytest.mark.parametrize("name", FIXES)
def test_its_fix_works(name, determinism):
    assert status_of(vars(determinism)[name], FIXES[name]) == "completed"


def test_every_workflow_on_the_page_is_tried(determinism):
    found = {name for name, value in vars(determinism).items() if isinstance(value, Workflow)}
    # In one process a set has one order, so its mistake is not seen here.
    assert found - set(MISTAKES) - set(FIXES) == {"crawl_by_chance"}


def test_lint_names_the_mistakes_and_none_of_the_fixes(determinism, capsys):
    assert command.run(["lint", determinism.__file__, "--json"]) == 1
    said = "\n".join(finding["message"] for finding in json.loads(capsys.readouterr().out)["findings"])
    # That a timeout keeps a task from its `await` is seen only when it happens.
    expected = {*MISTAKES, "crawl_by_chance"} - {"approved_unseen"}
    assert set(re.findall(r"\(workflow (\w+)\)", said)) == expected
