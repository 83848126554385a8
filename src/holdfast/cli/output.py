"""How answers are printed: tables and lines for people, JSON for programs. Data goes to stdout, everything else not."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

_WIDE = 100_000


def print_json(value: object) -> None:
    """One JSON text."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False, indent=2) + "\n")


def print_line(text: str = "") -> None:
    """A line as it is, without anything that would move a terminal's cursor."""
    sys.stdout.write("\n".join(_printable(line) for line in text.split("\n")) + "\n")
    # Whoever waits for a worker to be ready reads this from a pipe.
    sys.stdout.flush()


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; to a pipe no cell is ever shortened."""
    # Cells hold what users wrote, which must not be taken for markup.
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(cell) for cell in row))
    console.print(table)


def moment(at: datetime | None) -> str:
    """A time to the second."""
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M:%S")


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return moment(value)
    return "" if value is None else _printable(str(value))


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return str(value)
