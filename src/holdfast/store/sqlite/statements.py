"""The SQL blocks of this dialect, by name. They live in .sql files beside this one; no SQL is made here.

A block begins with `-- name: claim_runs` and a comment line. A block whose text holds one group of bare question marks
takes rows: its group is repeated, and the rows are padded with nulls up to the next of a few fixed sizes, so that any
number of rows is one statement whose text SQLite has seen before. In all others parameters have names.

Few calls matter: each call into SQLite gives the interpreter lock away and has to wait for it, and beside a busy event
loop that is what a commit costs. So rows go in together, and names become positions: the driver looks up each name with
a call of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import resources
from itertools import chain
from typing import Any, NamedTuple

LARGEST = 512
_HEAD = re.compile(r"^-- name: (\w+)\n-- \S.*\n", re.MULTILINE)
_GROUP = re.compile(r"\(\?(?:, \?)*\)")
_NAMED = re.compile(r":([a-z_]+)\b")


class Statement(NamedTuple):
    """A text for the driver, and which parameter goes where."""

    text: str
    names: tuple[str, ...]

    def values(self, params: Mapping[str, Any]) -> list[Any]:
        """The parameters in order."""
        return [params[name] for name in self.names]


def positional(text: str) -> Statement:
    """The text with question marks for names. No block has a colon anywhere else."""
    return Statement(_NAMED.sub("?", text), tuple(_NAMED.findall(text)))


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
        self._positional: dict[tuple[str, ...], Statement] = {}

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
        """Several fragments as one text."""
        return "\n".join(self._blocks[name] for name in names)

    def statement(self, *names: str) -> Statement:
        """A block, or several fragments that are one statement, ready for the driver."""
        found = self._positional.get(names)
        if found is None:
            found = self._positional[names] = positional(self.join(*names))
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
