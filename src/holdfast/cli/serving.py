"""A worker process: find the workflows, register, work until told to stop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

import msgspec

from holdfast.client import AsyncClient
from holdfast.codec import Codec
from holdfast.discovery import Found, discover, find_codec
from holdfast.errors import DefinitionError
from holdfast.observe import Observer
from holdfast.worker import LoopThreads, Worker

from .exits import wrong_settings
from .plan import ServingPlan

_YOUNG = 10_000
"""Python looks for reference cycles once there are this many new objects; its own default is 700."""


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """News: a worker has registered."""

    worker_id: str
    url: str
    """Without a password."""
    workflows: tuple[str, ...]


class Beside(Protocol):
    """What a process does beside running its worker."""

    @property
    def observers(self) -> Sequence[Observer] | None:
        """Observers of the worker and the client; None: those that the settings name."""

    def open(self, plan: ServingPlan, client: AsyncClient) -> AbstractAsyncContextManager[None]:
        """Entered before the worker registers, left after it has left."""


def find(plan: ServingPlan) -> Found:
    """Load what the plan names. This executes the user's modules, so don't call it on an event loop."""
    found = discover(plan.targets, ignore=plan.ignore, directory=plan.directory, home=plan.home)
    if plan.codec is None:
        return found
    with wrong_settings():
        codec = find_codec(plan.codec, directory=plan.directory, home=plan.home)
    if found.codec not in (None, codec):
        raise DefinitionError(f"the setting codec names {plan.codec!r}, and the modules hold another Codec; keep one")
    return replace(found, codec=codec)


async def serve(
    plan: ServingPlan,
    found: Found,
    *,
    ready: Callable[[Ready], None],
    stopped_by: Callable[[Worker], AbstractContextManager[object]],
    beside: Beside | None = None,
) -> None:
    """Work until the worker is stopped. `stopped_by` connects it with whatever may stop it.

    `beside` is what else this process does meanwhile, with the worker's client.
    """
    spare_the_collector()
    asyncio.get_running_loop().set_default_executor(LoopThreads())
    client = AsyncClient(
        plan.url,
        namespace=plan.namespace,
        schema=plan.schema,
        codec=(found.codec or Codec()).limited(None, plan.max_payload),
        migrate=plan.migrate,
        observers=None if beside is None else beside.observers,
    )
    async with AsyncExitStack() as stack:
        # Not entered, for that would open the store: the worker opens it, and waits if it is away.
        stack.push_async_callback(client.close)
        if beside is not None:
            await stack.enter_async_context(beside.open(plan, client))
        worker = Worker(
            client,
            workflows=found.workflows,
            resources=found.resources,
            middleware=found.middleware,
            queues=plan.queues,
            concurrency=plan.concurrency,
            threads=plan.threads,
            lease=_duration(plan.lease),
            grace=_duration(plan.grace),
        )
        worker.is_patient = True
        with stopped_by(worker):
            async with worker:
                if worker.id is not None:
                    names = tuple(dict.fromkeys(one.name for one in found.workflows))
                    ready(Ready(worker_id=worker.id, url=client.url, workflows=names))
                await worker.wait()


def spare_the_collector() -> None:
    """Look for reference cycles less often than Python does: at many runs this takes up to a fifth of a worker's time.

    Everything imported so far is never looked at again. Only for a process of our own: the user's is theirs to tune.
    """
    young, *older = gc.get_threshold()
    if young:  # Zero: somebody has switched the collector off.
        gc.set_threshold(max(young, _YOUNG), *older)
    gc.freeze()


def _duration(given: int | None) -> timedelta | None:
    return None if given is None else timedelta(microseconds=given)
