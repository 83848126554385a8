"""Matching: what a payload must hold to be taken, and probes, short digests by which an event finds the waits that it
may match without looking at the others.

A wait that matches on a field with a plain value is found by that field and value; any other by the event's name alone.
An event has a probe for each plain value in it, and one for its name.

A date or a UUID is text in a payload whose class says what it is, and else in an envelope: both are the same here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

Place: TypeAlias = tuple[str, ...]
"""Where in an object a value is: the names of the fields that lead to it."""
NOWHERE: Any = object()
"""There is no plain value in that place."""


def holds(value: object, wanted: object, *, has_pairs: bool = False) -> bool:
    """Whether `wanted` is a part of `value`: objects by their fields, everything else by equality.

    With `has_pairs`, a dict that was written as pairs is the object that it is where an annotation says what its keys
    are. Not for messages: the probes by which they are found know nothing of that.
    """
    # In a loop: whoever publishes may nest more deeply than calls go here.
    left = [(value, wanted, False)]
    while left:
        value, wanted, is_whole = left.pop()
        value, wanted = _opened(value), _opened(wanted)
        if has_pairs:
            value, wanted = _as_object(value), _as_object(wanted)
        if isinstance(wanted, Mapping):
            if not isinstance(value, Mapping) or not wanted.keys() <= value.keys():
                return False
            if is_whole and len(value) != len(wanted):
                return False
            left += [(value[name], one, is_whole) for name, one in wanted.items()]
        elif isinstance(wanted, list):
            if not isinstance(value, list) or len(value) != len(wanted):
                return False
            # What is in a list is the same as a whole, or it is not.
            left += [(one, other, True) for one, other in zip(value, wanted, strict=True)]
        elif not _equals(value, wanted):
            return False
    return True


def _equals(value: object, wanted: object) -> bool:
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    return value == wanted


def mark_of(match: Any) -> tuple[Place, Any] | None:
    """A plain value that a match asks for, and the names that lead to it; None if it asks for none."""
    left: list[tuple[Place, Any]] = [((), match)]
    while left:
        place, value = left.pop()
        value = _opened(value)
        if isinstance(value, Mapping):
            left += [((*place, name), one) for name, one in value.items()]
        elif value is None or isinstance(value, (str, int, float)):
            return place, value
    return None


def value_at(value: Any, place: Place) -> Any:
    """The plain value in that place, if there is one: of whatever `holds` the match, that of its mark."""
    value = _opened(value)
    for name in place:
        if not isinstance(value, Mapping) or name not in value:
            return NOWHERE
        value = _opened(value[name])
    return NOWHERE if isinstance(value, (Mapping, list)) else value


def probe_of(name: str, match: Any) -> bytes:
    """The probe of a wait."""
    path, value = next(_fields(_opened(match), ""), ("", None))
    return _digest(name, path, value)


def probes_of(name: str, payload: Any) -> list[bytes]:
    """The probes of an event: one of them is the probe of any wait that it matches."""
    found = [_digest(name, "", None)]
    found += [_digest(name, path, value) for path, value in _fields(payload, "")]
    return found


def _fields(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    left = [(value, path)]
    while left:
        value, path = left.pop()
        if isinstance(value, Mapping):
            left += [(value[key], f"{path}/{key}") for key in sorted(value, key=str, reverse=True)]
            inner = _opened(value)
            if inner is not value:
                # By its envelope as well, as earlier versions have registered waits.
                left.append((inner, path))
        elif path and not isinstance(value, list):
            yield path, value


def _opened(value: Any) -> Any:
    """What is in an envelope: the text of what JSON does not know, or what was one of a union."""
    while isinstance(value, Mapping) and len(value) == 1:
        [(tag, inner)] = value.items()
        if not str(tag).startswith("~") or tag == "~dict":
            break
        value = inner
    return value


def _as_object(value: Any) -> Any:
    """Pairs as an object, if all of their keys can be names there."""
    pairs = value.get("~dict") if isinstance(value, Mapping) and len(value) == 1 else None
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        return value
    keys = [_opened(key) for key, _ in pairs]
    if not all(type(key) is str or type(key) is int for key in keys):
        return value
    named = {str(key): item for key, (_, item) in zip(keys, pairs, strict=True)}
    return named if len(named) == len(pairs) else value


def _digest(name: str, path: str, value: Any) -> bytes:
    plain = msgspec.json.encode([name, path, _even(value)])
    return blake2b(plain, digest_size=8, person=b"holdfast probe").digest()


def _even(value: Any) -> Any:
    """1 and 1.0 are equal, so they have one digest."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
