"""A call as it was written before the types of its arguments got further fields.

Values stored before a field with a default was added lack that field. When such a value is read it gets the default,
and is written with it: a body that hands it to a step then seems to make another call than the journal has. So where a
digest differs, the engine tries the digests of the same call without some of the fields that hold their defaults. These
forms are never stored.

A default that is made anew each time, such as an id or the time, is another one at each replay: such a field is left
out whatever it holds. That helps with calls from before the field was added. A later one was written with what the
default was then, which nobody knows any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, islice
from typing import Any, NamedTuple

from holdfast.codec.fields import MISSING, Field
from holdfast.codec.models import UNSET
from holdfast.codec.shapes import decode_json, encode_json

_TRIES = 4_096
_BYTES = 8 * 1024 * 1024
"""The most bytes written in one search: a body that really makes another call must not hold up its worker."""


class _Added(NamedTuple):
    """A field with a default, which may have been added after values were stored."""

    record: frozenset[str]
    key: str
    default: Any
    is_new_each_time: bool = False


def earlier(plain: bytes, records: Sequence[Sequence[Field]]) -> Iterator[bytes]:
    """The call without each combination of the fields that hold their defaults, fewest fields first, up to a bound.

    Those whose default is new each time come last: they may be there in every value, and would use up the tries.
    """
    try:
        content = decode_json(plain)
    except ValueError:  # a pickle
        return
    known = [added for fields in records for added in _with_defaults(fields)]
    found = list(dict.fromkeys(number for item in _objects(content) for number in _at_default(item, known)))
    fixed = [number for number in found if not known[number].is_new_each_time]
    choices = chain(_choices(fixed), (some for some in _choices(found) if not set(some) <= set(fixed)))
    for choice in islice(choices, min(_TRIES, _BYTES // len(plain))):
        yield encode_json(_without(content, [known[number] for number in choice]))


def _choices(found: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(found, count) for count in range(1, len(found) + 1))


def _with_defaults(fields: Sequence[Field]) -> Iterator[_Added]:
    record = frozenset(field.key for field in fields)
    for field in fields:
        try:
            if field.default is not MISSING:
                yield _Added(record, field.key, _plain(field, field.default))
            elif field.factory is not MISSING:
                made, other = (_plain(field, field.factory()) for _ in range(2))
                yield _Added(record, field.key, made, is_new_each_time=made != other)
        except Exception:  # no call can hold a default that can't be made or written
            continue


def _plain(field: Field, default: Any) -> Any:
    return decode_json(encode_json(field.shape.lower(default)))


def _objects(item: Any) -> Iterator[dict[str, Any]]:
    if type(item) is dict:
        yield item
        item = list(item.values())
    if type(item) is list:
        for one in item:
            yield from _objects(one)


def _at_default(item: dict[str, Any], known: Sequence[_Added]) -> Iterator[int]:
    """The indices of the known fields that hold their defaults in this object."""
    for number, (record, key, default, is_new_each_time) in enumerate(known):
        if record <= item.keys() and (is_new_each_time or item[key] == default):
            yield number


def _without(item: Any, added: Sequence[_Added]) -> Any:
    if type(item) is list:
        return [_without(one, added) for one in item]
    if type(item) is not dict:
        return item
    gone = {added[number].key for number in _at_default(item, added)}
    out = {key: _without(one, added) for key, one in item.items() if key not in gone}
    if gone and type(out.get(UNSET)) is list:
        out[UNSET] = [name for name in out[UNSET] if name not in gone]
        if not out[UNSET]:
            del out[UNSET]
    return out
