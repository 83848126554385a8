"""Which files changed, found by polling their times. This needs no package, and a project is small."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env", "build", "dist"})
_SETTINGS = frozenset({"holdfast.toml", "pyproject.toml"})
_MOST = 20_000
"""At most this many files are watched: a working directory may be somebody's home."""

Snapshot = dict[str, tuple[int, int]]


def snapshot(roots: Iterable[Path]) -> Snapshot:
    """Time and size of every Python file and every settings file below these folders."""
    found: Snapshot = {}
    waiting = [str(root) for root in dict.fromkeys(roots)]
    while waiting and len(found) < _MOST:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            # It was removed meanwhile, or may not be read.
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _SKIPPED:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.name.endswith(".py") or entry.name in _SETTINGS:
                try:
                    about = entry.stat()
                except OSError:
                    continue
                found[entry.path] = (about.st_mtime_ns, about.st_size)
    return found


def changed(before: Snapshot, after: Snapshot) -> list[str]:
    """Files that were written, made or removed between the two snapshots."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
