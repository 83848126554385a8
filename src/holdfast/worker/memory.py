"""Whether memory is getting tight. As long as it is not, bodies of parked runs are kept."""

from __future__ import annotations

import functools
import os
from pathlib import Path

_SHARE = 0.5
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""The files that tell a container its limit, in the second version of control groups and in the first."""


def is_tight() -> bool:
    """Whether this process uses more than half of the memory that it may have. False where that can't be told."""
    try:
        with open("/proc/self/statm", "rb") as file:
            used = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return used > granted(_LIMITS) * _SHARE
    except (OSError, ValueError, AttributeError):
        return False


@functools.cache
def granted(limits: tuple[Path, ...]) -> int:
    """The machine's memory in bytes, or the limit of this process's container."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in limits:
        try:
            found.append(int(path.read_text()))
        except (OSError, ValueError):
            # There is no such file, or it says "max".
            continue
    return min(found)
