"""Matching: whether a payload holds what a wait asks for; and probes, short digests by which events and waits find each
other without looking at all the others.

A wait whose match asks for a plain value in some field has a probe of that field and value; any other wait one of the
event's name alone. An event has a probe for each plain value in it, and one for its name.

A date or a UUID is plain text in a payload whose class says what it is, and stands in an envelope elsewhere: matching
treats both alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

Place: TypeAlias = tuple[str, ...]
"""Where in an object a value is: the names of the fields that lead to it."""
NOWHERE: Any = object()
"""Says that there is no plain value in a place."""
_KEY = re.compile(r"(?i:(^|[_-])(id|key|uuid))$|[a-z0-9](Id|ID|Key|Uuid|UUID)$")


def holds(value: object, wanted: object, *, has_pairs: bool = False) -> bool:
    """Whether `wanted` is a part of `value`: objects by their fields, everything else by equality.

    With `has_pairs`, a dict that is stored as pairs counts as the object that it is stored as where an annotation gives
    its key type. Not for messages: their probes know nothing of that.
    """
    # In a loop, not by recursion: a payload may be nested more deeply than calls can be.
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
            # Items of a list must be equal as a whole.
            left += [(one, other, True) for one, other in zip(value, wanted, strict=True)]
        elif not _equals(value, wanted):
            return False
    return True


def _equals(value: object, wanted: object) -> bool:
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    return value == wanted


def mark_of(match: Any) -> tuple[Place, Any] | None:
    """A plain value that a match asks for, with the names that lead to it; None if it asks for none."""
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
    """The plain value in that place, or NOWHERE. A payload that holds a match has the value of the match's mark
    there."""
    value = _opened(value)
    for name in place:
        if not isinstance(value, Mapping) or name not in value:
            return NOWHERE
        value = _opened(value[name])
    return NOWHERE if isinstance(value, (Mapping, list)) else value


def probe_of(name: str, match: Any) -> bytes:
    """The probe of a wait with that match: of the field that most likely tells it from other waits. That is a field
    called as keys are, like `id` or `order_id`, before any other; then the one with the longest value, and then the
    first by name. A bool or None comes last: it tells little. Events have probes for all of their fields, so another
    choice would do as well for waits that are stored already."""
    path, value = min(_fields(match, "", with_envelopes=False), key=_telling, default=("", None))
    return _digest(name, path, value)


def _telling(field: tuple[str, Any]) -> tuple[bool, bool, int, str]:
    path, value = field
    is_key = _KEY.search(path.rpartition("/")[2]) is not None
    return value is None or isinstance(value, bool), not is_key, -len(msgspec.json.encode(_even(value))), path


def probes_of(name: str, payload: Any) -> list[bytes]:
    """The probes of an event: one of them is the probe of any wait that it matches."""
    found = [_digest(name, "", None)]
    found += [_digest(name, path, value) for path, value in _fields(payload, "", with_envelopes=True)]
    return found


def probes_to_ask(name: str, probe: bytes) -> list[bytes]:
    """The probes by which a wait with this one finds the events that were matched before it: its own, and that of the
    name, which those events have of which no values were noted. None if it must look at all events of the name."""
    of_name = _digest(name, "", None)
    return [] if probe in (b"", of_name) else [probe, of_name]


def _fields(value: Any, path: str, *, with_envelopes: bool) -> Iterator[tuple[str, Any]]:
    left = [(value, path)]
    while left:
        value, path = left.pop()
        if not with_envelopes:
            value = _opened(value)
        if isinstance(value, Mapping):
            left += [(value[key], f"{path}/{key}") for key in sorted(value, key=str, reverse=True)]
            inner = _opened(value)
            if inner is not value:
                # Also by its envelope: earlier versions have registered waits so.
                left.append((inner, path))
        elif path and not isinstance(value, list):
            yield path, value


def _opened(value: Any) -> Any:
    """The content of an envelope: the text of a type that JSON does not know, or a member of a union."""
    while isinstance(value, Mapping) and len(value) == 1:
        [(tag, inner)] = value.items()
        if not str(tag).startswith("~") or tag == "~dict":
            break
        value = inner
    return value


def _as_object(value: Any) -> Any:
    """Pairs as an object, if all of their keys can be names of fields."""
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
    """1 and 1.0 are equal, so they must have one digest."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
