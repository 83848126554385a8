"""Annotations are resolved when they are first needed, and what can't be resolved says so."""

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, Self, TypeVar, Union

import pydantic
import pytest
import typing_extensions

from holdfast.codec import Codec
from holdfast.errors import BadArguments, NotDecodable, NotEncodable
from tests.unit.codec.samples import Item

if TYPE_CHECKING:
    from tests.unit.codec.samples import Cat

T = TypeVar("T")
Number = TypeVar("Number", int, str)
Json = Union[int, str, None, list["Json"], dict[str, "Json"]]  # noqa: UP007

codec = Codec()

OWN_PARAMETERS = """
from __future__ import annotations

@dataclass
class Crate[T]:
    what: T
    inner: Crate[T] | None = None

@dataclass
class Laden[U](Crate[U]):
    under: Crate[U] | None = None

def load[N: int](many: N, unknown: Nobody = None) -> N: ...
"""


def early() -> Late: ...


@dataclass
class Late:
    x: int


@dataclass
class Link(Generic[T]):
    value: T
    next: Self | None = None
    box: list[Link[str]] = field(default_factory=list)


@dataclass
class Weighted(Link[T]):
    weight: float = 1.0


class Row(NamedTuple):
    cents: int
    below: Self | None = None


class Model(pydantic.BaseModel):
    parts: list[Self] = []


@dataclass
class Pair(Generic[T]):
    both: tuple[T, T]


@dataclass
class ListPair(Pair[list[T]], Generic[T]):
    one: T


def round_trip(made, value):
    back = made.decode(made.encode(value))
    return back == value and type(back) is type(value)


def test_a_function_may_return_a_class_that_is_defined_after_it():
    assert round_trip(codec.result(early), Late(1))


def test_an_alias_may_refer_to_itself():
    def fn() -> Json: ...

    assert round_trip(codec.result(fn), {"a": [1, [None, {"b": "c"}]]})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Link[int], Link(1, Link(2), [Link("a", Link("b"))])),
        (Weighted[int], Weighted(1, Weighted(2, None, [Link("a", Link("b"))], 0.5))),
        (Row, Row(1, Row(2))),
        (Model, Model(parts=[Model()])),
    ],
    ids=str,
)
def test_self_means_the_class_in_whose_fields_it_stands(annotation, value):
    assert round_trip(codec.value(annotation), value)


def test_self_in_the_fields_of_a_base_means_the_class_that_has_them():
    with pytest.raises(NotEncodable, match=r"value\.next: expected .*Weighted"):
        codec.value(Weighted[int]).encode(Weighted(1, Link(2)))


def test_one_type_parameter_may_mean_two_things_in_a_hierarchy():
    assert round_trip(codec.value(ListPair[int]), ListPair(([1], [2]), 3))


def test_a_type_variable_stands_for_its_constraints():
    def fn() -> Number: ...

    assert round_trip(codec.result(fn), 1)
    with pytest.raises(NotEncodable):
        codec.result(fn).encode(1.5)


def test_a_name_that_only_the_type_checker_sees_is_explained():
    def fn() -> Cat: ...

    with pytest.raises(NotEncodable, match=r"'Cat' can't be resolved.*TYPE_CHECKING"):
        codec.result(fn).encode(1)
    with pytest.raises(NotDecodable, match="'Cat' can't be resolved"):
        codec.result(fn).decode(b"1")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is that of Python 3.12")
def test_a_type_parameter_of_a_class_or_function_is_known(monkeypatch):
    """`typing` resolves them from Python 3.12.4 on, and only where it can resolve all other names."""
    made: Any = types.ModuleType("made")
    monkeypatch.setitem(sys.modules, "made", made)
    made.dataclass = dataclass
    exec(OWN_PARAMETERS, vars(made))
    value = made.Laden(date(2024, 1, 1), made.Crate(date(2024, 1, 2)), made.Crate(date(2024, 1, 3)))
    assert round_trip(codec.value(made.Laden[date]), value)
    taken = codec.arguments(made.load)
    assert taken.unpack(taken.pack((7,), {})) == ((7,), {})
    with pytest.raises(BadArguments, match="expected int, got str"):
        taken.pack(("7",), {})


def test_one_bad_annotation_does_not_spoil_the_others():
    def fn(item: Item, cat: Cat) -> Item: ...

    assert round_trip(codec.result(fn), Item("a", 1))


def test_a_name_that_is_defined_between_two_uses_is_resolved():
    def fn() -> Soon: ...  # noqa: F821

    made = codec.result(fn)
    with pytest.raises(NotEncodable):
        made.encode(Late(1))
    globals()["Soon"] = Late
    try:
        assert round_trip(made, Late(1))
    finally:
        del globals()["Soon"]


def test_returning_none_is_fine():
    def fn() -> None: ...

    assert codec.result(fn).encode(None) == b"null"


def test_a_wrapped_function_is_read_through_its_wrapper():
    def inner(item: Item) -> Item: ...

    @functools.wraps(inner)
    def outer(*args, **kwargs): ...

    assert round_trip(codec.result(outer), Item("a", 1))


def test_a_partial_and_a_callable_object_have_results_too():
    def fn(a: int, item: Item) -> Item: ...

    class Caller:
        def __call__(self, item: Item) -> Item: ...

    assert round_trip(codec.result(functools.partial(fn, 1)), Item("a", 1))
    assert round_trip(codec.result(Caller()), Item("a", 1))


def test_codecs_are_made_once():
    def fn(a: int) -> int: ...

    assert codec.value(list[int]) is codec.value(list[int])
    assert codec.result(fn) is codec.result(fn)
    assert codec.arguments(fn) is codec.arguments(fn)
    assert codec.arguments(fn, skip=1) is not codec.arguments(fn)


def test_an_annotation_need_not_be_hashable():
    assert round_trip(codec.value(Annotated[int, {}]), 1)


def test_the_cache_does_not_keep_a_function_alive():
    def fn(a: int) -> int: ...

    codec.result(fn).encode(1)
    codec.arguments(fn).pack((1,), {})
    gone = weakref.ref(fn)
    del fn
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("is_used", [False, True], ids=["never used", "of a name that is only for the type checker"])
def test_a_result_whose_annotation_was_not_resolved_does_not_keep_its_function_alive(is_used):
    def fn() -> Cat: ...

    if is_used:
        with pytest.raises(NotEncodable):
            codec.result(fn).encode(1)
    else:
        codec.result(fn)
    gone = weakref.ref(fn)
    del fn
    gc.collect()
    assert gone() is None


def test_the_result_of_a_method_goes_by_its_annotation():
    class Shop:
        def opened(self) -> date: ...

    codec.result(Shop().opened)
    assert round_trip(codec.result(Shop().opened), date(2024, 2, 29))
    assert codec.result(Shop().opened).encode(date(2024, 2, 29)) == b'"2024-02-29"'


class Parcel(typing_extensions.TypedDict):
    sent: date
    note: typing_extensions.NotRequired[str]


class Labelled(typing_extensions.TypedDict, Generic[T]):
    label: typing_extensions.ReadOnly[T]


def test_a_typed_dict_of_typing_extensions_is_read_as_a_typed_dict():
    """Before Python 3.12 pydantic wants that TypedDict in its models, which is not Python's own."""

    def send(parcel: Parcel, **more: typing_extensions.Unpack[Parcel]) -> Labelled[date]: ...

    made, value = codec.value(Parcel), {"sent": date(2024, 1, 1)}
    assert made.decode(made.encode(value)) == value
    with pytest.raises(NotEncodable, match="note: expected str, got int"):
        made.encode({**value, "note": 1})
    taken = codec.arguments(send)
    assert taken.unpack(taken.pack((value,), value)) == ((value,), value)
    given = codec.result(send)
    assert given.decode(given.encode({"label": date(2024, 1, 1)})) == {"label": date(2024, 1, 1)}
