"""Runs that something is done to together: parents before their children."""

from types import SimpleNamespace

from holdfast.client.managing import _parents_first


def run(id: str, parent_id: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(id=id, parent_id=parent_id)


def levels(*runs: SimpleNamespace) -> list[list[str]]:
    return [[one.id for one in level] for level in _parents_first(runs)]


def test_levels_put_parents_before_children_and_runs_with_a_parent_outside_the_list_first():
    found = levels(run("grandchild", "child"), run("child", "parent"), run("parent"), run("other", "not meant"))
    assert found == [["parent", "other"], ["child"], ["grandchild"]]


def test_levels_end_with_runs_that_are_their_own_ancestors():
    assert levels(run("own", "own"), run("one", "two"), run("two", "one"), run("plain")) == [
        ["plain"],
        ["own", "one", "two"],
    ]
