"""The environment for tests that are plain functions: each method is one line over the async one.

It needs no thread: time and work only advance inside its calls, so each call runs the event loop until it is done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, Protocol, TypeVar

from holdfast.client import AsyncClient, AsyncRun, Client, Explanation, Run
from holdfast.errors import ClientClosed, HoldfastError, MisplacedCall
from holdfast.model import Duration

from .clock import ManualClock
from .stubs import Call, StepOrName

T = TypeVar("T")


def _refuse_in_loop() -> None:
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise MisplacedCall(
            "a blocking environment was used inside a running event loop; there it is `async with Environment(...)`"
        )


class _Environment(Protocol):
    """The part of Environment that this module uses."""

    clock: ManualClock

    @property
    def client(self) -> AsyncClient: ...

    def calls(self, step: StepOrName) -> list[Call]: ...

    async def skip(self, duration: Duration) -> None: ...

    async def until_waiting(self, run: AsyncRun[Any]) -> Explanation: ...


class RunnerPortal:
    """Runs the blocking client's work: the event loop runs in the calling thread until the work has ended."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._is_ended = False

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            if self._is_ended:
                raise ClientClosed("this environment was left; use its client inside the `with` block")
            _refuse_in_loop()
        except HoldfastError:
            work.close()
            raise
        loop = self._runner.get_loop()
        if loop.is_running():
            # A step in a thread uses the client while the test waits in another call.
            return asyncio.run_coroutine_threadsafe(work, loop).result()
        return self._runner.run(work)

    def close(self, last: Callable[[], Awaitable[None]], *, wait: bool = True) -> None:
        """Do nothing: the client calls this, but the environment ends the portal."""

    def end(self) -> None:
        self._is_ended = True
        self._runner.close()


class _Client(Client):
    def __init__(self, client: AsyncClient, portal: Any) -> None:
        super().__init__(client.store)
        self._client = client
        self._portal = portal


class BlockingEnvironment:
    """The `env` of `with Environment(...) as env:`: as Environment, without `await`."""

    def __init__(self, environment: _Environment, portal: RunnerPortal) -> None:
        self._environment = environment
        self._portal = portal
        self.client: Client = _Client(environment.client, portal)
        self.clock = environment.clock

    @property
    def now(self) -> datetime:
        """The time by the environment's clock."""
        return self.clock.moment

    def calls(self, step: StepOrName) -> list[Call]:
        """As Environment.calls."""
        return self._environment.calls(step)

    def skip(self, duration: Duration) -> None:
        """As Environment.skip."""
        self._portal.call(self._environment.skip(duration))

    def until_waiting(self, run: Run[Any]) -> Explanation:
        """As Environment.until_waiting."""
        return self._portal.call(self._environment.until_waiting(run._run))
