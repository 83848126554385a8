"""Where a stored exception was raised, for people: its traceback and its causes, without Holdfast's own frames.

It is read from the record, so the exception's class is not needed. Only for showing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from holdfast.codec.codec import Codec
from holdfast.codec.shapes import decode_json

_HEADING = "Traceback (most recent call last):"
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_FRAME = '  File "'
_ROOMS = "cli|client|codec|define|engine|model|observe|store|testing|web|worker"
_OWN = re.compile(rf'  File "[^"]*[/\\]holdfast[/\\](?:(?:{_ROOMS})[/\\][^"]*|blocking|script)\.py"')
_OTHERS = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\]|^<frozen ")
_PLACE = re.compile(r'  File "([^"]+)", line (\d+)')


def readable_traceback(codec: Codec, stored: bytes | None) -> str | None:
    """The text of a stored exception's traceback, its causes first; None if it has none or can't be read."""
    plain = _plain(codec, stored)
    try:
        text = "" if plain is None else "\n".join(_parts(plain))
    except (KeyError, TypeError, AttributeError):
        return None
    return text if _FRAME in text else None


def without_own(text: str) -> str:
    """A traceback's text without Holdfast's own frames. Unchanged if it has no other frames or is no traceback."""
    lines = text.split("\n")
    if lines[0] != _HEADING:
        return text
    # Lines of frames are indented. The message after them may look like anything, so it is not searched.
    end = next((n for n, line in enumerate(lines[1:], 1) if not line.startswith("  ")), len(lines))
    kept: list[str] = []
    is_own = has_others = False
    for line in lines[1:end]:
        if line.startswith(_FRAME):
            is_own = _OWN.match(line) is not None
            has_others = has_others or not is_own
        if not is_own:
            kept.append(line)
    return "\n".join([_HEADING, *kept, *lines[end:]]) if has_others else text


def is_users(path: str) -> bool:
    """Whether a file is the user's own: neither Holdfast's, nor Python's, nor installed."""
    return _OTHERS.search(path) is None and _OWN.match(f'{_FRAME}{path}"') is None


def last_place(text: str) -> str | None:
    """The innermost frame of the user's own code in a traceback's text, as file:line."""
    places = (_PLACE.match(line) for line in reversed(text.split("\n")))
    return next((f"{place[1]}:{place[2]}" for place in places if place is not None and is_users(place[1])), None)


def place_of(codec: Codec, stored: bytes | None) -> str | None:
    """Where in the user's own code a stored exception was raised first, as file:line."""
    plain = _plain(codec, stored)
    try:
        # A step's own traceback is among the notes of the exception that was raised in the body.
        texts = [] if plain is None else [*map(str, plain["notes"]), plain["traceback"]]
    except (KeyError, TypeError):
        return None
    return next((place for text in texts if text.startswith(_HEADING) and (place := last_place(text))), None)


def _plain(codec: Codec, stored: bytes | None) -> Any:
    if not stored:
        return None
    try:
        return decode_json(codec.open(stored))
    except (ValueError, RecursionError):
        return None


def _parts(plain: dict[str, Any]) -> Iterable[str]:
    for name, heading in (("cause", _CAUSE), ("context", _CONTEXT)):
        if plain.get(name) is not None:
            yield from (*_parts(plain[name]), "", heading, "")
            break
    if plain.get("traceback"):
        yield without_own(plain["traceback"])
    # Notes come after it: a step's own traceback is one of them, and its frames are further in.
    yield from (without_own(str(note)) for note in plain.get("notes", ()))
    members = plain.get("members") or ()
    for number, member in enumerate(members, 1):
        yield from ("", f"Exception {number} of {len(members)} in it:", "", *_parts(member))
