"""The table: with rich if it is installed, in plain text if not. The same cells either way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .figures import Figure

HEADS = ("figure", "measured", "beside", "", "ratio", "target", "verdict")
_RIGHT = {1, 3, 4}
_WIDTH = 170
_STYLES = {"met": "green", "missed": "bold red"}


def show(groups: dict[str, list[Figure]], machine: dict[str, Any]) -> None:
    """Print all figures, a rule between one measurement and the next."""
    title = (
        f"Holdfast {machine['holdfast']}, {machine['python']}, SQLite {machine['sqlite']}, "
        f"{machine['cores']} cores: {machine['machine']}"
    )
    blocks = [[_cells(figure) for figure in figures] for figures in groups.values()]
    try:
        _show_rich(title, blocks)
    except ImportError:
        _show_plain(title, blocks)


def _cells(figure: Figure) -> tuple[str, ...]:
    return (
        figure.name,
        f"{number(figure.value)} {figure.unit}",
        figure.beside or "",
        "" if figure.beside_value is None else number(figure.beside_value),
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.target is None else figure.target.shown,
        figure.verdict or "",
    )


def number(value: float) -> str:
    """Three figures that count, and no more."""
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
    # Into a file or a pipe there is no width to keep to.
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
