"""A store with a hook before and after each write, for processes that die or stop at a moment of the test's choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WRITES = ("start_runs", "register_worker", "claim_runs", "commit_turns", "write_rows", "remove_worker")


class Pointed:
    """The store, and `reach("before claim_runs")` and the like around its writes."""

    def __init__(self, store: Any, reach: Callable[[str], None]) -> None:
        self._store = store
        self._reach = reach

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._around(name, found) if name in WRITES else found

    def _around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        async def around(*args: Any, **kwargs: Any) -> Any:
            self._reach(f"before {name}")
            answer = await call(*args, **kwargs)
            self._reach(f"after {name}")
            return answer

        return around
