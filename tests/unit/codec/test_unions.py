"""Unions within unions, and unions of what is written alike: each value comes back as the member it was."""

import collections
import gc
import weakref
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from typing import Annotated, Any, TypeVar

import pydantic
import pytest

from holdfast.codec import Codec
from holdfast.errors import NotDecodable
from tests.unit.codec.samples import Cat, Dog, Level, Order, Shouting

codec = Codec()
Pet = Annotated[Cat | Dog, "pet"]
Sent = Annotated[Order | Shouting, pydantic.Field(description="a model")]
Key = TypeVar("Key", int, str, date)

WITHIN = [
    (Sequence[int] | None, (1,)),
    (Sequence[int] | None, [1]),
    (Sequence[int] | dict[str, int], (1,)),
    (AbstractSet[int] | None, frozenset({1})),
    (Iterable[int] | None, {1}),
    (Pet | None, Dog("Rex")),
    (Pet | None, None),
    (Pet | str, Cat("Tom")),
    (dict[str, Pet | None], {"a": Dog("Rex"), "b": None}),
    (Annotated[Pet | None, "again"] | None, Cat("Tom")),
    (Sent | None, Shouting(text="HI")),
    (Annotated[datetime | str, "when"] | None, datetime(2024, 1, 1)),
    (Key | None, date(2024, 1, 1)),
]

ALIKE = [
    (dict[str, Any] | float, float("inf")),
    (float | dict[str, Any], float("-inf")),
    (Annotated[dict[str, Any] | None, "none"] | None | float, float("inf")),
    (dict[str, Any] | int, Level.HIGH),
    (dict[str, Any] | date, datetime(2024, 1, 1)),
    (collections.OrderedDict[str, Any] | float, float("inf")),
    (dict[str, Any] | float, {"~float": "inf"}),
    (dict[str, Any] | float, {"~note": "inf"}),
]


@pytest.mark.parametrize(("annotation", "value"), [*WITHIN, *ALIKE], ids=str)
def test_a_value_of_a_union_comes_back_as_the_member_it_was(annotation, value):
    made = codec.value(annotation)
    back = made.decode(made.encode(value))
    assert back == value
    assert type(back) is type(value)


def test_an_error_inside_a_nested_union_is_reported_with_its_path():
    with pytest.raises(NotDecodable, match=r"value\.lives: expected int"):
        codec.value(Pet | None).decode(b'{"~:Cat":{"name":"a","lives":"many"}}')


def test_a_value_whose_class_is_gone_from_a_nested_union_is_refused_by_name():
    stored = codec.value(Cat | Order).encode(Order(id=1))
    with pytest.raises(NotDecodable, match="Order is no longer among"):
        codec.value(Pet | None).decode(stored)


def test_a_dict_written_as_a_union_member_can_be_read_as_a_plain_dict():
    stored = codec.value(dict[str, Any] | Cat).encode({"a": 1})
    assert codec.value(dict[str, Any]).decode(stored) == {"a": 1}


@pytest.mark.parametrize("value", [float("nan"), (1,), datetime(2024, 1, 1), Level.HIGH])
def test_a_value_that_was_no_dict_is_never_read_as_a_dict(value):
    with pytest.raises(NotDecodable, match="expected dict"):
        codec.value(dict[str, Any]).decode(codec.value(Any).encode(value))


def test_a_value_that_a_later_member_takes_is_freed_without_the_garbage_collector():
    gc.disable()
    try:
        value = Dog("Rex")
        gone = weakref.ref(value)
        codec.value(Cat | Dog).encode(value)
        del value
        assert gone() is None
    finally:
        gc.enable()
