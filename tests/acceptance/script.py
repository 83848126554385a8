"""A script of these tests: `python -m tests.acceptance.script gated errand-1 [argument]`, one call of holdfast.run.

After `--log` it says what its worker does.
"""

from __future__ import annotations

import logging
import sys

import holdfast
from tests.acceptance import workflows
from tests.acceptance.effects import url

if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "--log":
        logging.basicConfig(level=logging.INFO)
        del words[0]
    name, key, *arguments = words
    print(holdfast.run(getattr(workflows, name), *map(float, arguments), key=key, url=url()))
