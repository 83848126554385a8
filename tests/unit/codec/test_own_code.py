"""Classes whose own code runs when an instance is made: what was stored comes back as it was, or is refused."""

from __future__ import annotations

import dataclasses
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import attrs
import msgspec
import pydantic
import pydantic_core
import pytest

from holdfast.codec import Codec
from holdfast.codec.annotations import Builder
from holdfast.errors import NotEncodable
from tests.unit.codec import samples

codec = Codec()
T = TypeVar("T")


def back(value: Any) -> Any:
    made = codec.value(type(value))
    return made.decode(made.encode(value))


@dataclass
class Cents:
    """Its `__init__` is its own, because the decorator leaves one alone that is there."""

    amount: int

    def __init__(self, amount: int) -> None:
        self.amount = amount * 100
        self.text = f"{amount}.00"


@dataclass
class Person:
    name: str


class Doctor(Person):
    """Inherits the fields of a dataclass, and is none itself."""

    def __init__(self, name: str) -> None:
        super().__init__("Dr. " + name)


class Politely:
    def __init__(self, name: str) -> None:
        self.name = "Dear " + name


class Guest(Politely, Person):
    """Inherits an `__init__` that stands before the generated one."""


@dataclass(init=False)
class Aged(Person):
    """Has one field more than the class whose `__init__` it inherits."""

    age: int = 0


@dataclass
class Held(Generic[T]):
    item: int

    def __init__(self, item: int) -> None:
        self.item = item + 1


@dataclass
class Doubling:
    number: int

    def __setattr__(self, name: str, value: int) -> None:
        object.__setattr__(self, name, value * 2)


@dataclass
class Bounded:
    number: int

    def __new__(cls, number: int) -> Bounded:
        if number > 5:
            raise ValueError("too large")
        return object.__new__(cls)


class Counting(type):
    def __call__(cls, number: int) -> Any:
        return super().__call__(number + 1)


@dataclass
class Counted(metaclass=Counting):
    number: int


@dataclass
class Word(str):
    language: str = "en"


@dataclass
class Metres(int):
    unit: str = "m"


@dataclass
class Titled(str):
    """Its own code makes its text of its fields."""

    title: str

    def __new__(cls, title: str) -> Titled:
        return str.__new__(cls, title)


@dataclass
class Table(dict[str, int]):
    """Can be given its items, which are no field."""

    name: str

    def __init__(self, name: str, **items: int) -> None:
        super().__init__(items)
        self.name = name


@dataclass(frozen=True, slots=True)
class Frozen:
    number: int
    names: list[str] = field(default_factory=list)


class Plainly(samples.Item):
    """A subclass with nothing of its own."""


OWN = [Cents(5), Doctor("No"), Guest("Ada"), Held(1), Doubling(2), Counted(number=1), Titled("x")]


@pytest.mark.parametrize("value", OWN, ids=lambda value: type(value).__name__)
def test_what_a_class_makes_of_its_fields_is_not_made_again_of_what_was_stored(value: Any):
    copy = back(back(value))
    assert type(copy) is type(value)
    assert [getattr(copy, one.name) for one in dataclasses.fields(copy)] == [
        getattr(value, one.name) for one in dataclasses.fields(value)
    ]


def test_an_attribute_that_init_makes_beside_the_fields_is_made_again():
    assert codec.value(Cents).encode(Cents(5)) == b'{"amount":500}'
    assert back(Cents(5)).text == "500.00"


def test_a_field_that_the_inherited_init_does_not_take_comes_back():
    given = Aged("Ada")
    given.age = 36
    assert back(given) == given


@pytest.mark.parametrize("cls", [Cents, Doctor, Guest, Held, Doubling, Bounded, Counted, Word, Aged])
def test_a_class_with_code_of_its_own_is_read_back_before_it_is_stored(cls: type):
    builder = Builder(is_encrypted=False)
    builder.build(cls)
    assert builder.is_unproven


@pytest.mark.parametrize(
    "cls",
    [samples.Item, samples.BigItem, samples.Point, samples.Node, samples.IntBox, samples.Cold, Frozen, Plainly, Person],
)
def test_a_class_without_code_of_its_own_is_never_read_back(cls: type):
    builder = Builder(is_encrypted=False)
    builder.build(cls)
    assert not builder.is_unproven


def test_a_value_that_its_class_would_not_make_again_is_refused_when_it_is_written():
    given = Bounded(5)
    given.number = 6
    with pytest.raises(NotEncodable, match="not read back: Bounded refused its stored fields: ValueError: too large"):
        codec.value(Bounded).encode(given)


@pytest.mark.parametrize("value", [Word.__new__(Word, "hello"), Metres.__new__(Metres, 3)], ids=["text", "number"])
def test_text_and_numbers_with_fields_are_refused_because_only_fields_are_stored(value: Any):
    value.__init__()
    kind = type(value).__mro__[1].__name__
    with pytest.raises(NotEncodable, match=f"is a {kind}, whose content would be lost: keep it in a field"):
        codec.value(type(value)).encode(value)


def test_text_that_is_empty_and_can_t_be_made_of_fields_is_refused_when_it_is_written():
    with pytest.raises(NotEncodable, match="not read back: Word refused its stored fields"):
        codec.value(Word).encode(Word())


def test_a_collection_with_an_init_of_its_own_is_refused_if_it_holds_what_is_no_field():
    assert back(Table("a")) == Table("a")
    with pytest.raises(NotEncodable, match="Table is a dict, whose items would be lost"):
        codec.value(Table).encode(Table("a", x=1))


@dataclass
class Cart:
    items: list[str]

    def __post_init__(self) -> None:
        self.items.append("gift")


@attrs.define
class DefinedCart:
    items: list[str]

    def __attrs_post_init__(self) -> None:
        self.items.append("gift")


class StructCart(msgspec.Struct):
    items: list[str]

    def __post_init__(self) -> None:
        self.items.append("gift")


class ModelCart(pydantic.BaseModel):
    items: Any

    def model_post_init(self, _: Any) -> None:
        self.items.append("gift")


@dataclass
class Nested:
    """Changes all that it can hold, however deep."""

    table: dict[str, tuple[list[int], ...]]
    names: set[str]
    data: bytearray
    last: deque[int]

    def __post_init__(self) -> None:
        self.table["a"][0].append(1)
        self.names.add("x" * len(self.names))
        self.data += b"x"
        self.last.append(1)


@dataclass
class Indexed:
    """Holds its items in two ways."""

    items: list[samples.Item]

    def __post_init__(self) -> None:
        self.by_sku = {item.sku: item for item in self.items}
        self.same = self.items


@dataclass
class Rebated:
    """Changes what is none of its own fields, but a field of an item's."""

    items: list[samples.Item]

    def __post_init__(self) -> None:
        for item in self.items:
            item.cents -= 1


class Shifting:
    """A descriptor, which stands between a field and its value."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, of: Any, owner: type) -> int:
        return 0 if of is None else getattr(of, self.name)

    def __set__(self, of: Any, value: int) -> None:
        setattr(of, self.name, value + 1)


@dataclass
class Shifted:
    number: int = Shifting()  # type: ignore[assignment]


CARTS = [Cart(["a"]), DefinedCart(["a"]), StructCart(["a"]), ModelCart(items=["a"])]


@pytest.mark.parametrize("value", CARTS, ids=lambda value: type(value).__name__)
def test_what_a_class_adds_to_its_list_is_not_added_again(value: Any):
    assert back(back(value)).items == ["a", "gift"]


def test_what_a_class_changes_in_place_is_as_it_was_stored_however_deep_it_is():
    given = Nested({"a": ([0], [5])}, {"n"}, bytearray(b"d"), deque([0]))
    assert back(back(given)) == given


def test_what_a_class_makes_of_its_items_holds_the_very_items():
    copy = back(Indexed([samples.Item("a", 1)]))
    assert copy.by_sku["a"] is copy.items[0]
    assert copy.same is copy.items


@pytest.mark.parametrize(
    ("value", "path"),
    [(Rebated([samples.Item("a", 5)]), r"\['items'\]\[0\]\['cents'\]"), (Shifted(1), r"\['number'\]")],
)
def test_a_value_that_its_class_changes_each_time_it_is_read_is_refused(value: Any, path: str):
    with pytest.raises(NotEncodable, match=f"^value{path}: code of its class changes it each time it is read"):
        codec.value(type(value)).encode(value)


def test_an_argument_that_its_class_changes_each_time_it_is_read_is_refused_where_a_run_is_started():
    def body(given: Shifted, more: Cart) -> None: ...

    with pytest.raises(NotEncodable, match=r"the arguments of .*body\(\)\[0\]\['number'\]: code of its class changes"):
        codec.arguments(body).check((Shifted(1), Cart([])), {})


class Forgetful(pydantic.BaseModel):
    """Its validator leaves out a field that was set."""

    name: str = ""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _forget(cls, data: Any) -> Any:
        return {key: item for key, item in data.items() if key != "name"} if len(data.get("name", "")) < 3 else data


def test_a_model_keeps_which_of_its_fields_were_set_also_if_a_validator_leaves_one_out():
    given = Forgetful()
    given.name = "Al"
    assert back(given).model_fields_set == {"name"}


class Restless:
    """Known to pydantic only, and written in another order each time."""

    turns = 0

    def __init__(self, names: list[str]) -> None:
        self.names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Restless) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def told(self) -> list[str]:
        Restless.turns += 1
        return sorted(self.names, reverse=Restless.turns % 2 == 0)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        schema = pydantic_core.core_schema
        write = schema.plain_serializer_function_ser_schema(cls.told)
        return schema.no_info_plain_validator_function(
            lambda given: given if isinstance(given, cls) else cls(given), serialization=write
        )


def test_a_value_that_is_written_in_another_order_each_time_is_the_same():
    def body(given: Restless) -> None: ...

    given = Restless(["a", "b"])
    assert back(given) == given
    assert codec.arguments(body).check((given,), {})
