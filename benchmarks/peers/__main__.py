"""python -m benchmarks.peers: the same work on Holdfast and on others, a table, a JSON file and a picture."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks import machine, tables
from benchmarks.children import ROOT, leave_in_order
from benchmarks.figures import Group
from benchmarks.postgres_servers import PostgresDatabases

from .contests import FULL, QUICK, contest, figures
from .environments import CONTESTANTS
from .plots import plot

RESULTS = ROOT / "benchmarks" / "results" / "peers.json"
PICTURE = ROOT / "docs" / "peers.svg"


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 1 if Holdfast itself could not be measured. A peer that could not is shown with the reason."""
    asked = _parser().parse_args(argv)
    leave_in_order()
    names = ["Holdfast", *(asked.only or [one.name for one in CONTESTANTS[1:]])]
    with tempfile.TemporaryDirectory(prefix="holdfast-peers-") as folder, closing(PostgresDatabases()) as postgres:
        entrants = contest(QUICK if asked.quick else FULL, postgres.server, Path(folder), names)
        described = machine.described(asyncio.run(postgres.version()))
    if entrants[0].absence is not None:
        print(f"Holdfast: {entrants[0].absence}", file=sys.stderr)
        return 1
    tables.show([Group("peers", "Postgres", figures(entrants))], described)
    for entrant in entrants:
        if entrant.absence is not None:
            print(f"{entrant.label} was not measured: {entrant.absence}")
    report = {**described, "quick": asked.quick, "entrants": [entrant.as_json() for entrant in entrants]}
    _write(asked.json or RESULTS, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    versions = ", ".join(entrant.label for entrant in entrants if entrant.absence is None)
    postgres_shown = f"Postgres {described['postgres']}, {described['cores']} cores"
    _write(asked.svg or PICTURE, plot(entrants, f"{described['at'][:10]}: {versions}; {postgres_shown}"))
    return 0


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description="Holdfast beside others.")
    parser.add_argument("--quick", action="store_true", help="little work: shows that it runs")
    parser.add_argument("--only", action="append", choices=[one.name for one in CONTESTANTS[1:]], help="one peer")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write what was found")
    parser.add_argument("--svg", type=Path, metavar="PATH", help="where to write the picture")
    return parser


if __name__ == "__main__":
    sys.exit(main())
