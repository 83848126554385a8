"""Docstrings of blocking methods: those of their async twins, so that `help` says more than the twin's name.

The text is the same, including examples with `await`: of two texts, one would soon be out of date.
"""

from __future__ import annotations

import inspect


def describe(blocking: type, twin: type) -> None:
    """Add to each docstring that says "As AsyncClient.start." the docstring of that method."""
    for name, method in vars(blocking).items():
        said = getattr(method, "__doc__", None) or ""
        if said.startswith(f"As {twin.__name__}.{name}."):
            method.__doc__ = f"{inspect.cleandoc(said)}\n\n{inspect.getdoc(getattr(twin, name))}"
