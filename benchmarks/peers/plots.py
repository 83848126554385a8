"""The picture: a bar for each engine, for both kinds of contest. SVG written as text, so it needs no library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from statistics import median

from .contests import Entrant

_WIDTH = 760
_LEFT = 220
_RIGHT = 90
_BAR = 20
_GAP = 8
_HEAD = 44
_COLOURS = ("#0f766e", "#94a3b8")


def plot(entrants: Sequence[Entrant], caption: str) -> str:
    """The picture as SVG. The scale is logarithmic: on a linear one the peers could not be told apart."""
    present = [entrant for entrant in entrants if entrant.speeds and entrant.absence is None]
    found = {entrant.name: {at: median(each) for at, each in entrant.speeds.items()} for entrant in present}
    values = [value for speeds in found.values() for value in speeds.values()]
    low = 10 ** math.floor(math.log10(min(values)))
    high = 10 ** math.ceil(math.log10(max(values)))
    disciplines = sorted({at for speeds in found.values() for at in speeds}, reverse=True)
    block = _HEAD + len(present) * (_BAR + _GAP)
    height = len(disciplines) * block + 60
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif"'
        ' font-size="13" role="img">',
        f"<title>{escape(caption)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, at_once in enumerate(disciplines):
        lines += _bars(present, found, at_once, number * block, (low, high))
    lines.append(f'<text x="12" y="{height - 20}" font-size="11" fill="#475569">{escape(caption)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _bars(
    present: Sequence[Entrant],
    found: dict[str, dict[int, float]],
    at_once: int,
    top: int,
    scale: tuple[float, float],
) -> Iterator[str]:
    title = f"{at_once} runs at once" if at_once > 1 else "one run at a time"
    yield (
        f'<text x="12" y="{top + 28}" font-weight="bold" fill="#0f172a">Steps a second, {title} (logarithmic)</text>'
    )
    for place, entrant in enumerate(present):
        value = found[entrant.name][at_once]
        y = top + _HEAD + place * (_BAR + _GAP)
        share = math.log(value / scale[0]) / math.log(scale[1] / scale[0])
        width = max(2, round(share * (_WIDTH - _LEFT - _RIGHT)))
        colour = _COLOURS[0] if entrant.name == "Holdfast" else _COLOURS[1]
        yield f'<text x="{_LEFT - 10}" y="{y + 15}" text-anchor="end" fill="#0f172a">{escape(entrant.name)}</text>'
        yield f'<rect x="{_LEFT}" y="{y}" width="{width}" height="{_BAR}" fill="{colour}"/>'
        yield f'<text x="{_LEFT + width + 6}" y="{y + 15}" fill="#0f172a">{value:,.0f}</text>'
