"""Retry policies: when to try again, and after how long."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import BadDuration, FatalError, Retry, RetryAfter
from holdfast.errors import DefinitionError
from holdfast.model import as_final, is_final

SECOND = 1_000_000
MIDDLE = 0.5
ERROR = ConnectionError("the line is dead")


def delays(retry: Retry, count: int) -> list[float | None]:
    """The delays in seconds after each of the first attempts, with the random number in the middle of its range."""
    found = [retry.delay(ERROR, attempt, 0, MIDDLE) for attempt in range(1, count + 1)]
    return [None if one is None else one / SECOND for one in found]


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (Retry(), [1, 2, None]),
        (Retry(attempts=6, initial="2s"), [2, 4, 8, 16, 32, None]),
        (Retry(attempts=4, factor=1), [1, 1, 1, None]),
        (Retry(attempts=5, factor=10, max="50s"), [1, 10, 50, 50, None]),
        (Retry(attempts=4, initial="3s", kind="fixed"), [3, 3, 3, None]),
        (Retry(attempts=4, initial="3s", kind="linear"), [3, 6, 9, None]),
        (Retry(attempts=5, initial="3s", kind="linear", max="7s"), [3, 6, 7, 7, None]),
        (Retry(attempts=3, initial="90s", kind="fixed"), [90, 90, None]),
        (Retry(attempts=4, initial="40s"), [40, 60, 60, None]),
        (Retry(attempts=3, initial="90s", max="30s"), [30, 30, None]),
        (Retry(attempts=3, initial=0), [0, 0, None]),
        (Retry(attempts=1), [None]),
    ],
    ids=repr,
)
def test_the_delays_are_those_of_the_kind(retry, expected):
    assert delays(retry, len(expected)) == expected


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 200))
def test_jitter_stays_within_its_share_to_either_side(jitter, dice, attempt):
    retry = Retry(attempts=None, initial="1s", max="60s", jitter=jitter)
    plain = min(2 ** (attempt - 1), 60) * SECOND
    found = retry.delay(ERROR, attempt, 0, dice)
    assert found is not None
    assert plain * (1 - jitter) - 1 <= found <= plain * (1 + jitter) + 1


def test_jitter_reaches_both_ends():
    retry = Retry(initial="10s", jitter=0.2)
    assert [retry.delay(ERROR, 1, 0, dice) for dice in (0, 1)] == [8 * SECOND, 12 * SECOND]


def test_random_numbers_do_not_matter_without_jitter():
    retry = Retry(jitter=0)
    assert {retry.delay(ERROR, 1, 0, dice) for dice in (0, 0.3, 1)} == {SECOND}


@pytest.mark.parametrize("kind", ["fixed", "linear", "exponential"])
def test_an_endless_policy_still_works_at_its_ten_thousandth_attempt(kind):
    assert Retry(attempts=None, kind=kind, factor=10, initial="60s").delay(ERROR, 10_000, 0, MIDDLE) == 60 * SECOND


def test_a_factor_that_leads_beyond_all_numbers_leads_to_the_longest_pause():
    assert Retry(attempts=None, factor=100_000.0, jitter=0).delay(ERROR, 10_000, 0, MIDDLE) == 60 * SECOND


def test_within_counts_the_delay_that_is_to_come():
    retry = Retry(attempts=None, initial="10s", kind="fixed", within="30s", jitter=0)
    assert retry.delay(ERROR, 1, 20 * SECOND, MIDDLE) == 10 * SECOND
    assert retry.delay(ERROR, 1, 20 * SECOND + 1, MIDDLE) is None


def test_within_does_not_lengthen_the_attempts():
    assert Retry(attempts=2, within="1h").delay(ERROR, 2, 0, MIDDLE) is None


@pytest.mark.parametrize(
    ("policy", "error", "is_retried"),
    [
        ({"on": (ConnectionError,)}, ConnectionError(), True),
        ({"on": (ConnectionError,)}, ConnectionResetError(), True),
        ({"on": (ConnectionError,)}, ValueError(), False),
        ({"on": ConnectionError}, ConnectionError(), True),
        ({"on": [ConnectionError, KeyError]}, ConnectionError(), True),
        ({"unless": [ConnectionError]}, ConnectionError(), False),
        ({"unless": (ValueError,)}, ValueError(), False),
        ({"unless": (ValueError,)}, UnicodeError(), False),
        ({"unless": (ValueError,)}, ConnectionError(), True),
        ({"on": (OSError,), "unless": (ConnectionError,)}, ConnectionError(), False),
        ({"on": (OSError,), "unless": (ConnectionError,)}, TimeoutError(), True),
        ({}, FatalError(), False),
        ({"on": (FatalError,)}, FatalError(), False),
        ({}, KeyboardInterrupt(), False),
        ({"on": (BaseException,)}, SystemExit(), False),
    ],
    ids=str,
)
def test_the_policy_decides_by_the_error_whether_to_try_again(policy, error, is_retried):
    assert (Retry(**policy).delay(error, 1, 0, MIDDLE) is not None) is is_retried


def test_a_subclass_of_fatal_error_is_fatal():
    class Refused(FatalError): ...

    assert Retry(on=(Refused,)).delay(Refused(), 1, 0, MIDDLE) is None


def test_retry_after_brings_its_own_delay_without_jitter():
    assert Retry().delay(RetryAfter("5m"), 1, 0, 0.9) == 300 * SECOND


def test_retry_after_is_retried_whatever_on_and_unless_say():
    retry = Retry(on=(ValueError,), unless=(RetryAfter,))
    assert retry.delay(RetryAfter(1), 1, 0, MIDDLE) == SECOND


@pytest.mark.parametrize("longest", ["60s", "1m", 60])
def test_a_max_that_is_given_bounds_the_delay_even_if_it_is_the_default(longest):
    assert Retry(initial="5m", max=longest, jitter=0).delay(ValueError(), 1, 0, MIDDLE) == 60 * SECOND


def test_a_policy_keeps_its_bound_when_it_is_pickled_or_replaced():
    for retry in (Retry(initial="5m"), Retry(initial="5m", max="60s")):
        for same in (pickle.loads(pickle.dumps(retry)), dataclasses.replace(retry), copy.deepcopy(retry)):
            assert same == retry
    assert Retry(initial="5m") != Retry(initial="5m", max="60s")


def test_retry_after_may_be_longer_than_max():
    assert Retry(max="1s").delay(RetryAfter("1h"), 1, 0, MIDDLE) == 3_600 * SECOND


def test_retry_after_can_be_raised_in_a_process_pool():
    busy = RetryAfter("5m", "busy")
    busy.add_note("the third one today")
    back = pickle.loads(pickle.dumps(busy))
    assert (type(back), back.args, back.delay, back.__notes__) == (RetryAfter, ("busy",), "5m", ["the third one today"])


def test_retry_after_counts_as_an_attempt():
    assert Retry(attempts=3).delay(RetryAfter(1), 3, 0, MIDDLE) is None


def test_retry_after_ends_with_within():
    assert Retry(attempts=None, within="10s").delay(RetryAfter("11s"), 1, 0, MIDDLE) is None


@pytest.mark.parametrize(
    "error",
    [as_final(ValueError("x")), ExceptionGroup("x", [ERROR, ExceptionGroup("y", [as_final(ValueError("z"))])])],
    ids=repr,
)
def test_an_error_marked_final_is_never_tried_again(error):
    assert Retry(attempts=None).delay(error, 1, 0, MIDDLE) is None


def test_an_error_whose_cause_is_final_is_tried_again():
    error = ConnectionError("the line is dead")
    error.__cause__ = as_final(ValueError("x"))
    assert not is_final(error)


def test_retry_after_nonsense_is_refused():
    with pytest.raises(BadDuration, match="RetryAfter: 'soon' is not a duration"):
        RetryAfter("soon")


def test_a_delay_that_became_nonsense_later_is_refused_when_it_is_read():
    error = RetryAfter("5m")
    error.delay = "soon"
    with pytest.raises(BadDuration, match="RetryAfter"):
        Retry().delay(error, 1, 0, MIDDLE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0}, {"attempts": -1}, {"attempts": 1.5}, {"attempts": "3"}, {"attempts": True},
        {"kind": "quadratic"}, {"kind": None}, {"jitter": -0.1}, {"jitter": 1.1}, {"factor": 0.5}, {"factor": -1},
        {"on": (int,)}, {"on": ("ConnectionError",)}, {"unless": ValueError()}, {"on": [int]},
        {"initial": "soon"}, {"initial": -1}, {"max": "never"}, {"within": "a while"}, {"initial": True},
    ],
    ids=str,
)  # fmt: skip
def test_a_bad_value_is_refused_by_name_where_it_is_written(wrong):
    (name,) = wrong
    with pytest.raises(DefinitionError, match=name):
        Retry(**wrong)


@pytest.mark.parametrize("wrong", [{"jitter": "much"}, {"factor": "two"}, {"jitter": None}, {"factor": float("nan")}])
def test_a_bad_number_is_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(DefinitionError, match=name):
        Retry(**wrong)


def test_equal_policies_are_equal_and_can_be_hashed():
    assert Retry(attempts=2) == Retry(attempts=2)
    assert hash(Retry(initial="1s")) == hash(Retry(initial="1s"))
    assert Retry(attempts=2) != Retry(attempts=3)
