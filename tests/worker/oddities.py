"""Exceptions of which next to nothing can be read."""

from __future__ import annotations

from typing import Any


class Masked(Exception):
    @property
    def __class__(self) -> Any:
        raise RuntimeError("nobody's class")


class Sealed(BaseException):
    """None of its attributes can be read."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("closed")
