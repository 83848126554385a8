"""The SQL blocks of this dialect, by name. They live in .sql files beside this one; no SQL is made here.

A block with one group of bare question marks takes rows: the group is repeated, and the rows are padded with zeros up
to one of a few fixed sizes, so that any number of rows makes a statement whose text SQLite has seen before. (Not with
nulls: for each None, as for each bytes object, the driver looks for an adapter, which takes longer than binding it.) In
all other blocks the parameters have names.

It matters that calls are few: each call into SQLite lets go of the interpreter lock and then has to wait for it, and
beside a busy event loop that is most of what a commit costs. So rows are inserted together, and named parameters become
positions: the driver looks up each name by a call of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from holdfast.store.blocks import Blocks, questioned

LARGEST = 512
_GROUP = re.compile(r"\(\?(?:, \?)*\)")


def size_for(count: int) -> int:
    """The smallest fixed size that holds so many rows."""
    return min(LARGEST, 1 << (count - 1).bit_length())


def repeat_group(text: str, size: int) -> str:
    """The text with its group of question marks repeated."""
    groups = _GROUP.findall(text)
    if len(groups) != 1:
        raise ValueError(f"expected one group of question marks, found {len(groups)}")
    return text.replace(groups[0], ", ".join([groups[0]] * size))


class SqliteBlocks(Blocks):
    """The blocks of this dialect, some of which take rows."""

    def __init__(self) -> None:
        super().__init__(__package__, questioned)
        self._repeated: dict[tuple[str, int], str] = {}

    def batches(self, name: str, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, list[Any]]]:
        """Statements that together take all the rows, each with its parameters."""
        for start in range(0, len(rows), LARGEST):
            part = rows[start : start + LARGEST]
            size = size_for(len(part))
            text = self._repeated.get((name, size))
            if text is None:
                text = self._repeated[name, size] = repeat_group(self[name], size)
            values = list(chain.from_iterable(part))
            values.extend([0] * ((size - len(part)) * len(part[0])))
            yield text, values


SQL = SqliteBlocks()
