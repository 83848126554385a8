"""What `help` says of blocking methods: the promise of their async twins, for a line that only names one helps nobody.

It is the same text, examples with `await` included: written twice, one of the two would be out of date.
"""

from __future__ import annotations

import inspect


def describe(blocking: type, twin: type) -> None:
    """Put below each "As AsyncClient.start." what that one's docstring says."""
    for name, method in vars(blocking).items():
        said = getattr(method, "__doc__", None) or ""
        if said.startswith(f"As {twin.__name__}.{name}."):
            method.__doc__ = f"{inspect.cleandoc(said)}\n\n{inspect.getdoc(getattr(twin, name))}"
