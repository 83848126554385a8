"""A client process of these tests: starts one run after another, each with a key, until it is killed.

Started again it repeats the last start, whose answer may have been lost: the key makes sure that there is one run.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import count
from pathlib import Path

from holdfast import Client
from tests.acceptance.effects import folder, url
from tests.acceptance.workflows import MIXED


def started_log(where: Path, first: int) -> Path:
    """The numbers of the starts that were answered."""
    return where / f"started-{first}.log"


def main(first: int, last: int, pause: float) -> None:
    path = started_log(folder(), first)
    done = [int(line) for line in path.read_text().split()] if path.exists() else []
    with Client(url()) as client, path.open("a") as log:
        for number in range(max([*done, first]), last) if last else count(max([*done, first])):
            client.start(MIXED[number % len(MIXED)], number, key=f"run-{number}")
            print(number, file=log, flush=True)
            os.fsync(log.fileno())
            time.sleep(pause)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
