"""Settings and their sources, and the place of a SQLite database's file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path

from holdfast.errors import DefinitionError
from holdfast.settings import Settings, settings_file
from holdfast.store import parse_url
from holdfast.web import ApiKey

from .checks import Check, fine, mend, note

MOUNTS = Path("/proc/mounts")
_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.s3fs", "fuse.rclone")
_OURS = frozenset({"HOLDFAST_TRACEBACK"})


def check_settings(environ: Mapping[str, str]) -> Iterator[Check]:
    """The settings file, and HOLDFAST_ variables that nobody reads."""
    file = settings_file()
    told = "none; defaults and environment hold" if file is None else str(file)
    yield fine("settings file", told)
    known = {f"HOLDFAST_{one.name.upper()}" for one in fields(Settings)}
    for name in sorted(environ):
        if name.startswith("HOLDFAST_") and name not in known | _OURS:
            close = get_close_matches(name, known, n=1, cutoff=0.85)
            advice = f"did you mean {close[0]}?" if close else "unset it if it is not another program's"
            yield note("environment", f"{name} is not a setting", advice)


def check_keys(settings: Settings) -> Iterator[Check]:
    """Whether each API key can be parsed. None is shown: it may be a real key in the wrong place."""
    for number, line in enumerate(settings.api_keys, 1):
        try:
            ApiKey.parse(line)
        except DefinitionError as error:
            yield mend("api_keys", f"number {number}: {error}", "`holdfast keys` makes one, and prints its line")


def check_file(url: str, *, mounts: Path = MOUNTS) -> Iterator[Check]:
    """The file of a SQLite database: its file system, and who may read and write it."""
    scheme, path = parse_url(url)
    if scheme != "sqlite" or path == ":memory:":
        return
    place = Path(path).absolute()
    kind = file_system_of(place, mounts)
    if kind is not None and kind.startswith(_NETWORK):
        yield mend(
            "file system",
            f"{place} lies on {kind}, a network file system, where SQLite's locks can't be relied on",
            "put the file on a local disk, or use Postgres",
        )
    elif kind is not None:
        yield fine("file system", kind)
    yield from _rights(place)


def _rights(place: Path) -> Iterator[Check]:
    """Rights of the file and of its folder, where SQLite's other files and the workers' locks are. A place that can't
    be examined is left to the check of the database."""
    with suppress(OSError):
        if place.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH) and os.name == "posix":
            yield note("file rights", f"every user of this machine may read {place}", f"chmod o-rw {place}")
    for one in (place, place.parent):
        if os.path.exists(one) and not os.access(one, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            advice = "let whoever runs workers write there, or name another file"
            yield mend("file rights", f"{one} can't be written by this user", advice)


def file_system_of(place: Path, mounts: Path) -> str | None:
    """The kind of file system that a path is on, if the system tells."""
    try:
        lines = mounts.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    real = os.path.realpath(place)
    best, kind = "", None
    for line in lines:
        words = line.split()
        if len(words) < 3:
            continue
        point = words[1].replace("\\040", " ")
        is_above = real == point or real.startswith(point.rstrip("/") + "/")
        # Of two mounts on one point the later hides the earlier.
        if is_above and len(point) >= len(best):
            best, kind = point, words[2]
    return kind
