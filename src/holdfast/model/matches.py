"""Matching: what a payload must hold to be taken, and probes, short digests by which an event finds the waits that it
may match without looking at the others.

A wait that matches on a field with a plain value is found by that field and value; any other by the event's name alone.
An event has a probe for each plain value in it, and one for its name.

A date or a UUID is text in a payload whose class says what it is, and else in an envelope: both are the same here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec


def holds(value: object, wanted: object) -> bool:
    """Whether `wanted` is a part of `value`: objects by their fields, everything else by equality."""
    value, wanted = _opened(value), _opened(wanted)
    if isinstance(wanted, Mapping):
        return isinstance(value, Mapping) and all(
            name in value and holds(value[name], one) for name, one in wanted.items()
        )
    return _equals(value, wanted)


def _equals(value: object, wanted: object) -> bool:
    """Whether they are the same as a whole, also within lists."""
    value, wanted = _opened(value), _opened(wanted)
    if isinstance(wanted, Mapping):
        return (
            isinstance(value, Mapping)
            and value.keys() == wanted.keys()
            and all(_equals(value[name], one) for name, one in wanted.items())
        )
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_equals, value, wanted))
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    return value == wanted


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
    if isinstance(value, Mapping):
        inner = _opened(value)
        if inner is not value:
            # By its envelope as well, as earlier versions have registered waits.
            yield from _fields(inner, path)
        for key in sorted(value, key=str):
            yield from _fields(value[key], f"{path}/{key}")
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


def _digest(name: str, path: str, value: Any) -> bytes:
    plain = msgspec.json.encode([name, path, _even(value)])
    return blake2b(plain, digest_size=8, person=b"holdfast probe").digest()


def _even(value: Any) -> Any:
    """1 and 1.0 are equal, so they have one digest."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
