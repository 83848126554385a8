"""Is memory getting tight? Bodies of parked runs are kept while it is not."""

from __future__ import annotations

import os

_SHARE = 0.5


def is_tight() -> bool:
    """Whether this process uses more than half of the machine's memory. False where that can't be told."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = os.sysconf("SC_PHYS_PAGES") * page
        with open("/proc/self/statm", "rb") as file:
            used = int(file.read().split()[1]) * page
    except (OSError, ValueError, AttributeError):
        return False
    return used > total * _SHARE
