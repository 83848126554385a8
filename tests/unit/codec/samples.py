"""Types that the tests of the codec store."""

from __future__ import annotations

import enum
import functools
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import attrs
import msgspec
import pydantic

T = TypeVar("T")
Cents = NewType("Cents", int)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    PAIR = (1, 2)
    TEXT = "text"


class Shaded(enum.Enum):
    """A base of enums, which has no members of its own."""

    def shade(self) -> str:
        return f"dark {self.value}"


class Paint(Shaded):
    GREEN = "green"


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@dataclass
class Item:
    sku: str
    cents: int
    tags: set[str] = field(default_factory=set)


@dataclass
class BigItem(Item):
    weight: float = 0.0


@dataclass
class Cat:
    name: str
    lives: int = 9


@dataclass
class Dog:
    name: str
    age: int = 1


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int


@dataclass
class Total:
    """Its `__post_init__` is not idempotent."""

    net: int
    gross: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.net < 0:
            raise ValueError("net must not be negative")
        self.net += 1
        self.gross = self.net * 2


@dataclass
class Lazy:
    x: int

    @functools.cached_property
    def double(self) -> int:
        return self.x * 2


@dataclass
class Initial:
    """Its `__init__` wants what no field holds."""

    x: int
    secret: InitVar[int]

    def __post_init__(self, secret: int) -> None:
        self.x += secret


@dataclass
class Node:
    value: int
    next: Node | None = None
    children: list[Node] = field(default_factory=list)


@dataclass
class Box(Generic[T]):
    item: T
    more: list[T] = field(default_factory=list)


@dataclass
class IntBox(Box[int]):
    label: str = ""


@dataclass
class Loose:
    anything: Any
    items: list[Any] = field(default_factory=list)
    table: dict = field(default_factory=dict)  # type: ignore[type-arg]


class Place(NamedTuple):
    name: str
    at: tuple[float, float] = (0.0, 0.0)


class Options(TypedDict):
    name: str
    since: NotRequired[datetime]


class Order(pydantic.BaseModel):
    id: int
    items: list[Item] = []
    price: Decimal = Decimal("0")
    meta: Any = None


class Patch(pydantic.BaseModel):
    name: str | None = None
    age: int | None = None


class Aliased(pydantic.BaseModel):
    first_name: str = pydantic.Field(alias="firstName")


class Shouting(pydantic.BaseModel):
    """Its validator is not idempotent."""

    text: str

    @pydantic.field_validator("text")
    @classmethod
    def _shout(cls, text: str) -> str:
        return text + "!"


class Link(pydantic.BaseModel):
    url: pydantic.HttpUrl
    other: Shouting | None = None


class Login(pydantic.BaseModel):
    user: str
    password: pydantic.SecretStr


class Covered(pydantic.BaseModel):
    user: str
    token: str = pydantic.Field(exclude=True)


@dataclass
class Holder:
    orders: list[Order]
    by_name: dict[str, Order | None]


@attrs.define
class Parcel:
    weight: int = attrs.field(converter=int)
    _label: str = attrs.field(default="", converter=lambda text: text + "!")


@attrs.frozen
class Stamp:
    value: Decimal


class Packet(msgspec.Struct, rename="camel"):
    packet_id: int
    sent_at: datetime | None = None


class Change(msgspec.Struct):
    name: str | msgspec.UnsetType = msgspec.UNSET
    age: int | msgspec.UnsetType | None = msgspec.UNSET


class Cold(msgspec.Struct, frozen=True):
    degrees: float


class Plain:
    """A class of a kind that the codec does not know."""

    def __init__(self) -> None:
        self.x = 1


class PaymentFailed(Exception):
    def __init__(self, card: str, *, code: int) -> None:
        super().__init__(f"{card} was refused")
        self.code = code


class Strict(Exception):
    """Can only be made with arguments that its args don't hold."""

    def __new__(cls, a: int, b: int) -> Strict:
        return super().__new__(cls, "made")

    def __init__(self, a: int, b: int) -> None:
        super().__init__("made")
        self.sum = a + b


class Slotted(Exception):
    __slots__ = ("extra",)

    def __init__(self, extra: int) -> None:
        super().__init__("slotted")
        self.extra = extra


class Batch(ExceptionGroup[Exception]):
    """A group with a class of its own."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Needy(Exception):
    """Can't be printed without what its `__init__` made."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.plain = Plain()

    def __str__(self) -> str:
        return f"needs {'x' if self.plain.x else ''}"


class Gone(Exception):
    """Removed by tests to see what reading it says."""
