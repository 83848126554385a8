"""What an instance holds beside its fields: made again by its class, or refused, and never lost in silence."""

from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from holdfast.codec import Codec, misfit
from holdfast.errors import NotDecodable, NotEncodable

codec = Codec()


@dataclass
class Labels(dict[str, int]):
    owner: str


@dataclass
class Row(list[int]):
    name: str


@dataclass
class Doubled(list[int]):
    """Has content that its own code makes of its fields."""

    first: int

    def __post_init__(self) -> None:
        self[:] = [self.first, self.first]


@dataclass
class Counted:
    x: int
    seen: int = field(default=0, init=False)


class Open(msgspec.Struct, dict=True):
    x: int


class Renamed(msgspec.Struct, rename={"rate": "~rate"}):
    rate: int
    note: str | msgspec.UnsetType = msgspec.UNSET


class Loose(pydantic.BaseModel, extra="allow"):
    pass


Rates = TypedDict("Rates", {"~rate": int, "~set": list[int], "note": str}, total=False)
Rate = TypedDict("Rate", {"~rate": int})


def test_a_collection_with_fields_is_refused_if_it_holds_anything():
    labels, row = Labels("a"), Row("b")
    assert codec.value(Labels).encode(labels) == b'{"owner":"a"}'
    labels["x"] = 1
    row.append(1)
    with pytest.raises(NotEncodable, match="Labels is a dict, whose items would be lost"):
        codec.value(Labels).encode(labels)
    with pytest.raises(NotEncodable, match="Row is a list, whose items would be lost"):
        codec.value(Row).encode(row)


def test_attributes_that_a_class_computes_from_its_fields_are_computed_again():
    made = codec.value(Doubled)
    back = made.decode(made.encode(Doubled(2)))
    assert (back.first, list(back)) == (2, [2, 2])


def test_an_attribute_of_a_struct_that_is_no_field_is_refused():
    given = Open(1)
    assert codec.value(Open).decode(codec.value(Open).encode(given)) == given
    given.y = 2
    with pytest.raises(NotEncodable, match="Open has y, which is none of its fields"):
        codec.value(Open).encode(given)


def test_a_field_that_init_does_not_take_is_put_back():
    given = Counted(1)
    given.seen = 5
    assert codec.value(Counted).decode(codec.value(Counted).encode(given)) == given


def test_an_attribute_with_an_underscore_is_the_class_s_own_affair():
    given = Counted(1)
    given._cache = {}
    assert codec.value(Counted).decode(codec.value(Counted).encode(given)) == given
    given.cache = {}
    with pytest.raises(NotEncodable, match="Counted has cache, which is none of its fields"):
        codec.value(Counted).encode(given)


@pytest.mark.parametrize(
    ("annotation", "given"),
    [
        (Rates, {"~rate": 1}),
        (Rates, {"~set": [1]}),
        (Rates, {"~rate": 1, "note": "x"}),
        (Rates | None, {"~rate": 1}),
        (Rates | Open, {"~rate": 1}),
        (list[Rate], [{"~rate": 1}]),
        (Renamed, Renamed(1)),
        (Loose, Loose.model_validate({"~rate": 1})),
    ],
)
def test_an_object_that_looks_like_an_envelope_is_read_back(annotation: Any, given: Any):
    value = codec.value(annotation)
    assert value.decode(value.encode(given)) == given


@pytest.mark.parametrize(("annotation", "given"), [(Rates, {"~rate": 1}), (Renamed, Renamed(1))])
def test_an_object_like_an_envelope_that_was_written_by_hand_can_be_read(annotation: Any, given: Any):
    assert codec.value(annotation).decode(b'{"~rate":1}') == given
    with pytest.raises(NotDecodable, match="found date"):
        codec.value(annotation).decode(b'{"~date":"2026-01-01"}')


def test_an_object_like_an_envelope_that_was_sent_without_an_annotation_can_be_read():
    sent = codec.value(Any).encode({"~rate": 1})
    assert codec.value(Rate).decode(sent) == {"~rate": 1}
    assert misfit(msgspec.json.decode(codec.schema(Rate)), msgspec.json.decode(sent)) is None
    with pytest.raises(NotDecodable, match="found dict"):
        codec.value(Rates).decode(codec.value(Any).encode({1: 2}))
