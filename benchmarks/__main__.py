"""python -m benchmarks: measure, print one table, write one JSON file. It fails if something breaks, never if slow."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.cli.serving import spare_the_collector

from . import claims, fans, fleet, idle, machine, memory, observing, replays, starts, steps, tables, throughput
from .children import leave_in_order
from .databases import Engine
from .figures import Figure, Group
from .postgres_servers import PostgresDatabases
from .scales import FULL, QUICK, Scale
from .sqlite_files import SqliteFiles

RESULTS = Path(__file__).parent / "results"
IN_A_STORE: dict[str, Callable[[Scale, Engine], list[Figure]]] = {
    "throughput": throughput.measure,
    "fleet": fleet.measure,
    "fans": fans.measure,
    "observing": observing.measure,
    "steps": steps.measure,
    "starts": starts.measure,
    "replays": replays.measure_claimed,
    "claims": claims.measure,
    "idle": idle.measure,
}
APART: dict[str, Callable[[Scale, Path], list[Figure]]] = {
    "replays": lambda scale, _: replays.measure(scale),
    "memory": memory.measure,
}
NAMES = [*IN_A_STORE, *(name for name in APART if name not in IN_A_STORE)]
STORES = ("SQLite", "Postgres")
ONLY_IN = {"fleet": "Postgres"}
"""On SQLite several processes share one file on one machine, which is not what a fleet is for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write. Returns 1 if a measurement broke; the others are shown nevertheless."""
    asked = _parser().parse_args(argv)
    leave_in_order()
    spare_the_collector()  # As in a process of `holdfast worker`.
    groups: list[Group] = []
    broken: list[str] = []
    target: Path = asked.json or RESULTS / "bench.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    scale = QUICK if asked.quick else FULL
    # Next to the results, and not in the system's folder for temporary files: in memory a commit would cost nothing.
    with (
        tempfile.TemporaryDirectory(dir=target.parent, prefix="bench-", ignore_cleanup_errors=True) as home,
        closing(PostgresDatabases(durable=not asked.quick)) as postgres,
    ):
        folder = Path(home).resolve()
        engines: dict[str, Engine] = {"SQLite": SqliteFiles(folder), "Postgres": postgres}
        chosen = [engines[name] for name in asked.store or STORES]
        for name, store, measure in _measures(asked.only or NAMES, chosen, scale, folder):
            began = time.perf_counter()
            print(f"{name}{f' on {store}' if store else ''} ...", end=" ", file=sys.stderr, flush=True)
            try:
                groups.append(Group(name, store, measure()))
            except Exception:
                traceback.print_exc()
                broken.append(name)
            print(f"{time.perf_counter() - began:.1f} s", file=sys.stderr)
        described = machine.described(asyncio.run(postgres.version()) if postgres in chosen else None)
    tables.show(groups, described)
    report = json.dumps(_report(groups, described, is_quick=asked.quick), indent=2, ensure_ascii=False)
    target.write_text(f"{report}\n", encoding="utf-8")
    if broken:
        print(f"broken: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0


def _measures(
    names: Sequence[str], engines: Sequence[Engine], scale: Scale, folder: Path
) -> Iterator[tuple[str, str | None, Callable[[], list[Figure]]]]:
    """For each measurement: its name, its store, and the function that makes it."""
    for name in names:
        if name in APART:
            yield name, None, partial(APART[name], scale, folder)
        for engine in engines:
            if name in IN_A_STORE and ONLY_IN.get(name, engine.name) == engine.name:
                yield name, engine.name, partial(IN_A_STORE[name], scale, engine)


def _report(groups: Sequence[Group], described: dict[str, Any], *, is_quick: bool) -> dict[str, Any]:
    return {**described, "quick": is_quick, "figures": [line for group in groups for line in group.as_json()]}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Holdfast on this machine.")
    parser.add_argument(
        "--quick", action="store_true", help="take seconds: shows that it runs, the figures mean little"
    )
    parser.add_argument("--only", action="append", choices=NAMES, help="one measurement; may be repeated")
    parser.add_argument("--store", action="append", choices=STORES, help="one store; both unless told")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write the figures")
    return parser


if __name__ == "__main__":
    sys.exit(main())
