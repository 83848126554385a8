"""The SQL blocks of this dialect, by name. They live in .sql files beside this one; no SQL is made here.

A block begins with `-- name: claim_runs` and a comment line. A block whose text holds one group of bare question marks
takes rows: its group is repeated, and the rows are padded with nulls up to the next of a few fixed sizes, so that any
number of rows is one statement whose text SQLite has seen before. One statement matters: every call into SQLite gives
the interpreter lock away and has to wait for it, and beside a busy event loop that is what a commit costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib import resources
from itertools import chain
from typing import Any

LARGEST = 512
_HEAD = re.compile(r"^-- name: (\w+)\n-- \S.*\n", re.MULTILINE)
_GROUP = re.compile(r"\(\?(?:, \?)*\)")


def parse_blocks(text: str) -> dict[str, str]:
    """The named blocks of one file. A name used twice, or a block without its comment line, is an error."""
    blocks: dict[str, str] = {}
    heads = list(_HEAD.finditer(text))
    if len(heads) != text.count("-- name:"):
        raise ValueError("every block needs `-- name: <word>` and then one comment line")
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        body = text[head.end() : after.start() if after else len(text)].strip().removesuffix(";")
        if not body:
            raise ValueError(f"the block {head[1]} is empty")
        if head[1] in blocks:
            raise ValueError(f"the block {head[1]} is there twice")
        blocks[head[1]] = body
    return blocks


def size_for(count: int) -> int:
    """The smallest fixed size that holds so many rows."""
    return min(LARGEST, 1 << (count - 1).bit_length())


def repeat_group(text: str, size: int) -> str:
    """The text with its group of question marks repeated."""
    groups = _GROUP.findall(text)
    if len(groups) != 1:
        raise ValueError(f"expected one group of question marks, found {len(groups)}")
    return text.replace(groups[0], ", ".join([groups[0]] * size))


class Statements:
    """All blocks of a package's .sql files, read when the first is asked for. Names are unique across files."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._repeated: dict[tuple[str, int], str] = {}
        self._joined: dict[tuple[str, ...], str] = {}

    @cached_property
    def _blocks(self) -> dict[str, str]:
        blocks: dict[str, str] = {}
        for file in sorted(resources.files(self._package).iterdir(), key=lambda file: file.name):
            if file.name.endswith(".sql"):
                for name, text in parse_blocks(file.read_text(encoding="utf-8")).items():
                    if name in blocks:
                        raise ValueError(f"the block {name} is in two files")
                    blocks[name] = text
        return blocks

    def __getitem__(self, name: str) -> str:
        return self._blocks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def join(self, *names: str) -> str:
        """Several fragments as one statement."""
        found = self._joined.get(names)
        if found is None:
            found = self._joined[names] = "\n".join(self._blocks[name] for name in names)
        return found

    def batches(self, name: str, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, list[Any]]]:
        """Statements that together take all the rows, each with its parameters."""
        for start in range(0, len(rows), LARGEST):
            part = rows[start : start + LARGEST]
            size = size_for(len(part))
            text = self._repeated.get((name, size))
            if text is None:
                text = self._repeated[name, size] = repeat_group(self._blocks[name], size)
            values = list(chain.from_iterable(part))
            values.extend([None] * ((size - len(part)) * len(part[0])))
            yield text, values


SQL = Statements(__package__)
