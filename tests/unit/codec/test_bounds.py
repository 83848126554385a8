"""Bounds: what pydantic refuses when it reads is refused where it is sent, as far as a schema can tell."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints

from holdfast.codec import Codec, misfit
from holdfast.errors import NotDecodable

codec = Codec()


class Size(Enum):
    LARGE = "large"


class Answer(pydantic.BaseModel):
    whole: int = Field(1, gt=0, le=5)
    real: float = Field(0.5, ge=0.5, lt=2)
    even: int = Field(2, multiple_of=2)
    tenths: float = Field(0.3, multiple_of=0.1)
    price: Decimal = Field(Decimal(1), gt=0)
    maybe: int | None = Field(None, gt=0)
    mail: str = Field("a@b", pattern="@")
    word: str = Field("abc", pattern=r"^[a-z]+$")
    name: str = Field("Ada", min_length=2, max_length=4)
    items: list[int] = Field([1], min_length=1, max_length=2)
    tags: set[int] = Field({1}, min_length=1, max_length=2)
    table: dict[str, int] = Field({"a": 1}, min_length=1, max_length=2)
    kind: Literal["yes", "no"] = "yes"
    only: Literal["only"] = "only"
    data: bytes = Field(b"", max_length=3)
    size: Size = Size.LARGE
    trimmed: Annotated[str, StringConstraints(strip_whitespace=True, max_length=3, pattern="^[a-z]*$")] = ""
    turned: Annotated[int, BeforeValidator(abs), Field(gt=0)] = 1
    inner: Annotated[Annotated[int, Field(gt=0)] | None, BeforeValidator(abs)] = 1
    compiled: Annotated[str, Field(pattern=re.compile("^[a-z]+$", re.IGNORECASE))] = "a"


class Turned(pydantic.BaseModel):
    """Its bounds hold for what its code makes of the stored value."""

    before: Annotated[str | None, BeforeValidator(lambda text: text[:3]), Field(max_length=3)] = ""
    after: Annotated[str, AfterValidator(lambda text: text[:3]), Field(max_length=3)] = ""


class Tidy(pydantic.BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    name: str = Field("Ada", max_length=3)


class Looking(pydantic.BaseModel):
    """Its engine can look ahead, and takes a newline for the end of a text."""

    model_config = ConfigDict(regex_engine="python-re")
    name: str = Field("ab", pattern="^(?=a)[a-z]+$")
    word: str = Field("ab", pattern="^[a-z]+$")


def is_read(annotation: Any, given: Any) -> bool:
    try:
        codec.value(annotation).decode(msgspec.json.encode(given))
    except NotDecodable:
        return False
    return True


def why_not(annotation: Any, given: Any) -> str | None:
    return misfit(msgspec.json.decode(codec.schema(annotation)), given)


@pytest.mark.parametrize(
    ("model", "given"),
    [
        *((Answer, {"whole": one}) for one in (-3, 0, 1, 5, 6, 10**400)),
        *((Answer, {"real": one}) for one in (0.4, 0.5, 1, 2, 2.5)),
        *((Answer, {"even": one}) for one in (3, 4, -2, 10**400 + 1)),
        *((Answer, {"tenths": one}) for one in (0.7, 0.75, -0.3)),
        *((Answer, {"price": one}) for one in ("-3", "0", "1e5", "3.50", 0, 7, -0.5)),
        *((Answer, {"maybe": one}) for one in (None, 0, 1)),
        *((Answer, {"mail": one}) for one in ("nobody", "a@b", "@")),
        *((Answer, {"word": one}) for one in ("abc", "abc\n", "aBc", "a" * 100_000 + "!")),
        *((Answer, {"name": one}) for one in ("A", "Ad", "Adaé", "Ada B")),
        *((Answer, {"items": one}) for one in ([], [1], [1, 2, 3])),
        *((Answer, {"tags": one}) for one in ([], [1], [1, 1, 2])),
        *((Answer, {"table": one}) for one in ({}, {"a": 1}, {"a": 1, "b": 1, "c": 1})),
        *((Answer, {"kind": one}) for one in ("no", "maybe")),
        *((Answer, {"only": one}) for one in ("only", "other")),
        *((Answer, {"data": one}) for one in ("aGlo", "aGk=")),
        (Answer, {"size": "large"}),
        *((Answer, {"trimmed": one}) for one in ("abc", "  abc  ")),
        *((Answer, {"turned": one}) for one in (1, -3)),
        *((Answer, {"inner": one}) for one in (1, -3)),
        *((Turned, {name: "abcdef"}) for name in ("before", "after")),
        *((Answer, {"compiled": one}) for one in ("a", "A")),
        (Tidy, {"name": "  Ada  "}),
        (Looking, {"name": "ab"}),
        (Looking, {"word": "ab\n"}),
    ],
    ids=lambda one: str(one)[:40],
)
def test_a_value_fits_a_models_schema_exactly_if_the_model_reads_it(model, given):
    assert (why_not(model, given) is None) == is_read(model, given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"whole": -3}, "$.whole: expected more than 0, not -3"),
        ({"whole": 6}, "$.whole: expected at most 5, not 6"),
        ({"even": 3}, "$.even: expected a multiple of 2, not 3"),
        ({"price": "-3"}, '$.price: expected more than 0.0, not "-3"'),
        ({"mail": "nobody"}, "$.mail: expected text that matches '@'"),
        ({"name": "A"}, '$.name: expected at least 2 characters, not 1: "A"'),
        ({"items": [1, 2, 3]}, "$.items: expected at most 2 items, not 3: [1,2,3]"),
        ({"kind": "maybe"}, "$.kind: \"maybe\" is none of ['yes', 'no']"),
    ],
    ids=str,
)
def test_a_bound_that_a_value_breaks_is_named_with_its_place(given, reason):
    assert why_not(Answer, given) == reason


def test_a_decimal_in_an_envelope_is_held_to_its_bounds():
    assert why_not(Answer, {"price": {"~decimal": "-3"}}) == '$.price: expected more than 0.0, not "-3"'
    assert why_not(Answer, {"price": {"~decimal": "NaN"}}) is None


def test_bounds_of_an_earlier_versions_schema_are_not_checked():
    """It had them for values as pydantic sees them, and not as they are stored."""
    schema = {"x-model": True, "type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}
    assert misfit(schema, {"name": "  Ada  "}) is None


@dataclass
class Approve:
    by: str


@dataclass
class Reject:
    by: str


@dataclass
class Approved:
    by: str
    kind: Literal["approved"] = "approved"


@dataclass
class Rejected:
    by: str
    kind: Literal["rejected"] = "rejected"


class Short(msgspec.Struct, array_like=True):
    only: int


def takes(annotation: Any, given: Any) -> bool:
    try:
        codec.value(annotation).decode_message(msgspec.json.encode(given))
    except NotDecodable:
        return False
    return True


@pytest.mark.parametrize(
    ("annotation", "given"),
    [
        (Approve | Reject, {"by": "me"}),
        (Approve | Reject | None, None),
        (Approve | Reject, {"~:Reject": {"by": "me"}}),
        (Approved | Rejected, {"by": "me"}),
        (Approved | Rejected, {"by": "me", "kind": "rejected"}),
        (Approve | Short, {"by": "me"}),
        (date | str, "2024-05-01"),
        (date | str, "soon"),
        (date | str, {"~date": "2024-05-01"}),
        (date | datetime, "2024-05-01"),
        (date | Size, "large"),
        (Size | Literal["large"], "large"),
        (Size | str, "large"),
    ],
    ids=str,
)
def test_a_value_fits_a_union_exactly_if_one_member_takes_it(annotation, given):
    assert (why_not(annotation, given) is None) == takes(annotation, given)


def test_text_that_a_str_of_a_union_takes_is_text():
    """A date would have come as one, in an envelope."""
    assert codec.value(date | str).decode_message(b'"2024-05-01"') == "2024-05-01"
    assert codec.value(date | str).decode_message(codec.message(date(2024, 5, 1), "signal")) == date(2024, 5, 1)


def test_text_that_was_stored_before_its_annotation_was_a_union_is_not_taken_for_text():
    with pytest.raises(NotDecodable, match="alike"):
        codec.value(date | str).decode(codec.value(date).encode(date(2024, 5, 1)))
