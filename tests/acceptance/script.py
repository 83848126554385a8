"""A script of these tests: `python -m tests.acceptance.script gated errand-1 [argument]`, one call of holdfast.run."""

from __future__ import annotations

import sys

import holdfast
from tests.acceptance import workflows
from tests.acceptance.effects import url

if __name__ == "__main__":
    name, key, *arguments = sys.argv[1:]
    print(holdfast.run(getattr(workflows, name), *map(float, arguments), key=key, url=url()))
