"""What may be written on a terminal: text of anybody's, without anything that would move its cursor. Pure."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text as one line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """The text with its lines left as they are."""
    return "\n".join(printable(line) for line in text.split("\n"))
