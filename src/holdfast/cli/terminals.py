"""Makes any text safe for a terminal: nothing in it moves the cursor. Pure."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """The text, with its lines kept."""
    return "\n".join(printable(line) for line in text.split("\n"))
