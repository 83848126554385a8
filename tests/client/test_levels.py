"""Runs that something is done to together: parents before their children."""

from types import SimpleNamespace

from holdfast.client.managing import _parents_first


def run(id: str, parent_id: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(id=id, parent_id=parent_id)


def levels(*runs: SimpleNamespace) -> list[list[str]]:
    return [[one.id for one in level] for level in _parents_first(runs)]


def test_parents_come_before_their_children_and_those_whose_parent_is_not_meant_come_first():
    found = levels(run("grandchild", "child"), run("child", "parent"), run("parent"), run("other", "not meant"))
    assert found == [["parent", "other"], ["child"], ["grandchild"]]


def test_runs_that_are_said_to_be_their_own_parents_are_not_waited_for():
    assert levels(run("own", "own"), run("one", "two"), run("two", "one"), run("plain")) == [
        ["plain"],
        ["own", "one", "two"],
    ]
