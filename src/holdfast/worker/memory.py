"""Is memory getting tight? Bodies of parked runs are kept while it is not."""

from __future__ import annotations

import functools
import os
from pathlib import Path

_SHARE = 0.5
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""What a container may have, as it sees it itself: by the second version of control groups, and by the first."""


def is_tight() -> bool:
    """Whether this process uses more than half of what it may have. False where that can't be told."""
    try:
        with open("/proc/self/statm", "rb") as file:
            used = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return used > granted(_LIMITS) * _SHARE
    except (OSError, ValueError, AttributeError):
        return False


@functools.cache
def granted(limits: tuple[Path, ...]) -> int:
    """The machine's memory in bytes, or what is left of it to the container that this is in."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in limits:
        try:
            found.append(int(path.read_text()))
        except (OSError, ValueError):
            # There is none, or it says "max".
            continue
    return min(found)
