"""Text about any value, made so that it can always be stored."""

from __future__ import annotations


def clean(text: str) -> str:
    """Text that JSON can hold: lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shown(value: object) -> str:
    """The value's `repr`, cut short; its class's name if `__repr__` raises."""
    try:
        return clean(repr(value)[:200])
    except Exception:
        return f"<{clean(type(value).__qualname__)}>"
