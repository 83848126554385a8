"""python -m benchmarks: measure, print one table, write one JSON file. Wrong only if something broke, never if slow."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import claims, idle, machine, memory, replays, starts, steps, tables, throughput
from .figures import Figure
from .scales import FULL, QUICK, Scale

RESULTS = Path(__file__).parent / "results"
MEASURES: dict[str, Callable[[Scale, Path], list[Figure]]] = {
    "throughput": throughput.measure,
    "steps": steps.measure,
    "starts": starts.measure,
    "replays": replays.measure,
    "memory": memory.measure,
    "claims": claims.measure,
    "idle": idle.measure,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 1 if a measurement broke; the others are shown all the same."""
    asked = _parser().parse_args(argv)
    groups: dict[str, list[Figure]] = {}
    broken: list[str] = []
    target: Path = asked.json or RESULTS / "bench.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the results and not in the system's folder for such things, which may be in memory, where a commit is free.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="bench-", ignore_cleanup_errors=True) as folder:
        for name in asked.only or MEASURES:
            began = time.perf_counter()
            print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
            try:
                groups[name] = MEASURES[name](QUICK if asked.quick else FULL, Path(folder).resolve())
            except Exception:
                traceback.print_exc()
                broken.append(name)
            print(f"{time.perf_counter() - began:.1f} s", file=sys.stderr)
    described = machine.described()
    tables.show(groups, described)
    report = json.dumps(_report(groups, described, is_quick=asked.quick), indent=2, ensure_ascii=False)
    target.write_text(f"{report}\n", encoding="utf-8")
    if broken:
        print(f"broken: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0


def _report(groups: dict[str, list[Figure]], described: dict[str, Any], *, is_quick: bool) -> dict[str, Any]:
    return {
        **described,
        "quick": is_quick,
        "figures": [figure.as_json(group) for group, figures in groups.items() for figure in figures],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Holdfast on this machine.")
    parser.add_argument(
        "--quick", action="store_true", help="take seconds: shows that it runs, the figures mean little"
    )
    parser.add_argument("--only", action="append", choices=[*MEASURES], help="one measurement; may be repeated")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write the figures")
    return parser


if __name__ == "__main__":
    sys.exit(main())
