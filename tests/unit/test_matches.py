"""Matching: which payloads contain a match, and the probes by which events find the waits that they match."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.model import holds, matches, probe_of, probes_of

MANY = {f"field{number:03}": number for number in range(300)} | {"z": 1}


@pytest.mark.parametrize(
    ("value", "wanted", "is_part"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {}, True),
        ({"a": {"b": {"c": 1}, "d": 2}}, {"a": {"b": {"c": 1}}}, True),
        ({"a": [1, 2]}, {"a": [1, 2]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1.0}, {"a": 1}, True),
        ({"a": "2024-01-01"}, {"a": {"~date": "2024-01-01"}}, True),
        ({"a": {"~date": "2024-01-01"}}, {"a": "2024-01-01"}, True),
        ({"a": {"~date": "2024-01-01"}}, {"a": {"~date": "2024-01-02"}}, False),
        ({"pet": {"~:Cat": {"name": "Tom", "age": 3}}}, {"pet": {"name": "Tom"}}, True),
        ({"a": {"~dict": [["~x", 1]]}}, {"a": 1}, False),
        ({"a": ["2024-01-01"]}, {"a": [{"~date": "2024-01-01"}]}, True),
        ({"a": [{"~date": "2024-01-01"}]}, {"a": {"~tuple": ["2024-01-01"]}}, True),
        ({"a": [[1], {"b": {"~date": "2024-01-01"}}]}, {"a": [[1.0], {"b": "2024-01-01"}]}, True),
        ({"a": [True]}, {"a": [1]}, False),
        ({"a": [{"b": 1}]}, {"a": [{"b": True}]}, False),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, False),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, False),
        ([], {"a": 1}, False),
        (3, {}, False),
    ],
)
def test_a_match_is_met_by_payloads_that_contain_it_and_by_no_others(value, wanted, is_part):
    assert holds(value, wanted) is is_part


@pytest.mark.parametrize(
    ("payload", "match"),
    [
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1e300}, {"a": 1e300}),
        ({"a": None}, {"a": None}),
        ({"a": {"b": {"c": 1}, "d": 2}}, {"a": {"b": {"c": 1}}}),
        ({"a": [1, 2]}, {"a": [1, 2]}),
        ({"a": {"b": 1}}, {"a": {}}),
        (5, 5),
        (MANY, {"z": 1}),
        ({"a": "2024-01-01", "b": 1}, {"a": {"~date": "2024-01-01"}}),
        ({"a": {"~date": "2024-01-01"}}, {"a": "2024-01-01"}),
        ("2024-01-01", {"~date": "2024-01-01"}),
        ({"a": {"~:Cat": {"name": "Tom"}}}, {"a": {"name": "Tom"}}),
        ({"a": [1, 2]}, {"a": {"~tuple": [1, 2]}}),
    ],
    ids=[
        *("numbers", "large", "none", "nested", "lists", "empty", "bare", "many fields"),
        *("typed", "untyped", "alone", "a union", "tuples"),
    ],
)
def test_an_event_that_holds_what_a_wait_asks_for_has_its_probe(payload: Any, match: Any) -> None:
    assert holds(payload, match)
    assert probe_of("event", match) in probes_of("event", payload)


def test_a_wait_that_an_earlier_version_has_registered_is_found(monkeypatch):
    match = {"a": {"~date": "2024-01-01"}}
    found = probes_of("event", match)
    monkeypatch.setattr(matches, "_opened", lambda value: value)
    assert probe_of("event", match) in found


def test_a_payload_may_be_nested_more_deeply_than_calls_go():
    value: Any = {"a": 1}
    for _ in range(5000):
        value = {"a": value} if "b" in value else {"b": [value]}
    assert holds(value, value)
    for _ in range(5000):
        value = {"a": value}
    assert len(probes_of("paid", value)) == 1
    assert not holds(value, {"a": {"b": 1}})
