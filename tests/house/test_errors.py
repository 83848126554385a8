"""The tree drawn at the top of errors.py is the tree of classes."""

import builtins
import inspect
import re

import holdfast
from holdfast import errors

BRANCH = re.compile(r"^(?P<indent>[ │├└─]*)(?P<names>[A-Z]\w+.*?)(?:\s{2,}.*)?$")
NAME = re.compile(r"([A-Z]\w+)(?: \(also (\w+)\))?")


def drawn() -> dict[str, set[str]]:
    """Each name in the drawing, with the names of the classes it is drawn under or says it also is."""
    tree: dict[str, set[str]] = {}
    above: list[tuple[int, str]] = []
    for line in inspect.getdoc(errors).splitlines()[1:]:
        branch = BRANCH.match(line)
        if not branch:
            continue
        depth = len(branch["indent"])
        while above and above[-1][0] >= depth:
            above.pop()
        names = NAME.findall(branch["names"])
        for name, also in names:
            tree[name] = {parent for _, parent in above[-1:]} | {also} - {""}
        above.append((depth, names[-1][0]))
    return tree


def class_of(name: str) -> type:
    return getattr(errors, name, None) or getattr(builtins, name)


def defined() -> dict[str, type]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__ and not name.startswith("_")
    }


def parents_of(error: type) -> list[type]:
    """Those that a user can see."""
    found = []
    for base in error.__bases__:
        found += parents_of(base) if base.__name__.startswith("_") else [base]
    return found


def test_every_error_is_drawn_in_the_tree():
    assert set(defined()) - set(drawn()) == set()


def test_every_drawn_error_exists():
    assert {name for name in drawn() if not (name in defined() or hasattr(builtins, name))} == set()


def test_the_drawing_has_every_error_under_its_own_parents():
    wrong = []
    for name, parents in drawn().items():
        if name in defined():
            real = {base.__name__ for base in parents_of(class_of(name))}
            wrong += [] if real == parents else [f"{name}: drawn under {sorted(parents)}, derives from {sorted(real)}"]
    assert wrong == []


def test_every_error_can_be_caught_by_a_name_of_the_package():
    """But for what ends a body without being an error, which nobody is to catch."""
    errors_met = {name for name, cls in defined().items() if issubclass(cls, Exception)}
    assert errors_met - set(holdfast.__all__) == set()


def test_every_error_says_what_it_means():
    assert [name for name, error in defined().items() if not error.__doc__] == []
