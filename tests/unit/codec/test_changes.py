"""Types change while values of them are stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from holdfast.codec import Codec
from holdfast.errors import NotDecodable
from tests.unit.codec.samples import Cat, Colour, Dog, Item, Options

codec = Codec()


@dataclass
class Data:
    a: int
    b: list[int] = field(default_factory=list)


class Model(pydantic.BaseModel):
    a: int
    b: list[int] = []


class Forbidding(pydantic.BaseModel, extra="forbid"):
    a: int
    b: list[int] = []


@attrs.define
class Defined:
    a: int
    b: list[int] = attrs.Factory(list)


class Struct(msgspec.Struct):
    a: int
    b: list[int] = []


class Row(NamedTuple):
    a: int
    b: tuple[int, ...] = ()


KINDS = [Data, Model, Forbidding, Defined, Struct, Row]


@pytest.mark.parametrize("cls", KINDS)
def test_an_unknown_field_is_ignored(cls):
    assert codec.value(cls).decode(b'{"a":1,"gone":2,"b":[]}') == cls(a=1)


@pytest.mark.parametrize("cls", KINDS)
def test_a_missing_field_takes_its_default(cls):
    assert codec.value(cls).decode(b'{"a":1}') == cls(a=1)


@pytest.mark.parametrize("cls", KINDS)
def test_a_missing_field_without_a_default_is_named(cls):
    with pytest.raises(NotDecodable, match=r"\ba\b"):
        codec.value(cls).decode(b'{"b":[]}')


@pytest.mark.parametrize("cls", KINDS)
def test_a_value_that_can_t_be_read_is_named_by_its_path(cls):
    with pytest.raises(NotDecodable, match=r"value\[0\]\.b\[1\]: expected int, found a string"):
        codec.value(list[cls]).decode(b'[{"a":1,"b":[1,"x"]}]')


EMPTY: list[int] = []
ODD: list[Any] = [None]


@attrs.define
class Listed:
    a: int
    b: list[int] = EMPTY


class ListedRow(NamedTuple):
    a: int
    b: list[int] = EMPTY


class Wrapped(NamedTuple):
    """Its default is a record, which can change as a list can."""

    a: int
    b: Data = Data(1)


class Loose(NamedTuple):
    """Its default does not fit its annotation."""

    a: int
    b: list[int] = ODD


@attrs.define(init=False)
class Assembled:
    """Its `__init__` does not take its fields."""

    a: int
    b: list[int] = EMPTY

    def __init__(self) -> None:
        self.a = 1


@pytest.mark.parametrize("cls", [*KINDS[:-1], Listed, ListedRow, Wrapped, Loose, Assembled])
def test_a_default_is_never_shared_between_two_values(cls):
    made = codec.value(cls)
    first, second = made.decode(b'{"a":1}'), made.decode(b'{"a":1}')
    assert first.b is not second.b
    assert first.b == second.b


class Sentinel(NamedTuple):
    a: int
    b: Any = codec


def test_a_default_that_can_t_be_stored_is_the_very_one():
    assert codec.value(Sentinel).decode(b'{"a":1}').b is codec


@dataclass
class Parsed:
    text: str
    words: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.words = self.text.split()


def test_a_missing_field_that_the_class_computes_from_others_is_computed():
    assert codec.value(Parsed).decode(b'{"text":"a b"}').words == ["a", "b"]


@dataclass(init=False)
class Made:
    a: int
    b: list[int] = field(default_factory=list)

    def __init__(self, text: str) -> None:
        self.a, self.b = int(text), []


def test_a_missing_field_takes_its_default_where_init_takes_something_else():
    made = codec.value(Made)
    assert (made.decode(b'{"a":1}').b, made.decode(b'{"a":1,"b":[2]}').b) == ([], [2])


class Keys(TypedDict):
    a: int
    b: int


def test_a_missing_key_that_is_required_is_named():
    with pytest.raises(NotDecodable, match=r"Keys needs .*b"):
        codec.value(Keys).decode(b'{"a":1}')


class Turning(pydantic.BaseModel):
    a: int

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _turn(cls, data: Any, handler: Any) -> Any:
        return data if isinstance(data, cls) else Model(a=1)


def test_a_model_that_is_read_as_another_by_its_own_validator_can_t_be_read():
    with pytest.raises(NotDecodable, match=r"Turning was read back as .*Model"):
        codec.value(Turning).decode(b'{"a":1}')


class Migrating(pydantic.BaseModel):
    first: str
    last: str

    @pydantic.model_validator(mode="before")
    @classmethod
    def _split(cls, data: Any) -> Any:
        if "name" in data:
            data["first"], _, data["last"] = data.pop("name").partition(" ")
        return data


def test_a_model_may_bring_old_data_up_to_date_itself():
    assert codec.value(Migrating).decode(b'{"name":"Ada Lovelace"}') == Migrating(first="Ada", last="Lovelace")


def test_a_type_may_become_a_union():
    stored = codec.value(Item).encode(Item("a", 1))
    assert codec.value(Item | Colour | None).decode(stored) == Item("a", 1)


def test_a_union_may_become_one_of_its_types():
    stored = codec.value(Cat | Dog).encode(Cat("Tom"))
    assert codec.value(Cat).decode(stored) == Cat("Tom")


def test_a_union_may_be_reordered_and_grow():
    stored = codec.value(Cat | Dog).encode(Dog("Rex"))
    assert codec.value(Item | Dog | Cat | None).decode(stored) == Dog("Rex")


def test_a_value_is_never_read_as_another_member_of_its_union():
    stored = codec.value(Cat | Dog).encode(Dog("Rex"))
    with pytest.raises(NotDecodable, match="Dog"):
        codec.value(Cat).decode(stored)
    with pytest.raises(NotDecodable, match="Dog is no longer among"):
        codec.value(Cat | Item).decode(stored)


def test_an_untagged_object_that_fits_two_members_is_not_guessed():
    with pytest.raises(NotDecodable, match="Cat and Dog alike"):
        codec.value(Cat | Dog).decode(b'{"name":"x"}')


def test_an_untagged_object_that_fits_one_member_is_read():
    assert codec.value(Cat | Item).decode(b'{"name":"x"}') == Cat("x")


def test_an_int_may_become_a_float_and_a_set_a_list():
    assert codec.value(float).decode(codec.value(int).encode(3)) == 3
    assert codec.value(list[int]).decode(codec.value(set[int]).encode({1})) == [1]


def test_a_tuple_key_stays_a_tuple_to_a_reader_without_an_annotation():
    written = {((1, 2), "a"): [3]}
    stored = codec.value(dict[tuple[tuple[int, int], str], list[int]]).encode(written)
    assert codec.value(Any).decode(stored) == written


def test_a_member_that_is_gone_from_its_enum_is_named():
    with pytest.raises(NotDecodable, match="'green' is no member of Colour"):
        codec.value(Colour).decode(b'"green"')


def test_a_typed_dict_ignores_unknown_keys():
    assert codec.value(Options).decode(b'{"name":"a","gone":1}') == {"name": "a"}


def test_a_tagged_value_without_its_annotation_is_an_error_and_not_a_dict():
    with pytest.raises(NotDecodable, match="annotate it again"):
        codec.value(Any).decode(codec.value(Cat | Dog).encode(Cat("Tom")))


@pytest.mark.parametrize(
    ("annotation", "stored"),
    [
        (int, b'"1"'),
        (int, b"1.5"),
        (str, b"1"),
        (bool, b"1"),
        (bytes, b'"?"'),
        (Item, b"[]"),
        (Item, b"3"),
        (Model, b"[]"),
        (Model, b'"x"'),
        (list[int], b"{}"),
        (dict[str, int], b"[]"),
        (dict[int, int], b'{"x":1}'),
        (tuple[int, int], b"[1]"),
        (Colour, b"[]"),
        (set[int], b'["a"]'),
        (int | None, b'"x"'),
        (dict[str, int], b'{"~dict":1}'),
        (dict[str, int], b'{"~dict":[[[],1]]}'),
        (set[tuple[int]], b"3"),
    ],
    ids=str,
)
def test_stored_bytes_that_don_t_fit_are_not_decodable(annotation, stored):
    with pytest.raises(NotDecodable):
        codec.value(annotation).decode(stored)
