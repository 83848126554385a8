"""pydantic's ValidationError ⇄ plain data. It has no constructor, so it is rebuilt from its findings, line by line.

Each line keeps its type, place, message and, unless the model hides it, its input. The context and the link to
pydantic's documentation are lost.
"""

from __future__ import annotations

import sys
from typing import Any

from holdfast.codec import bare
from holdfast.codec.printable import shown
from holdfast.codec.shapes import Misfit, encode_json

_MAX_LINES = 100
_MAX_INPUT = 1_000


def lower_findings(error: BaseException, message: str, lost: list[str]) -> dict[str, Any] | None:
    """A ValidationError's findings as plain data; None for any other exception. Adds to `lost` what is left out."""
    core = sys.modules.get("pydantic_core")
    if core is None or type(error) is not core.ValidationError:
        return None
    is_hidden = "input_value=" not in message
    lines = error.errors(include_url=False, include_context=False)  # type: ignore[attr-defined]
    if len(lines) > _MAX_LINES:
        lost.append(f"all but the first {_MAX_LINES} of {len(lines)} lines")
    return {
        "title": error.title,  # type: ignore[attr-defined]
        "is_hidden": is_hidden,
        "lines": [
            [line["type"], list(line["loc"]), line["msg"], None if is_hidden else _input(line["input"])]
            for line in lines[:_MAX_LINES]
        ],
    }


def load_findings(plain: dict[str, Any]) -> BaseException:
    core = sys.modules["pydantic_core"]
    lines = [
        {"type": core.PydanticCustomError(kind, message), "loc": tuple(place), "input": bare.load(given)}
        for kind, place, message, given in plain["lines"]
    ]
    made: BaseException = core.ValidationError.from_exception_data(plain["title"], lines, hide_input=plain["is_hidden"])
    return made


def _input(value: Any) -> Any:
    """The input itself if it is small and can be stored, else its `repr`."""
    try:
        plain = bare.lower(value)
        if len(encode_json(plain)) <= _MAX_INPUT:
            return plain
    except (Misfit, ValueError, OverflowError, RecursionError):
        pass
    return bare.lower(shown(value))
