"""What the body sees live is what it sees on replay: values, types, copies and exceptions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from threading import Lock
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from holdfast import step, workflow
from tests.engine.drive import note


class Colour(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Order:
    lines: tuple[str, ...]
    by_number: dict[int, set[str]]


class Refused(Exception):
    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code
        self.why = why


TYPED = [
    (tuple[int, ...], (1, 2)),
    (tuple[str, int], ("a", 1)),
    (set[str], {"a", "b"}),
    (frozenset[int], frozenset({1, 2})),
    (dict[int, str], {1: "a"}),
    (dict[str, tuple[int, ...]], {"a": (1, 2)}),
    (list[tuple[int, int]], [(1, 2), (3, 4)]),
    (bytes, b"\x00\xff"),
    (Decimal, Decimal("0.10")),
    (UUID, UUID(int=5)),
    (datetime, datetime(2026, 1, 2, tzinfo=UTC)),
    (date, date(2026, 1, 2)),
    (timedelta, timedelta(days=1, microseconds=1)),
    (Colour, Colour.RED),
    (Point, Point(1, 2)),
    (PurePosixPath, PurePosixPath("/a/b")),
    (Order, Order(("a", "b"), {1: {"x"}})),
    (Order | None, None),
]
BARE = [(1, (2, 3)), {1, 2}, {1: "a"}, b"\x00", Decimal("0.10"), UUID(int=5), datetime(2026, 1, 2, tzinfo=UTC), None,
        [None, (None,)], {"t": "tuple", "v": [1]}, 1.0, 10**30, True]  # fmt: skip


def deep(value: Any) -> Any:
    """A value with every type in it spelled out, so that a list is not taken for a tuple."""
    if isinstance(value, dict):
        return dict, [(deep(key), deep(item)) for key, item in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value), sorted(map(repr, value))
    if isinstance(value, (list, tuple)):
        return type(value), [deep(item) for item in value]
    if isinstance(value, Order):
        return Order, deep(value.lines), deep(value.by_number)
    return type(value), repr(value)


def sees(annotation: Any, value: Any):
    """A workflow that notes what a step's result looks like, and goes on to another step."""

    def give():
        return value

    give.__annotations__["return"] = annotation
    giving = step(give)

    @step
    def last() -> None: ...

    @workflow
    def body() -> None:
        note(deep(giving()))
        last()

    return body


@pytest.mark.parametrize(("annotation", "value"), TYPED, ids=lambda one: type(one).__name__)
def test_a_typed_result_is_the_same_live_and_on_replay(begin, annotation, value):
    drive = begin(sees(annotation, value)).finish().check()
    assert drive.notes == [deep(value)]


@pytest.mark.parametrize("value", BARE, ids=lambda one: type(one).__name__)
def test_a_bare_result_is_the_same_live_and_on_replay(begin, value):
    drive = begin(sees(Any, value)).finish().check()
    assert drive.notes == [deep(value)]


def test_an_exception_is_the_same_live_and_on_replay(begin):
    @step
    def refuse() -> None:
        raise Refused(42, "closed")

    @workflow
    def body() -> None:
        try:
            refuse()
        except Refused as error:
            note(type(error).__qualname__, error.args, error.code, error.why, str(error), error.__notes__)
        refuse()

    drive = begin(body).finish().check()
    (seen,) = drive.notes
    assert seen[:5] == ("Refused", ("42: closed",), 42, "closed", "42: closed")


def test_a_result_that_the_body_changed_is_unchanged_on_replay(begin):
    @step
    def give() -> list[int]:
        return [1]

    @workflow
    def body() -> None:
        found = give()
        note(list(found))
        found.append(2)
        note(list(found))
        give()

    assert begin(body).finish().check().notes == [[1], [1, 2]]


def test_arguments_that_the_body_changed_are_unchanged_on_replay(begin):
    @step
    def nothing() -> None: ...

    @workflow
    def body(order: list[int]) -> None:
        note(list(order))
        order.append(2)
        nothing()
        note(list(order))

    assert begin(body, [1]).finish().check().notes == [[1], [1, 2]]


@pytest.mark.parametrize(
    "given", [(), (1,), (1, [0])], ids=["no argument", "the one before it", "an argument in its place"]
)
def test_a_default_that_the_body_changed_is_unchanged_on_replay_and_in_the_next_run(begin, given):
    @step
    def nothing() -> None: ...

    @workflow
    def body(number: int = 1, seen: list[int] = [0], *rest: int, by_name: dict[int, int] = {}) -> None:  # noqa: B006  # what this is about
        note((list(seen), dict(by_name)))
        seen.append(number)
        by_name[number] = 2
        nothing()
        note((list(seen), dict(by_name)))

    expected = [([0], {}), ([0, 1], {1: 2})]
    assert [begin(body, *given).finish().check().notes for _ in range(2)] == [expected, expected]


def test_a_default_of_a_parameter_without_a_name_to_give_is_unchanged_on_replay(begin):
    @step
    def nothing() -> None: ...

    @workflow
    def body(number: int = 1, seen: list[int] = [], /) -> None:  # noqa: B006  # what this is about
        seen.append(number)
        nothing()
        note(list(seen))

    assert begin(body).finish().check().notes == [[1]]


def test_a_default_that_is_compared_by_identity_or_has_no_copy_stays_itself(begin):
    marker, locked = object(), {"lock": Lock()}

    @workflow
    def body(mark: object = marker, held: dict[str, Any] = locked) -> None:
        note((mark is marker, held is locked))

    assert begin(body).finish().check().notes == [(True, True)]
