"""Copies of the containers that a field was read as, kept aside while the class's own code has them.

Records in them are shared: what the class's own code makes of them, such as an index of its items, has to hold the very
items that the field holds.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Any

_DICTS = (dict, OrderedDict, Counter)
_LISTS = (list, deque)


def copied(item: Any) -> Any:
    """The same, with containers of its own."""
    kind = type(item)
    if kind in _DICTS:
        return kind({key: copied(one) for key, one in item.items()})
    if kind in _LISTS:
        return kind(map(copied, item))
    if kind is set or kind is bytearray:
        return kind(item)
    if isinstance(item, tuple):
        return tuple.__new__(kind, map(copied, item))
    return item


def unchanged(item: Any, copy: Any) -> Any:
    """The item itself if it still holds what its copy holds, else the copy."""
    return copy if _is_changed(item, copy) else item


def _is_changed(item: Any, copy: Any) -> bool:
    # By identity: a comparison by value would call code of classes that may not be complete yet.
    kind = type(item)
    if item is copy:
        return False
    if kind is bytearray:
        return bool(item != copy)
    if kind is set:
        return set(map(id, item)) != set(map(id, copy))
    if kind in _DICTS:
        return _is_changed(list(item), list(copy)) or _is_changed(list(item.values()), list(copy.values()))
    if kind in _LISTS or isinstance(item, tuple):
        return len(item) != len(copy) or any(map(_is_changed, item, copy))
    return True
