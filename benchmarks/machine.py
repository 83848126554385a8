"""The machine and its versions, in words that name no host, user or path."""

from __future__ import annotations

import os
import platform
import sqlite3
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import holdfast


def described(postgres: str | None) -> dict[str, Any]:
    """The versions and the machine."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "holdfast": holdfast.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "postgres": postgres,
        "asyncpg": version("asyncpg"),
        "cores": cores(),
        "machine": ", ".join(filter(None, [platform.system(), platform.machine(), _processor(), _memory()])),
    }


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return ""
    return f"{size / 2**30:.0f} GiB"
