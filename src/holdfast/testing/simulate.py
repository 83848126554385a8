"""Simulate seeds: python -m holdfast.testing.simulate --seeds 500. The exit code is 1 if a seed broke a promise."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from .simulation import run_seed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds asked for and print what broke."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--verbose", action="store_true", help="print every event")
    asked = parser.parse_args(arguments)
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.seeds)
    began = time.perf_counter()
    broken: dict[str, list[int]] = {}
    events = 0
    for seed in seeds:
        report = run_seed(seed, print if asked.verbose else None)
        events += report.events
        if report.law is not None:
            print(report, end="\n\n", flush=True)
            broken.setdefault(report.law, []).append(seed)
    took = time.perf_counter() - began
    print(f"{len(seeds)} seeds, {events} events, {took:.1f}s ({len(seeds) / max(took, 1e-9):.0f} seeds/s)")
    for law, found in sorted(broken.items()):
        print(f"{law} was broken by {len(found)} seeds: {', '.join(map(str, found[:20]))}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
