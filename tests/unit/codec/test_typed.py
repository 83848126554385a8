"""Values by annotation come back equal and of the same type."""

import collections
import enum
import ipaddress
import re
import typing
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID
from zoneinfo import ZoneInfo

import hypothesis.strategies as st
import pydantic
import pytest
from hypothesis import given

from holdfast.codec import Codec
from holdfast.errors import NotEncodable
from tests.unit.codec import samples
from tests.unit.codec.samples import Access, Box, Cat, Colour, Dog, IntBox, Item, Level, Loose, Node, Odd, Order, Point

codec = Codec()

DEEP = "2024-02-29T12:30:45.123456"

CASES = [
    (None, None),
    (bool, True),
    (int, 7),
    (int, True),
    (int, Level.HIGH),
    (int, 2**64),
    (int, -(2**200)),
    (float, 1.5),
    (float, 3),
    (float, -0.0),
    (float, float("inf")),
    (str, "a\x00ü\U0001f600"),
    (bytes, b"\x00\xff"),
    (bytearray, bytearray(b"ab")),
    (datetime, datetime.fromisoformat(DEEP)),
    (datetime, datetime.fromisoformat(DEEP).replace(tzinfo=UTC)),
    (datetime, datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))),
    (date, date(2024, 2, 29)),
    (date, datetime(2024, 2, 29, 1)),
    (time, time(1, 2, 3, 4, tzinfo=UTC)),
    (timedelta, timedelta(days=-1, microseconds=1)),
    (Decimal, Decimal("1.10")),
    (Decimal, Decimal("Infinity")),
    (Fraction, Fraction(1, 3)),
    (UUID, UUID(int=5)),
    (Path, Path("/a/b")),
    (PurePath, PurePath("a")),
    (PurePosixPath, PurePosixPath("a")),
    (PureWindowsPath, PureWindowsPath("c:\\a")),
    (ipaddress.IPv4Address, ipaddress.IPv4Address("1.2.3.4")),
    (Colour, Colour.BLUE),
    (Level, Level.LOW),
    (Odd, Odd.PAIR),
    (Access, Access.READ | Access.WRITE),
    (samples.Shaded, samples.Paint.GREEN),
    (samples.Shaded | str | None, samples.Paint.GREEN),
    (dict[samples.Shaded, int], {samples.Paint.GREEN: 1}),
    (enum.Enum, Level.HIGH),
    (enum.IntEnum, Level.HIGH),
    (enum.Flag, Access.READ | Access.WRITE),
    (Literal["a", 1, None], 1),
    (Literal[Colour.RED], Colour.RED),
    (samples.Cents, 5),
    (Annotated[int, "cents"], 5),
    (list[int], [1, 2]),
    (list[list[datetime]], [[datetime(2024, 1, 1)], []]),
    (set[int], {3, 1, 2}),
    (frozenset[str], frozenset({"a", "b"})),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (tuple[()], ()),
    (typing.Tuple, (1, {2})),  # noqa: UP006
    (typing.Tuple[()], ()),  # noqa: UP006
    (collections.deque[int], collections.deque([1, 2])),
    (dict[str, int], {"b": 1, "a": 2}),
    (dict[str, int], {"~tuple": 1}),
    (dict[int, str], {1: "a", -2: "b"}),
    (dict[int, str], {True: "a", 2: "b"}),
    (dict[UUID, int], {UUID(int=1): 1}),
    (dict[Level, int], {Level.LOW: 1}),
    (dict[tuple[int, int], str], {(1, 2): "a"}),
    (dict[int | str, int], {1: 1, "1": 2}),
    (dict[float, int], {1.5: 1}),
    (collections.OrderedDict[str, int], collections.OrderedDict(b=1, a=2)),
    (collections.Counter[str], collections.Counter("aab")),
    (Sequence[int], [1]),
    (Sequence[int], (1,)),
    (Mapping[str, int], {"a": 1}),
    (AbstractSet[int], frozenset({1})),
    (Optional[int], None),  # noqa: UP045
    (int | str | None, "5"),
    (int | float, 1),
    (int | float, 1.0),
    (datetime | str, "2024-01-01"),
    (datetime | str, datetime(2024, 1, 1)),
    (Union[list[int], list[str]], ["a"]),  # noqa: UP007
    (list[int] | dict[str, int] | None, {"~:x": 1}),
    (Cat | Dog, Dog("Rex")),
    (Cat | Dog | None, None),
    (list[Cat | Dog], [Cat("a"), Dog("a")]),
    (Colour | str, "red"),
    (Colour | str, Colour.RED),
    (set[int] | list[int] | tuple[int, ...], (1,)),
    (int | Cat, 2**70),
    (Item, Item("a", 1, {"x"})),
    (Point, Point(1, 2)),
    (samples.Total, samples.Total(3)),
    (Node, Node(1, Node(2), [Node(3, children=[Node(4)])])),
    (Box[int], Box(1, [2])),
    (Box[list[Box[str]]], Box([Box("a")])),
    (IntBox, IntBox(1, [2], "x")),
    (Loose, Loose((1, {2}), [b"x", (1,)], {1: date(2024, 1, 1)})),
    (samples.Place, samples.Place("a", (1.0, 2.0))),
    (samples.Options, {"name": "a", "since": datetime(2024, 1, 1)}),
    (samples.Options, {"name": "a"}),
    (samples.Parcel, samples.Parcel(3, "a")),
    (samples.Stamp, samples.Stamp(Decimal("1.0"))),
    (samples.Packet, samples.Packet(1, datetime(2024, 1, 1))),
    (samples.Change, samples.Change(age=None)),
    (samples.Cold, samples.Cold(float("-inf"))),
    (Order, Order(id=1, items=[Item("a", 1)], price=Decimal("1.10"), meta=(1, {2: b"x"}))),
    (samples.Aliased, samples.Aliased(firstName="Ada")),
    (samples.Shouting, samples.Shouting(text="hi")),
    (samples.Link, samples.Link(url="https://example.com/a", other=samples.Shouting(text="x"))),
    (samples.Holder, samples.Holder([Order(id=1)], {"a": None, "b": Order(id=2)})),
    (pydantic.RootModel[list[int]], pydantic.RootModel[list[int]]([1, 2])),
    (Any, [1, (2,)]),
    (Optional[Any], None),  # noqa: UP045
    (Optional[Any], (1,)),  # noqa: UP045
    (samples.Lazy, samples.Lazy(2)),
    (samples.Initial, samples.Initial(2, secret=3)),
    (list, [1, (2,)]),
    (dict, {1: (2,)}),
    (tuple, (1, {2})),
    (object, {"a": b"x"}),
]


Unpacked = typing.Unpack[tuple[str, ...]]  # which says the same in another way


def named(one: object) -> str:
    """The same in every process: a set's own text depends on the hashes of its strings."""
    return str(sorted(one, key=str)) if isinstance(one, set | frozenset) else str(one)


@pytest.mark.parametrize(("annotation", "value"), CASES, ids=named)
def test_a_value_comes_back_equal_and_of_the_same_type(annotation, value):
    made = codec.value(annotation)
    back = made.decode(made.encode(value))
    assert back == value
    assert type(back) is type(value)
    assert repr(back) == repr(value)


def test_a_time_zone_comes_back_by_its_key():
    """Zones are compared by identity, and Python's own cache of them may have let this one go."""
    made = codec.value(ZoneInfo)
    back = made.decode(made.encode(ZoneInfo("Europe/Berlin")))
    assert (type(back), back.key) == (ZoneInfo, "Europe/Berlin")


def pairs(annotation, values):
    return st.tuples(st.just(annotation), values)


ints = st.integers(-(2**80), 2**80)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
zones = st.none() | st.just(UTC) | st.timezones()
SCALARS = st.sampled_from(
    [
        (int, ints),
        (bool, st.booleans()),
        (str, texts),
        (float, st.floats(allow_nan=False)),
        (bytes, st.binary(max_size=8)),
        (Decimal, st.decimals(allow_nan=False)),
        (UUID, st.uuids()),
        (datetime, st.datetimes(timezones=zones)),
        (date, st.dates()),
        (time, st.times(timezones=st.none() | st.just(UTC))),
        (timedelta, st.timedeltas()),
        (Colour, st.sampled_from(Colour)),
        (Level, st.sampled_from(Level)),
        (Access, st.sampled_from([Access.READ, Access.READ | Access.WRITE])),
        (None, st.none()),
        (Point, st.builds(Point, ints, ints)),
        (Cat, st.builds(Cat, texts, ints)),
        (Dog, st.builds(Dog, texts, ints)),
        (Any, st.tuples(ints, texts)),
    ]
)


def collected(inner):
    """Annotations over annotations, each with a strategy for its values."""
    hashables = inner.filter(lambda pair: pair[0] not in (Any, Cat, Dog) and hash_safe(pair[0]))
    return st.one_of(
        inner.map(lambda pair: (list[pair[0]], st.lists(pair[1], max_size=3))),
        inner.map(lambda pair: (tuple[pair[0], ...], st.lists(pair[1], max_size=3).map(tuple))),
        inner.map(lambda pair: (Optional[pair[0]], st.none() | pair[1])),  # noqa: UP045
        inner.map(lambda pair: (Box[pair[0]], st.builds(Box, pair[1], st.lists(pair[1], max_size=2)))),
        hashables.map(lambda pair: (set[pair[0]], st.sets(pair[1], max_size=3))),
        st.tuples(inner, inner).map(lambda two: (tuple[two[0][0], two[1][0]], st.tuples(two[0][1], two[1][1]))),
        st.tuples(inner, inner).map(lambda two: (Union[two[0][0], two[1][0]], two[0][1] | two[1][1])),  # noqa: UP007
        st.tuples(hashables, inner).map(
            lambda two: (dict[two[0][0], two[1][0]], st.dictionaries(two[0][1], two[1][1], max_size=3))
        ),
    )


def hash_safe(annotation):
    return not any(word in str(annotation) for word in ("list", "dict", "set", "Box", "Any", "Cat", "Dog"))


annotated = st.recursive(SCALARS, collected, max_leaves=4).flatmap(lambda pair: pairs(pair[0], pair[1]))


@given(annotated)
def test_any_value_of_any_annotation_comes_back_or_is_refused(pair):
    annotation, value = pair
    made = codec.value(annotation)
    back = made.decode(made.encode(value))
    assert back == value
    assert type(back) is type(value)


@given(annotated)
def test_a_decoded_value_is_encoded_to_the_same_bytes_again(pair):
    annotation, value = pair
    made = codec.value(annotation)
    stored = made.encode(value)
    assert made.encode(made.decode(stored)) == stored


@pytest.mark.parametrize("annotation", [tuple[int, *tuple[str, ...]], tuple[int, Unpacked]])
def test_a_tuple_with_an_unpacked_part_is_refused_with_what_to_write_instead(annotation):
    with pytest.raises(NotEncodable, match=r"annotate tuple\[X, \.\.\.\]"):
        codec.value(annotation).encode((1, "a", "b"))


@pytest.mark.parametrize(("annotation", "value"), [(set[int], {10**5000}), (dict[int, str], {10**5000: "a"})])
def test_a_number_of_too_many_digits_is_refused_also_as_an_element_and_as_a_key(annotation, value):
    for made in (codec.value(annotation), codec.value(Any)):
        with pytest.raises(NotEncodable, match="too many digits"):
            made.encode(value)


def test_not_a_number_comes_back():
    made = codec.value(list[float])
    (back,) = made.decode(made.encode([float("nan")]))
    assert back != back


def test_a_zone_comes_back_as_itself_on_both_sides_of_a_change_of_clocks():
    made = codec.value(datetime)
    for fold in (0, 1):
        moment = datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
        back = made.decode(made.encode(moment))
        assert back.tzinfo is moment.tzinfo
        assert back.utcoffset() == moment.utcoffset()


@pytest.mark.parametrize("zone", [None, ZoneInfo("Europe/Berlin")])
@pytest.mark.parametrize("annotation", [Any, datetime, time])
def test_the_second_of_two_hours_that_the_clocks_show_alike_stays_the_second(annotation, zone):
    moment = datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=zone)
    value = moment.timetz() if annotation is time else moment
    made = codec.value(annotation)
    assert made.decode(made.encode(value)).fold == 1


def test_a_time_that_the_clocks_skip_comes_back():
    made = codec.value(datetime)
    moment = datetime(2024, 3, 31, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert made.decode(made.encode(moment)) == moment


def test_a_model_keeps_which_of_its_fields_were_set():
    made = codec.value(samples.Patch)
    back = made.decode(made.encode(samples.Patch(age=None)))
    assert back.model_dump(exclude_unset=True) == {"age": None}


def test_a_dict_keeps_its_order():
    made = codec.value(dict[str, int])
    assert list(made.decode(made.encode({"b": 1, "a": 2}))) == ["b", "a"]


def test_typed_values_are_written_as_one_would_write_them_by_hand():
    stored = codec.value(Order).encode(Order(id=1, items=[Item("a", 5, {"y", "x"})], meta="m", price=Decimal("1")))
    assert stored == b'{"id":1,"items":[{"sku":"a","cents":5,"tags":["x","y"]}],"price":"1","meta":"m"}'


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (int, "x", "value: expected int, got str"),
        (bool, 1, "expected bool, got int"),
        (list[int], [1, "x"], "value[1]: expected int, got str"),
        (tuple[int, ...], [1], "expected tuple[int, ...], got list"),
        (tuple[int, int], (1,), "expected tuple[int, int], got 1 items"),
        (dict[str, Item], {"a": Item("x", "y")}, "value['a'].cents: expected int, got str"),
        (Literal["a"], "b", "expected one of 'a', got 'b'"),
        (Colour, "red", "expected Colour, got str"),
        (Cat | Dog, Point(1, 2), "expected Cat | Dog, got tests.unit.codec.samples.Point"),
        (samples.Options, {"name": "a", "more": 1}, "has no key 'more'"),
        (samples.Options, {}, "needs the key 'name'"),
        (Item, samples.BigItem("a", 1), "subclass of Item"),
        (list[Cat | Dog], [Cat("a"), Cat(1)], "value[1].name: expected str, got int"),
        (list[int], collections.UserList([1]), "expected list[int], got collections.UserList"),
        (dict[str, int], collections.OrderedDict(a=1), "would come back as dict"),
        (str, type("Text", (str,), {})("x"), "would come back as str"),
        (complex, 1j, "tuple of floats"),
        (samples.Plain, samples.Plain(), "make it a dataclass"),
        (range, range(3), "values annotated range can't be stored: convert it to a list"),
        (Exception, ValueError("no"), "values annotated Exception can't be stored: keep its text"),
        (re.Pattern, re.compile("x"), "values annotated Pattern can't be stored: keep what describes it"),
        (Order, Order.model_construct(id="x"), "value.id: expected int, got str"),
        (float, Decimal(1), "expected float, got decimal.Decimal"),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, samples.Plain) else str(given),
)
def test_a_value_that_would_not_come_back_is_refused_with_its_path(annotation, value, told):
    with pytest.raises(NotEncodable) as caught:
        codec.value(annotation).encode(value)
    assert told in str(caught.value)


def test_a_value_that_its_class_would_refuse_to_read_is_refused_when_it_is_written():
    total = samples.Total(1)
    total.net = -1
    with pytest.raises(NotEncodable, match=r"not read back.*net must not be negative"):
        codec.value(samples.Total).encode(total)


def test_an_attribute_that_is_no_field_is_refused():
    item = Item("a", 1)
    item.weight = 3
    with pytest.raises(NotEncodable, match="Item has weight, which is none of its fields"):
        codec.value(Item).encode(item)


def test_the_value_of_a_cached_property_is_no_field():
    lazy = samples.Lazy(2)
    assert lazy.double == 4
    assert codec.value(samples.Lazy).encode(lazy) == b'{"x":2}'


def test_an_optional_bare_value_is_written_plainly():
    assert codec.value(Optional[Any]).encode([None]) == b"[null]"  # noqa: UP045


def test_a_result_names_the_function_that_returned_it():
    def charge() -> list[int]: ...

    with pytest.raises(NotEncodable, match=r"result\[0\]: expected int, got str \(returned by .*charge\(\)\)"):
        codec.result(charge).encode(["x"])


@pytest.mark.parametrize("annotation", [str, Any, list[str], dict[str, str], Item, set[str]], ids=str)
def test_text_with_a_lone_surrogate_is_refused(annotation):
    values = {
        list[str]: ["\ud800"],
        dict[str, str]: {"\ud800": ""},
        Item: Item("\ud800", 1),
        set[str]: {"\ud800"},
    }
    with pytest.raises(NotEncodable, match="surrogate"):
        codec.value(annotation).encode(values.get(annotation, "\ud800"))


def test_a_lone_surrogate_is_refused_with_its_path_past_texts_that_are_empty():
    with pytest.raises(NotEncodable, match=r"value\[''\]\[1\]: str with a lone surrogate"):
        codec.value(dict[str, list[str]]).encode({"": ["", "\ud800"]})


def test_a_huge_number_is_refused_with_its_path():
    with pytest.raises(NotEncodable, match=r"value\[1\]: int of too many digits"):
        codec.value(list[int]).encode([1, 10**5000])


def test_a_value_that_contains_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotEncodable, match="contains itself"):
        codec.value(Any).encode(loop)
