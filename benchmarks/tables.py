"""The table, printed with rich if it is installed, else as plain text. The cells are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .figures import Figure, Group

HEADS = ("figure", "store", "measured", "beside", "", "ratio", "target", "verdict")
_RIGHT = {2, 4, 5}
_WIDTH = 210
_STYLES = {"met": "green", "missed": "bold red"}


def show(groups: Sequence[Group], machine: dict[str, Any]) -> None:
    """Print all figures, with a rule between measurements."""
    blocks = [[_cells(figure, group.store) for figure in group.figures] for group in groups]
    try:
        _show_rich(title_of(machine), blocks)
    except ImportError:
        _show_plain(title_of(machine), blocks)


def title_of(machine: dict[str, Any]) -> str:
    """What was measured, and where."""
    postgres = f"Postgres {machine['postgres']} by asyncpg {machine['asyncpg']}, " if machine["postgres"] else ""
    return (
        f"Holdfast {machine['holdfast']}, {machine['python']}, SQLite {machine['sqlite']}, {postgres}"
        f"{machine['cores']} cores: {machine['machine']}"
    )


def _cells(figure: Figure, store: str | None) -> tuple[str, ...]:
    return (
        figure.name,
        store or "",
        f"{number(figure.value)} {figure.unit}",
        figure.beside or "",
        "" if figure.beside_value is None else number(figure.beside_value),
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.target is None else figure.target.shown,
        figure.verdict or "",
    )


def number(value: float) -> str:
    """A value with three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _show_rich(title: str, blocks: Sequence[Sequence[tuple[str, ...]]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for place, head in enumerate(HEADS):
        table.add_column(head, justify="right" if place in _RIGHT else "left", no_wrap=True)
    for block in blocks:
        for cells in block:
            table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in cells))
        table.add_section()
    console = Console()
    # A file or a pipe has no width.
    (console if console.is_terminal else Console(width=_WIDTH)).print(table)


def _show_plain(title: str, blocks: Sequence[Sequence[tuple[str, ...]]]) -> None:
    shown = [[HEADS], *blocks]
    widths = [max(len(cells[place]) for block in shown for cells in block) for place in range(len(HEADS))]
    print(title)
    for block in shown:
        for cells in block:
            padded = [
                cell.rjust(width) if place in _RIGHT else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ]
            print("  ".join(padded).rstrip())
        print("  ".join("-" * width for width in widths))
