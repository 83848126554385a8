"""Copies of the containers that a field was read as, kept aside while the class's own code has them.

Records in them are shared: what the class's own code makes of them, such as an index of its items, has to hold the very
items that the field holds.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Any

_DICTS = (dict, OrderedDict, Counter)
_LISTS = (list, deque)
ATOMS = frozenset({type(None), bool, int, float, str})


def copied(item: Any) -> Any:
    """The same, with containers of its own."""
    kind = type(item)
    if kind in ATOMS:
        return item
    if kind in _LISTS:
        return kind([one if type(one) in ATOMS else copied(one) for one in item])
    if kind in _DICTS:
        return kind({key: copied(one) for key, one in item.items()})
    if kind is set or kind is bytearray:
        return kind(item)
    if isinstance(item, tuple):
        return tuple.__new__(kind, map(copied, item))
    return item


def unchanged(item: Any, copy: Any) -> Any:
    """The item itself if it still holds what its copy holds, else the copy."""
    try:
        # Containers compare what they hold by identity first: no code of its classes runs unless something changed.
        return item if item is copy or item == copy else copy
    except Exception:
        return copy
