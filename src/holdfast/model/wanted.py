"""Filters on the input of runs, written as names with dots: `order.card` is a field inside an argument."""

from __future__ import annotations

from typing import Any

from .texts import is_text

_LONGEST = 20
"""The most names in one path."""


def add_wanted(wanted: dict[str, Any], name: str, value: Any) -> None:
    """Add a condition: the field `name` holds `value`. `order.card` and 4711 become {"order": {"card": 4711}}.

    Raises ValueError that says what is wrong with the name, or with it beside the conditions there are.
    """
    *path, last = name.split(".")
    if "" in (*path, last) or len(path) > _LONGEST or not is_text(name):
        raise ValueError("expected the name of an argument, and of fields inside it, as order.card")
    place = wanted
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise ValueError("it asks for a field of a value that another one says is not an object")
    if last in place:
        raise ValueError("it is asked for twice")
    place[last] = value
