"""Pages as tests see them: their blocks of code, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(r"^```(?P<language>\w+)(?P<rest>[^\n]*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """Code on a page; `title` is the file that the page tells its reader to make of it."""

    language: str
    text: str
    line: int
    title: str | None = None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', fence["rest"])
        line = text.count("\n", 0, fence.start("text")) + 1
        found.append(Block(fence["language"], fence["text"], line, title[1] if title else None))
    return found


def commands_of(block: Block) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it is said to print."""
    said: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            said.append((line[2:], []))
        else:
            said[-1][1].append(line)
    return said
