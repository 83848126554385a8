"""What an instance holds beside its fields: made again by its class, or refused, and never lost in silence."""

from dataclasses import dataclass

import msgspec
import pytest

from holdfast.codec import Codec
from holdfast.errors import NotEncodable

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


class Open(msgspec.Struct, dict=True):
    x: int


def test_a_collection_with_fields_is_refused_if_it_holds_anything():
    labels, row = Labels("a"), Row("b")
    assert codec.value(Labels).encode(labels) == b'{"owner":"a"}'
    labels["x"] = 1
    row.append(1)
    with pytest.raises(NotEncodable, match="Labels is a dict, whose items would be lost"):
        codec.value(Labels).encode(labels)
    with pytest.raises(NotEncodable, match="Row is a list, whose items would be lost"):
        codec.value(Row).encode(row)


def test_what_a_class_makes_of_its_fields_is_made_again():
    made = codec.value(Doubled)
    back = made.decode(made.encode(Doubled(2)))
    assert (back.first, list(back)) == (2, [2, 2])


def test_an_attribute_of_a_struct_that_is_no_field_is_refused():
    given = Open(1)
    assert codec.value(Open).decode(codec.value(Open).encode(given)) == given
    given.y = 2
    with pytest.raises(NotEncodable, match="Open has y, which is none of its fields"):
        codec.value(Open).encode(given)
