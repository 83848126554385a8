"""Text that can be stored whatever it is about."""

from __future__ import annotations


def clean(text: str) -> str:
    """Text that JSON can hold: a lone surrogate becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shown(value: object) -> str:
    """What a value looks like, even if its `__repr__` does not work."""
    try:
        return clean(repr(value)[:200])
    except Exception:
        return f"<{clean(type(value).__qualname__)}>"
