"""Memory: what a run costs that waits in a worker, beyond the body's own objects. Measured in child processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from .databases import forget, new_path
from .figures import Figure, at_most
from .scales import Scale
from .sleepers import Growth

ROOT = Path(__file__).parent.parent
METERS = {"resident": "resident memory", "traced": "Python's own allocations"}


def measure(scale: Scale, folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    for kind in ("async", "def"):
        for meter, title in METERS.items():
            found = _grown(folder, kind, meter, scale.sleepers)
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


def _grown(folder: Path, kind: str, meter: str, count: int) -> Growth:
    path = new_path(folder)
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.sleepers", kind, meter, str(count), str(path)],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    forget(path)
    return Growth(**json.loads(child.stdout))
