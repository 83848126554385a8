"""python -m benchmarks.pages: write the latest figures into docs/benchmarks.md, between the marks for them.

Figures of a quick measurement are refused: on that page they would seem to mean something.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .children import ROOT
from .tables import HEADS, number, title_of

PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "results"


def main() -> int:
    page = PAGE.read_text("utf-8")
    for name, shown in (("bench", bench), ("peers", peers)):
        path = RESULTS / f"{name}.json"
        if path.exists():
            page = filled(page, name, shown(_read(path)))
    PAGE.write_text(page, "utf-8")
    return 0


def filled(page: str, name: str, text: str) -> str:
    """The page with new text between the marks of this name."""
    marks = re.compile(rf"(<!-- {name} -->\n).*(<!-- /{name} -->)", re.DOTALL)
    if not marks.search(page):
        raise SystemExit(f"the page has no marks for {name}: expected <!-- {name} --> and <!-- /{name} -->")
    return marks.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page)


def bench(report: dict[str, Any]) -> str:
    """The table of all figures."""
    rows = [
        (
            figure["name"],
            figure["store"] or "",
            f"{number(figure['value'])} {figure['unit']}",
            figure["beside"] or "",
            "" if figure["beside_value"] is None else number(figure["beside_value"]),
            "" if figure["ratio"] is None else f"{figure['ratio']:.2f}",
            figure["target"] or "",
            figure["verdict"] or "",
        )
        for figure in report["figures"]
    ]
    return f"{report['at'][:10]}, {title_of(report)}.\n\n{_table(HEADS, rows)}"


def peers(report: dict[str, Any]) -> str:
    """Steps a second of every engine, ours first, or why an engine was not measured."""
    ours = report["entrants"][0]["steps_a_second"]
    heads = ["engine", *(_discipline(at_once) for at_once in ours), "how it was set up"]
    rows = []
    for entrant in report["entrants"]:
        speeds = [_speed(entrant, at_once, ours) for at_once in ours]
        rows.append((f"{entrant['name']} {entrant['version'] or ''}".strip(), *speeds, entrant["setup"]))
    picture = "![Steps a second of each engine](peers.svg)"
    return f"{report['at'][:10]}, {title_of(report)}.\n\n{_table(heads, rows)}\n\n{picture}"


def _speed(entrant: dict[str, Any], at_once: str, ours: dict[str, Any]) -> str:
    if entrant["absent"] is not None:
        return f"not measured: {entrant['absent']}"
    found = entrant["steps_a_second"][at_once]["median"]
    factor = ours[at_once]["median"] / found
    return f"{number(found)} steps/s" + (f" (1/{factor:.1f})" if factor > 1 else "")


def _discipline(at_once: str) -> str:
    return "one run at a time" if at_once == "1" else f"{at_once} runs at once"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _read(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text("utf-8"))
    if report["quick"]:
        raise SystemExit(f"{path.name} was measured with --quick; measure again without")
    return report


if __name__ == "__main__":
    sys.exit(main())
