"""Durations: every form that users write, and nonsense refused by name."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadDuration, DefinitionError
from holdfast.model import instant_of, microseconds, moment_of, spoken

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("5s", 5),
        ("0.5s", 0.5),
        ("500ms", 0.5),
        ("250us", 0.00025),
        ("1m", 60),
        ("1h", 3_600),
        ("1h30m", 5_400),
        ("1h 30m", 5_400),
        (" 90s ", 90),
        ("2d", 172_800),
        ("1w", 604_800),
        ("1.5h", 5_400),
        ("30m1h", 5_400),
        ("0s", 0),
        (5, 5),
        (0, 0),
        (0.5, 0.5),
        (0.000_001, 0.000_001),
        (timedelta(hours=1, minutes=30), 5_400),
        (timedelta(0), 0),
    ],
    ids=repr,
)
def test_every_form_means_what_it_says(written, seconds):
    assert microseconds(written) == round(seconds * SECOND)


@pytest.mark.parametrize(
    "written",
    [
        "", " ", "5", "s", "5 parsecs", "1h1h", "-5s", "5s-", "1,5s", "1e3s", "five", "P1D", "5S", "5s nonsense",
        -1, -0.5, math.inf, -math.inf, math.nan, True, False, None, [], b"5s", Decimal(5), timedelta(seconds=-1),
        10**12, "999999w", timedelta.max, 1e308, "9" * 400 + "s", pytest.param(10**400, id="10**400"),
    ],
    ids=repr,
)  # fmt: skip
def test_nonsense_is_refused(written):
    with pytest.raises(BadDuration):
        microseconds(written)


def test_the_refusal_names_the_thing_and_shows_how_to_write_it():
    with pytest.raises(BadDuration, match=r'sleep: \'soon\' is not a duration; write "1h30m"'):
        microseconds("soon", what="sleep")


def test_a_bad_duration_is_a_value_error_and_a_definition_error():
    assert issubclass(BadDuration, ValueError)
    assert issubclass(BadDuration, DefinitionError)


@given(st.integers(0, 10**15))
def test_a_timedelta_is_exact(count):
    assert microseconds(timedelta(microseconds=count)) == count


@given(st.integers(0, 10**9))
def test_whole_seconds_are_exact(seconds):
    assert microseconds(seconds) == microseconds(f"{seconds}s") == seconds * SECOND


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.integers(0, 999))
def test_parts_add_up(days, hours, minutes, millis):
    found = microseconds(f"{days}d{hours}h{minutes}m{millis}ms")
    assert found == microseconds(timedelta(days=days, hours=hours, minutes=minutes, milliseconds=millis))


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0ms"), (250, "0.25ms"), (250_000, "250ms"), (SECOND, "1s"), (1_500_000, "1.5s"), (90 * SECOND, "1m30s"),
     (3_600 * SECOND, "1h"), (5_400 * SECOND, "1h30m"), (86_400 * SECOND, "1d"), (90_061 * SECOND, "1d1h1m1s")],
)  # fmt: skip
def test_a_duration_is_spoken_as_a_person_would(count, said):
    assert spoken(count) == said


@given(st.integers(0, 10**12))
def test_a_duration_as_it_is_shown_can_be_parsed_again(seconds):
    whole = seconds % (400 * 86_400)
    assert microseconds(spoken(whole * SECOND)) == whole * SECOND


@given(st.datetimes(datetime(1970, 1, 2), datetime(9000, 1, 1)), st.integers(-12, 12))
def test_an_instant_and_its_moment_are_the_same_time(naive, hours):
    moment = naive.replace(tzinfo=timezone(timedelta(hours=hours)))
    assert moment_of(instant_of(moment)) == moment
    assert moment_of(instant_of(moment)).tzinfo is UTC


@pytest.mark.parametrize("moment", [datetime(2030, 1, 1), "2030-01-01", 5, None], ids=repr)
def test_a_value_other_than_an_aware_datetime_is_refused_as_an_instant(moment):
    with pytest.raises(BadDuration, match="aware datetime"):
        instant_of(moment, what="sleep_until")
