"""pydantic's ValidationError ⇄ plain data. It has no constructor: it is made of what was found, line by line.

Each line keeps its type, its place, its message and, unless the model hides it, its input; what pydantic would say
beyond that (the context, the address of a page) is gone.
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
    """Plain data for what a ValidationError found; None: it is another exception. `lost` is told what is left out."""
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
            [one["type"], list(one["loc"]), one["msg"], None if is_hidden else _input(one["input"])]
            for one in lines[:_MAX_LINES]
        ],
    }


def load_findings(plain: dict[str, Any]) -> BaseException:
    core = sys.modules["pydantic_core"]
    lines = [
        {"type": core.PydanticCustomError(kind, said), "loc": tuple(place), "input": bare.load(given)}
        for kind, place, said, given in plain["lines"]
    ]
    made: BaseException = core.ValidationError.from_exception_data(plain["title"], lines, hide_input=plain["is_hidden"])
    return made


def _input(value: Any) -> Any:
    """The input itself where that is small and can be kept, else what it looks like."""
    try:
        plain = bare.lower(value)
        if len(encode_json(plain)) <= _MAX_INPUT:
            return plain
    except (Misfit, ValueError, OverflowError, RecursionError):
        pass
    return bare.lower(shown(value))
