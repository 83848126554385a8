"""SQL by name: .sql files are read into blocks, and no SQL is made anywhere else.

A block begins with `-- name: claim_runs` and a comment that says what it does. Parameters are written `:name`, and the
comment may name them, for it is no part of the statement.
Some blocks are fragments: several of them, in order, are one statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import resources
from typing import Any, NamedTuple

_HEAD = re.compile(r"^-- name: (\w+)\n(?:-- \S.*\n)+", re.MULTILINE)
_NAMED = re.compile(r"(?<!:):([a-z_]+)\b")


class Statement(NamedTuple):
    """A text for a driver, and which parameter goes where."""

    text: str
    names: tuple[str, ...]

    def values(self, params: Mapping[str, Any]) -> list[Any]:
        """The parameters in order."""
        return [params[name] for name in self.names]


def questioned(text: str) -> Statement:
    """The text with a question mark for each parameter, as SQLite reads it."""
    return Statement(_NAMED.sub("?", text), tuple(_NAMED.findall(text)))


def numbered(text: str) -> Statement:
    """The text with $1, $2, ... for its parameters, each used as often as it is named, as asyncpg reads it."""
    names = tuple(dict.fromkeys(_NAMED.findall(text)))
    places = {name: f"${number}" for number, name in enumerate(names, 1)}
    return Statement(_NAMED.sub(lambda found: places[found[1]], text), names)


def parse_blocks(text: str) -> dict[str, str]:
    """The named blocks of one file. A name used twice, or a block without its comment, is an error."""
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


class Blocks:
    """All blocks of a package's .sql files. They are read on first use, and names are unique across the files."""

    def __init__(self, package: str, placed: Callable[[str], Statement]) -> None:
        self._package = package
        self._placed = placed
        self._statements: dict[tuple[str, ...], Statement] = {}

    @cached_property
    def _blocks(self) -> dict[str, str]:
        blocks: dict[str, str] = {}
        for file in sorted(resources.files(self._package).iterdir(), key=lambda file: file.name):
            if file.name.endswith(".sql"):
                for name, text in parse_blocks(file.read_text(encoding="utf-8")).items():
                    if name in blocks:
                        raise ValueError(f"the block {name} is in two files")
                    blocks[name] = self.prepared(text)
        return blocks

    def prepared(self, text: str) -> str:
        """A block's text with everything in it that depends on the database; here nothing does."""
        return text

    def __getitem__(self, name: str) -> str:
        return self._blocks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def join(self, *names: str) -> str:
        """Several fragments as one text."""
        return "\n".join(self._blocks[name] for name in names)

    def statement(self, *names: str) -> Statement:
        """A block, or several fragments that are one statement, ready for the driver."""
        found = self._statements.get(names)
        if found is None:
            found = self._statements[names] = self._placed(self.join(*names))
        return found
