"""Memory: what a waiting run costs in its worker, beyond the body's own objects. Measured in child processes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from .children import ROOT
from .figures import Figure, at_most
from .scales import Scale
from .sleepers import Growth

METERS = {"resident": "resident memory", "traced": "Python's own allocations"}


def measure(scale: Scale, folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    for kind in ("async", "def"):
        for meter, title in METERS.items():
            found = _grown(folder, kind, meter, scale)
            figures.append(
                Figure(
                    name=f"a waiting run, {kind} body, {title}",
                    value=(found.waiting - found.plain) / 1024,
                    unit="KiB",
                    beside="the suspended body itself",
                    beside_value=found.plain / 1024,
                    target=at_most(6, "KiB"),
                )
            )
    return figures


def _grown(folder: Path, kind: str, meter: str, scale: Scale) -> Growth:
    amounts = [str(scale.sleepers), str(scale.settle)]
    with tempfile.TemporaryDirectory(dir=folder) as home:
        child = subprocess.run(
            [sys.executable, "-m", "benchmarks.sleepers", kind, meter, *amounts, str(Path(home) / "bench.db")],
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return Growth(**json.loads(child.stdout))
