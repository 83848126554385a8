"""What `help` says: public names, and what a user may call on them, have docstrings, and examples in those are code."""

import inspect
import re
from collections.abc import Iterator

import pytest

import holdfast
import holdfast.observe
import holdfast.testing
import holdfast.web
from holdfast.client import AsyncClient, AsyncRun, Client, Run
from holdfast.define import Context, Step, Workflow

MODULES = [holdfast, holdfast.observe, holdfast.testing, holdfast.web]
# Made by what is public, and used as often.
MADE = [Context, Step, Workflow]
TWINS = [(Client, AsyncClient), (Run, AsyncRun)]
# A statement at the margin is an example that the site takes for text, and runs together into one line.
STATEMENT = re.compile(r"^(?:(?:async )?(?:for|with) .*:|return \[.*|\w[\w, ]* = .*)$", re.MULTILINE)


def texts_of(name: str, value: object) -> Iterator[tuple[str, str]]:
    """What help says of a class, of what it defines itself, or of a function. A method may have its base's words."""
    if inspect.isclass(value):
        yield name, inspect.cleandoc(vars(value).get("__doc__") or "")
        for member, held in vars(value).items():
            function = held.fget if isinstance(held, property) else getattr(held, "__func__", held)
            if not member.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{member}", inspect.getdoc(getattr(value, member)) or ""
    elif inspect.isfunction(value):
        yield name, inspect.getdoc(value) or ""


def texts() -> Iterator[tuple[str, str]]:
    for module in MODULES:
        for name in module.__all__:
            yield from texts_of(f"{module.__name__}.{name}", getattr(module, name))
    for cls in MADE:
        yield from texts_of(cls.__name__, cls)


def test_every_public_name_says_what_it_is():
    assert [name for name, text in texts() if not text] == []


def test_help_on_a_blocking_method_says_what_its_async_twin_promises():
    bare = [
        f"{blocking.__name__}.{name}"
        for blocking, twin in TWINS
        for name, method in vars(blocking).items()
        if inspect.isfunction(method) and (inspect.getdoc(method) or "").startswith("As ")
        if inspect.getdoc(getattr(twin, name)) not in inspect.getdoc(method)
    ]
    assert bare == []


def test_examples_are_indented_below_the_text_around_them():
    assert [name for name, text in texts() if STATEMENT.search(text)] == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("Both.\n\nfirst, second = render.start(page), render.start(other)         # under way", True),
        ("All.\n\nasync for run in client.runs():\n    print(run.id)", True),
        ("Both.\n\n    first = render.start(page)\n\nThe end.", False),
    ],
)
def test_an_example_at_the_margin_is_found(text, is_found):
    assert bool(STATEMENT.search(text)) == is_found
