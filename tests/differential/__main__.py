"""python -m tests.differential --seeds 500: random operations on SQLite and on Postgres; ends with 1 if they differ."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.differential.fuzz import LENGTH, Difference, Fuzz
from tests.servers import provide


async def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many sequences")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--seed", type=int, help="this one only; a difference is shown with as few operations as will do"
    )
    parser.add_argument("--length", type=int, default=LENGTH, help="operations in a sequence")
    asked = parser.parse_args()
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.seeds)
    server = provide(durable=False)
    began = time.perf_counter()
    done: Counter[str] = Counter()
    differing: list[int] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            fuzz = Fuzz(Path(folder), server.create_database())
            for found in await fuzz.play_all(seeds, asked.length):
                if isinstance(found, Difference):
                    differing.append(found.seed)
                    print(await fuzz.shrink(found) if asked.seed is not None else found, end="\n\n", flush=True)
                else:
                    done.update(operation.name for operation in found)
    finally:
        server.close()
    took = time.perf_counter() - began
    print(f"{len(seeds)} sequences, {sum(done.values())} operations, {took:.0f} s: {len(differing)} differ")
    print(", ".join(f"{name} {number}" for name, number in done.most_common()))
    if differing:
        print(f"seeds that differ: {', '.join(map(str, differing))}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
