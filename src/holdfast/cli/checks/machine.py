"""Python and the packages around it."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator

from holdfast.extras import find_extra
from holdfast.settings import Settings

from .checks import Check, fine, mend, note

OLDEST = (3, 11)
_NEEDED = ("greenlet", "msgspec")
_EXTRAS = {
    "cli": ("typer", "rich"),
    "postgres": ("asyncpg",),
    "web": ("fastapi", "uvicorn"),
    "metrics": ("prometheus_client",),
    "otel": ("opentelemetry.sdk.trace",),
    "compress": ("zstandard",),
    "encrypt": ("cryptography",),
}


def check_machine(settings: Settings) -> Iterator[Check]:
    """Checks that need none of the project's code. The settings decide which extras are needed."""
    version = sys.version_info
    told = f"{version.major}.{version.minor}.{version.micro}"
    if version[:2] < OLDEST:
        yield mend("python", told, f"Holdfast needs {OLDEST[0]}.{OLDEST[1]} or later")
    else:
        yield fine("python", told)
    yield from _packages(settings)


def _packages(settings: Settings) -> Iterator[Check]:
    missing = [name for name in _NEEDED if find_extra(name) is None]
    if missing:
        yield mend("packages", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    else:
        yield fine("packages", ", ".join(f"{name} {_version(name)}" for name in ("holdfast", *_NEEDED)))
    present = [extra for extra, names in _EXTRAS.items() if all(find_extra(name) is not None for name in names)]
    absent = [extra for extra in _EXTRAS if extra not in present]
    needed = {
        "postgres": settings.url.startswith(("postgresql:", "postgres:")),
        "metrics": settings.metrics is not None,
        "otel": settings.tracing,
    }
    for extra in absent:
        if needed.get(extra):
            yield mend("extras", f"the settings need the extra {extra}", f"pip install 'holdfast[{extra}]'")
    told = f"installed: {', '.join(present) or 'none'}" + (f"; not: {', '.join(absent)}" if absent else "")
    yield fine("extras", told)
    if find_extra("uvloop") is not None:
        yield fine("uvloop", _version("uvloop"))
    elif sys.platform != "win32":
        yield note("uvloop", "not installed", "workers on Postgres are faster with it: pip install uvloop")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed as a package)"
