"""The applications of a world: they start runs, start them again, cancel them, retry them, and meet the same faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, Protocol, TypeAlias

from holdfast.client import AsyncClient
from holdfast.codec import Codec
from holdfast.define import Workflow
from holdfast.errors import KeyTaken, NotRetryable, StoreAway
from holdfast.model import ON_CONFLICT

from .loop import VirtualLoop
from .network import FaultyStore, Sender
from .oracle import Oracle

Ask: TypeAlias = Callable[[], Awaitable[Any]]


class Served(Protocol):
    """The world as its clients see it."""

    dice: Random
    loop: VirtualLoop
    oracle: Oracle
    codec: Codec
    chaos: float
    old: dict[str, Workflow[Any, Any]]

    def faulty(self, sender: Sender) -> FaultyStore: ...

    def note(self, said: str) -> None: ...


class Clients:
    """Everything that is asked of a world from outside."""

    name = "client"
    is_mortal = False
    is_alive = True
    is_cut_off = False

    def __init__(self, world: Served) -> None:
        self._world = world
        self._dice = world.dice
        self._client = AsyncClient(world.faulty(self), codec=world.codec)
        self._numbers = 0

    def die(self, why: str) -> None:
        """Clients don't die: nobody would miss them."""

    async def run(self) -> None:
        """Ask for this and that until the time of faults is over."""
        dice, world = self._dice, self._world
        until = world.loop.time() + world.chaos
        workflows = list(world.old.values())
        asks: list[Ask] = [partial(self._start, dice.choice(workflows)) for _ in range(dice.choice((2, 3, 5, 8)))]
        asks += [partial(self._start, one) for one in workflows if one.name == "killer"]
        asks += [self._manage for _ in range(dice.choice((0, 1, 2, 4)))]
        tasks = [world.loop.create_task(self._later(dice.random() ** 2 * world.chaos * 0.9, ask)) for ask in asks]
        await asyncio.wait(tasks)
        for task in tasks:
            task.result()
        await asyncio.sleep(max(until - world.loop.time(), 0.0))

    async def _later(self, delay: float, ask: Ask) -> None:
        await asyncio.sleep(delay)
        await ask()

    async def _start(self, workflow: Workflow[Any, Any]) -> None:
        dice = self._dice
        self._numbers += 1
        number = self._numbers
        options = workflow.options(
            id=f"id-{number}",
            key=f"key-{dice.randrange(3)}" if dice.random() < 0.3 else None,
            on_conflict=dice.choice(ON_CONFLICT),
            delay=dice.choice((None, None, None, None, None, 0.5, 11.0)),
            deadline=dice.choice((None,) * 8 + (0.3, 4.0, 18.0, 30.0)),
            priority=dice.choice((0, 0, 9)),
        )
        salt = dice.randrange(1000)
        await self._until_answered(lambda: self._client.start(options, salt))

    async def _manage(self) -> None:
        dice, oracle = self._dice, self._world.oracle
        if not oracle.runs:
            return
        run_id = dice.choice(list(oracle.runs))
        roll = dice.random()
        if roll < 0.45:
            await self._until_answered(lambda: self._client.cancel(run_id))
        elif roll < 0.6:
            await self._until_answered(lambda: self._client.cancel(run_id, force=True))
        else:
            failed = [one for one, record in oracle.ended.items() if record.status != "completed"]
            if failed:
                run_id = dice.choice(failed)
                self._world.note(f"client retries {oracle.label(run_id)}")
                await self._until_answered(lambda: self._client.retry(run_id))

    async def _until_answered(self, ask: Ask) -> None:
        """A client that hears nothing asks again: a start with its id, a cancel as often as it likes."""
        while True:
            try:
                await ask()
                return
            except (KeyTaken, NotRetryable):
                return
            except StoreAway:
                await asyncio.sleep(0.3)
