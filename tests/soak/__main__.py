"""make soak MINUTES=20 STORE=postgres: trouble for as long as asked. Ends with 1 if anything was found.

`python -m tests.soak --minutes 20 --store sqlite --workers 3 --seed 7`. `--store pooled` is Postgres behind a PgBouncer
in transaction mode, which is restarted, too.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.acceptance.stage import Stage
from tests.servers import PgBouncer, Postgres
from tests.soak.trouble import Trouble


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long trouble is made")
    parser.add_argument("--store", choices=["postgres", "pooled", "sqlite"], default="postgres")
    parser.add_argument("--workers", type=int, default=3, help="worker processes")
    parser.add_argument("--seed", type=int, default=None, help="throw the same dice; what the machine does differs")
    asked = parser.parse_args()
    seed = random.randrange(1_000_000) if asked.seed is None else asked.seed
    print(f"{asked.minutes:g} minutes on {asked.store}, {asked.workers} workers, seed {seed}", flush=True)
    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-soak-")))
        server = stack.enter_context(Postgres()) if asked.store != "sqlite" else None
        pooler = stack.enter_context(PgBouncer(server.url)) if server and asked.store == "pooled" else None
        url = server.create_database() if server else None
        stage = Stage(folder, f"{pooler.url_for(url)}?pooler=transaction" if pooler and url else url)
        stack.callback(stage.close)
        say = lambda text: print(text, flush=True)  # noqa: E731
        trouble = Trouble(stage, random.Random(seed), asked.workers, server, pooler, say=say)
        trouble.make(asked.minutes * 60)
        trouble.check()
    print(f"done in {time.monotonic() - began:.0f} s: " + ", ".join(f"{n} {what}" for what, n in trouble.done.items()))
    if trouble.found:
        print(f"FOUND {len(trouble.found)} violations:")
        for wrong in trouble.found[:50]:
            print(f"- {wrong}")
        return 1
    print("found nothing wrong: every run ended, no recorded step ran again, no effect is missing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
