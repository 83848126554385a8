"""Values as plain JSON: whatever Python returned, a client of another language can read it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.codec import Codec, Shown, plain


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: Decimal


class Shape(msgspec.Struct):
    corners: tuple[int, ...]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00+00:00"),
        (date(2026, 1, 31), "2026-01-31"),
        (timedelta(hours=1), "PT3600S"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\x00\xff", "AP8="),
        ((1, 2), [1, 2]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset(), []),
        ({1: "a", None: "b", "c": Colour.RED}, {"1": "a", "null": "b", "c": "red"}),
        (Point(1, Decimal("2")), {"x": 1, "y": "2"}),
        (Shape((1, 2)), {"corners": [1, 2]}),
        (PurePosixPath("/a"), "/a"),
        (ValueError("no"), "ValueError: no"),
        (float("nan"), None),
        (float("-inf"), None),
        ("\ud800", "\\ud800"),
        (True, True),
        (10**30, 10**30),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_has_one_plain_form(value, expected):
    assert plain(value) == expected


def test_a_value_without_an_end_is_cut():
    endless: list[object] = []
    endless.append(endless)
    assert "…" in json.dumps(plain(endless), ensure_ascii=False)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.datetimes(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    )
)
@example("half a pair: \ud83d")
def test_the_plain_form_of_any_value_can_be_written_as_json(value):
    written = json.dumps(plain(value), allow_nan=False, ensure_ascii=False).encode()
    assert json.loads(written) == plain(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Colour.RED, "RED"),
        ({"at": datetime(2026, 1, 31, tzinfo=UTC), "all": {1}}, {"at": "2026-01-31T00:00:00+00:00", "all": [1]}),
        ({(1, 2): Decimal("1.5")}, {"[1,2]": "1.5"}),
        ({"~tuple": [1]}, {"~tuple": [1]}),
        (math.inf, None),
        (b"\x01", "AQ=="),
    ],
    ids=str,
)
def test_a_stored_value_is_shown_as_json_without_its_classes(value, expected):
    codec = Codec()
    assert codec.value(Shown).decode(codec.value(Any).encode(value)) == expected


def test_an_unknown_envelope_is_shown_as_it_is():
    shown = Codec().value(Shown)
    assert shown.decode(b'{"~enum": 1}') == {"~enum": 1}
    assert shown.decode(b'{"~later": [1]}') == {"~later": [1]}
    assert shown.decode(b'{"~:Card": {"number": 1}}') == {"number": 1}
