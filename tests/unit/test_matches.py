"""Probes: whatever a wait matches on, an event that holds it has the wait's probe."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.model import holds, probe_of, probes_of

MANY = {f"field{number:03}": number for number in range(300)} | {"z": 1}


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
    ],
    ids=["numbers", "large", "none", "nested", "lists", "empty", "bare", "many fields"],
)
def test_an_event_that_holds_what_a_wait_asks_for_has_its_probe(payload: Any, match: Any) -> None:
    assert holds(payload, match)
    assert probe_of("event", match) in probes_of("event", payload)
