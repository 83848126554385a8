"""Matching: which payloads contain a match, and the probes by which events and waits find each other."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.model import holds, matches, probe_of, probes_of, probes_to_ask

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


@pytest.mark.parametrize(
    ("match", "telling"),
    [
        ({"kind": "invoice", "order_id": 42}, {"order_id": 42}),
        ({"kind": "invoice", "orderId": 42}, {"orderId": 42}),
        ({"kind": "invoice", "order": {"id": 42}}, {"order": {"id": 42}}),
        ({"kind": "invoice", "idempotency-key": "k"}, {"idempotency-key": "k"}),
        ({"kind": "invoice", "KEY": 1}, {"KEY": 1}),
        ({"kind": "invoice", "paid": 1, "monkey": 1}, {"kind": "invoice"}),
        ({"a": "b", "order": "order-4711"}, {"order": "order-4711"}),
        ({"b": 1, "a": 1}, {"a": 1}),
        ({"done": True, "at": 1}, {"at": 1}),
        ({"order_id": None, "kind": "x"}, {"kind": "x"}),
        ({"a": False}, {"a": False}),
        ({"kind": "invoice", "on": {"~date": "2024-01-01"}}, {"on": "2024-01-01"}),
    ],
)
def test_a_wait_has_the_probe_of_the_field_that_most_likely_tells_it_from_others(match: Any, telling: Any) -> None:
    assert probe_of("event", match) == probe_of("event", telling)
    assert probe_of("event", match) in probes_of("event", match)


def test_a_wait_that_asks_for_no_plain_value_asks_for_all_events_of_its_name():
    for match in (None, {}, {"a": [1]}, {"a": {}}):
        assert probes_to_ask("paid", probe_of("paid", match)) == []
    assert probes_to_ask("paid", b"") == []
    own = probe_of("paid", {"a": 1})
    assert probes_to_ask("paid", own) == [own, probe_of("paid", None)]
