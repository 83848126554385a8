"""A client process of these tests: starts one run after another, each with a key, until it is killed.

Started again it repeats the last start, whose answer may have been lost: the key makes sure that there is one run. It
does the same while the store is away. Asked for `cancels`, every sixth run is one that has to be cancelled, and is.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import count
from pathlib import Path

from holdfast import Client
from holdfast.errors import StoreAway
from tests.acceptance.effects import folder, url
from tests.acceptance.workflows import MIXED, patient


def started_log(where: Path, first: int) -> Path:
    """The numbers of the starts that were answered."""
    return where / f"started-{first}.log"


def start(client: Client, number: int, *, with_cancels: bool) -> None:
    """Start it, however long that takes."""
    kinds = [*MIXED, patient] if with_cancels else MIXED
    chosen = kinds[number % len(kinds)]
    while True:
        try:
            run = client.start(chosen, number, key=f"run-{number}")
            if chosen is patient:
                time.sleep(number % 7 * 0.01)
                run.cancel()
            return
        except StoreAway:
            time.sleep(0.05)


def main(first: int, last: int, pause: float, *options: str) -> None:
    path = started_log(folder(), first)
    done = [int(line) for line in path.read_text().split()] if path.exists() else []
    with Client(url()) as client, path.open("a") as log:
        for number in range(max([*done, first]), last) if last else count(max([*done, first])):
            start(client, number, with_cancels="cancels" in options)
            print(number, file=log, flush=True)
            os.fsync(log.fileno())
            time.sleep(pause)


if __name__ == "__main__":
    while True:
        try:
            main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
            break
        except StoreAway:
            # It was away when the client connected.
            time.sleep(0.05)
