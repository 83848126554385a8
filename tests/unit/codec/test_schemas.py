"""Schemas: a sender is told what the receiver could not read."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest

from holdfast.codec import Codec, misfit, parameter_schemas
from holdfast.errors import NotDecodable

codec = Codec()


@dataclass
class Order:
    cents: int
    day: date


class Place(NamedTuple):
    x: float
    y: float = 0.0


class Stay(NamedTuple):
    place: Place
    until: time


class Tagged(msgspec.Struct, tag=True):
    mine: int


class Other(msgspec.Struct, tag=True):
    other: int


class Short(msgspec.Struct, array_like=True):
    only: int


@dataclass
class Visit:
    at: datetime
    until: time | None = None
    before: list[Visit] = field(default_factory=list)


class Size(Enum):
    LARGE = "large"


class Forgiving(Enum):
    LARGE = "large"

    @classmethod
    def _missing_(cls, value: object) -> Forgiving | None:
        return cls.LARGE if str(value).lower() == "large" else None


class Colours(Flag):
    RED = 1
    BLUE = 2


class Rights(IntFlag):
    """An enum of flags that keeps unknown bits."""

    READ = 1


class Level(IntEnum):
    HIGH = 3


class Aliased(pydantic.BaseModel):
    first_name: str = pydantic.Field(alias="firstName")


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Nesting(pydantic.BaseModel):
    place: Place
    numbers: Numbers


class Keyed(pydantic.BaseModel):
    of: dict[int, bytes]


class Model(pydantic.BaseModel):
    cents: int
    day: date


def is_read(annotation: Any, stored: bytes) -> bool:
    try:
        codec.value(annotation).decode(stored)
    except NotDecodable:
        return False
    return True


@pytest.mark.parametrize(
    ("annotation", "given"),
    [
        (int, 1),
        (int, 1.0),
        (int | str, 1.0),
        (int, True),
        (int | None, False),
        (float, True),
        (str, True),
        (list[int], [True]),
        (float, 1),
        (list[int], [1, 2.0]),
        (datetime, "2026-01-31T12:00:00Z"),
        (datetime, "yesterday"),
        (time, "12:00"),
        (time, "noon"),
        (date, "2026-01-31"),
        (date, "2026-02-31"),
        (date | None, "soon"),
        (timedelta, "PT1H"),
        (timedelta, "1h"),
        (Decimal, "1.50"),
        (Decimal, "much"),
        (UUID, "12345678123456781234567812345678"),
        (UUID, "1234"),
        (dict[str, UUID], {"a": "1234"}),
        (bytes, "aGk="),
        (bytes, "hi there"),
        (bytearray, ""),
        (bytes | None, "aGk"),
        (dict[int, str], {"1": "y", "-2": "z"}),
        (dict[int, str], {"x": "y"}),
        (dict[int, str], {"1.0": "y"}),
        (dict[int, str], {"~dict": [[1, "y"], [2, 3]]}),
        (dict[int, str], {"~dict": [[1, "y"]]}),
        (dict[float, str], {"~dict": [[1.5, 1]]}),
        (dict[float, str], {"~dict": [[1.5, "y"]]}),
        (dict[UUID, list[int]], {"~dict": [[{"~uuid": "12345678123456781234567812345678"}, ["y"]]]}),
        (dict[tuple[int, int], Order], {"~dict": [[{"~tuple": [1, 2]}, {"cents": 1}]]}),
        (dict[float, str], {"1.5": "y"}),
        (dict[float, str], {}),
        (dict[bool, str], {"true": "y"}),
        (dict[int | str, str], {"x": "y"}),
        (dict[UUID, int], {"1234": 1}),
        (dict[date, int], {"2026-01-31": 1}),
        (dict[datetime, int], {"soon": 1}),
        (dict[time, int], {"12:00": 1}),
        (dict[timedelta, int], {"1h": 1}),
        (dict[Decimal, int], {"much": 1}),
        (dict[bytes, int], {"aGk": 1}),
        (dict[Size, int], {"large": 1}),
        (dict[Size, int], {"huge": 1}),
        (dict[Forgiving, int], {"LARGE": 1}),
        (dict[Level, int], {"03": 1}),
        (dict[Literal["a"], int], {"a": 1}),
        (list[dict[int, dict[int, str]]], [{"1": {"x": "y"}}]),
        (tuple[int, str], [1, "a"]),
        (tuple[int, str], [1]),
        (tuple[int, str], [1, "a", "b"]),
        (tuple[int, ...], [1, 2, 3]),
        (Place, {"x": 1.5}),
        (Place, {"x": "here"}),
        (Place, {"y": 1.5}),
        (Place, [1.5, 2.0]),
        (list[Stay], [{"place": {"x": 1.5}, "until": "12:00"}]),
        (list[Stay], [{"place": {"x": 1.5}, "until": "noon"}]),
        (list[Stay], [{"place": {}, "until": "12:00"}]),
        (Order | Visit, {"cents": 1, "day": "2026-01-31"}),
        (Order | Visit, {"at": "2026-01-31T12:00:00"}),
        (Order | Visit, {"at": "yesterday"}),
        (Order | Visit, {"by": "Ada"}),
        (Order | Visit, {"~:Visit": {"at": "2026-01-31T12:00:00"}}),
        (Order | Visit | None, None),
        (Stay | Place | Order, {"x": "here"}),
        (Stay | Place | Order, {"x": 1.5}),
        (Order | Visit | None, "Ada"),
        (Order | Tagged | None, {"mine": 1}),
        (Order | Tagged | None, {"mine": "Ada"}),
        (Visit, {"at": "2026-01-31T12:00:00"}),
        (Visit, {"at": "yesterday"}),
        (Visit, {"at": "2026-01-31T12:00:00", "until": "noon"}),
        (Visit, {"at": "2026-01-31T12:00:00", "until": None, "before": [{"at": "long ago"}]}),
        (list[datetime | None], ["2026-01-31T12:00:00", None]),
        (list[datetime | None], ["soon"]),
        (dict[str, tuple[int, time]], {"a": [1, "12:00"]}),
        (dict[str, tuple[int, time]], {"a": [1, "noon"]}),
        (datetime | Tagged, "soon"),
        (Size, "large"),
        (Size, "huge"),
        (Size, ["large"]),
        (Size, {"large": 1}),
        (Literal["a", 1], {"a": 1}),
        (Literal["a", 1], True),
        (Literal["a", 1], 1.0),
        (Literal[0, None], False),
        (Literal[0, None], None),
        (Literal[1] | float | Order, 1.0),
        (Level, True),
        (Level, 1.0),
        (Forgiving, "LARGE"),
        (None | Forgiving, "LARGE"),
        (None | Stay, {"place": {}, "until": "12:00"}),
        (None | datetime | Tagged, "soon"),
        (Short | Forgiving, "LARGE"),
        (Annotated[Tagged, msgspec.Meta(title="mine")] | Forgiving, "LARGE"),
        (Literal["a", "b"], "c"),
        (Colours, 3),
        # Python 3.11.2, as Debian has it, makes no colour at all of a bit that no member has.
        *([(Colours, 4)] if sys.version_info >= (3, 11, 4) else []),
        (Rights, 4),
        (Literal[1, 2], 3),
        (Order, {"cents": 1, "day": "2026-01-31"}),
        (Order, {"cents": 1.0, "day": "2026-01-31"}),
        (Order, {"cents": 1, "day": "31.1."}),
        (Order, {"cents": True, "day": "2026-01-31"}),
        (Model, {"cents": True, "day": "2026-01-31"}),
        (Model, {"cents": 1.0, "day": "1769817600"}),
        (Model, {"cents": 1.0, "day": "2026-01-31"}),
        (Aliased, {"firstName": "Ada"}),
    ],
    ids=str,
)
def test_a_value_fits_a_schema_exactly_if_it_can_be_read(annotation, given):
    schema = msgspec.json.decode(codec.schema(annotation))
    assert (misfit(schema, given) is None) == is_read(annotation, msgspec.json.encode(given))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Place, Place(1.5)),
        (list[Place], [Place(1.5, 2.0)]),
        (Stay, Stay(Place(1.5), time(12))),
        (Order | Visit, Order(1, date(2026, 1, 31))),
        (Order | Visit | None, Visit(datetime(2026, 1, 31))),
        (Tagged, Tagged(1)),
        (Aliased, Aliased(firstName="Ada")),
        (Nesting, Nesting(place=Place(1.5), numbers=Numbers([1]))),
        (int, Level.HIGH),
        (Tagged | Other, Other(1)),
        (Short, Short(1)),
        (Colours, Colours.RED | Colours.BLUE),
        (float, math.inf),
        (Order, Order(1, date(2026, 1, 31))),
        (tuple[int, UUID], (1, UUID(int=7))),
        (dict[date, timedelta], {date(2026, 1, 31): timedelta(hours=1)}),
        (dict[int, bytes], {1: b"hi"}),
        (dict[float, int], {1.5: 1}),
        (dict[tuple[int, int], int], {(1, 2): 1}),
        (dict[int, str], {True: "a"}),
        (Keyed, Keyed(of={1: b"hi"})),
    ],
    ids=str,
)
def test_a_value_that_the_codec_writes_fits_its_schema(annotation, value):
    schema = msgspec.json.decode(codec.schema(annotation))
    assert misfit(schema, msgspec.json.decode(codec.value(annotation).encode(value))) is None


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(date, datetime(2026, 1, 31, tzinfo=UTC)), (datetime, datetime(2026, 1, 31)), (Decimal, Decimal("NaN"))],
    ids=str,
)
def test_a_value_that_carries_its_own_type_is_let_through(annotation, value):
    schema = msgspec.json.decode(codec.schema(annotation))
    stored = codec.value(Any).encode(value)
    assert misfit(schema, msgspec.json.decode(stored)) is None
    assert is_read(annotation, stored)


def test_a_root_model_has_no_schema():
    assert codec.schema(Numbers) is None


@attrs.define
class Untyped:
    """As the older way of attrs allows: its `attr.ib()` says nothing of a type."""

    what = attrs.field()


class WithHandler(pydantic.BaseModel):
    """JSON has no word for a function."""

    cents: int
    after: Callable[[], None] | None = None


class WithExample(pydantic.BaseModel):
    """A type whose schema holds a value that is no JSON."""

    model_config = pydantic.ConfigDict(json_schema_extra={"example": Path("Ada")})
    name: str


class Untagged(msgspec.Struct):
    plain: int


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Untyped, Untyped(1)),
        (WithHandler, WithHandler(cents=1)),
        (WithExample, WithExample(name="Ada")),
        (Untagged | Tagged | Any, "Ada"),
    ],
    ids=str,
)
def test_a_type_whose_library_can_make_no_schema_is_let_through(annotation, value):
    """A worker asks for the schemas of all parameters when it begins; such a type must not stop it."""

    def save(one): ...

    save.__annotations__ = {"one": annotation}
    assert codec.schema(annotation) is None
    assert parameter_schemas(save) == {}
    assert is_read(annotation, codec.value(annotation).encode(value))


class WithBytes(pydantic.BaseModel):
    """Pydantic warns of its default when it makes a schema, and a warning may be an error, as in these tests."""

    cents: int
    key: bytes = b"\xff"


def test_a_default_that_is_no_json_neither_warns_nor_keeps_a_model_from_having_a_schema():
    schema = msgspec.json.decode(codec.schema(WithBytes))
    assert misfit(schema, {"cents": "much"}) == '$.cents: expected integer, not "much"'


def test_a_text_of_the_wrong_format_is_reported_with_its_place():
    schema = msgspec.json.decode(codec.schema(list[UUID]))
    assert misfit(schema, ["1234"]) == '$[0]: expected uuid, not "1234"'


def test_an_unknown_key_of_a_dict_is_reported():
    schema = msgspec.json.decode(codec.schema(dict[int, str]))
    assert misfit(schema, {"x": "y"}) == "$.key('x'): expected integer, not \"x\""


def test_a_schema_without_key_rules_lets_every_key_through():
    assert misfit({"type": "object", "additionalProperties": {"type": "string"}}, {"x": "y"}) is None
