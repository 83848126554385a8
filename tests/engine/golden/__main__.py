"""Write the golden journals anew, on purpose only: `python -m tests.engine.golden`.

A journal in a user's database can't be written anew. If a change makes this necessary, it breaks their runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from holdfast.define import Workflow
from holdfast.model import Entry, encode_entries
from tests.engine.drive import Drive
from tests.engine.golden.orders import OutOfStock, checkout, race, report, sample

HERE = Path(__file__).parent


def checked_out() -> Drive:
    drive = Drive(checkout, sample())
    drive.complete("charge")
    drive.complete("pack:1")
    drive.complete("pack")
    drive.retry_step("reserve", OutOfStock("ink"))
    drive.fail("reserve", OutOfStock("ink"))
    drive.fire()
    return drive


def raced() -> Drive:
    drive = Drive(race, ["a", "b", "c"])
    drive.complete("b", UUID(int=2))
    drive.fire()
    return drive


def reported() -> Drive:
    drive = Drive(report, 2)
    drive.complete("pack")
    drive.complete("pack:1")
    drive.fail("deliver", ConnectionError("no line"))
    drive.complete("pack:2")
    drive.run_again()
    drive.complete("deliver", "ALL")
    drive.cancel()
    drive.complete("pack:2")
    return drive


JOURNALS: dict[str, tuple[Workflow[..., Any], Callable[[], Drive]]] = {
    "checkout": (checkout, checked_out),
    "race": (race, raced),
    "report": (report, reported),
}


def written(drive: Drive) -> dict[str, Any]:
    """A journal as it is kept: the stored bytes, and what they hold, for whoever reads a diff."""
    data = encode_entries([_without_traceback(entry) for entry in drive.entries])
    return {
        "workflow": drive.workflow.name,
        "input": drive.input.hex(),
        "seed": drive.seed.hex(),
        "entries": data.hex(),
        "readable": [readable(entry) for entry in msgspec.msgpack.decode(data)],
    }


def readable(entry: list[Any]) -> list[Any]:
    return [one.decode("utf-8", "backslashreplace") if isinstance(one, bytes) else one for one in entry]


def _without_traceback(entry: Entry) -> Entry:
    """Tracebacks name the machine that the journal was written on."""
    if not getattr(entry, "error", None):
        return entry
    error = json.loads(entry.error)
    return msgspec.structs.replace(entry, error=json.dumps({**error, "traceback": ""}, separators=(",", ":")).encode())


if __name__ == "__main__":
    for name, (_, made) in JOURNALS.items():
        drive = made()
        assert drive.ended, name
        (HERE / f"{name}.json").write_text(json.dumps(written(drive), indent=1, ensure_ascii=False) + "\n", "utf-8")
        drive.close()
