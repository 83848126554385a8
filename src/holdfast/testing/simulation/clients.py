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
from holdfast.errors import (
    AlreadyCompensated,
    HookExpired,
    HookNotFound,
    HookUsed,
    KeyTaken,
    NotRetryable,
    RunEnded,
    StoreAway,
)
from holdfast.model import ON_CONFLICT, NewRun

from .laws import Laws
from .loop import VirtualLoop
from .network import FaultyStore, Sender
from .oracle import Oracle
from .programs import Program

_NOBODY = (RunEnded, HookExpired, HookNotFound, HookUsed)
"""Nobody is there any more, or yet, to whom it could be sent."""
Ask: TypeAlias = Callable[[], Awaitable[Any]]


class Served(Protocol):
    """The world as its clients see it."""

    dice: Random
    loop: VirtualLoop
    oracle: Oracle
    laws: Laws
    codec: Codec
    chaos: float
    old: dict[str, Workflow[Any, Any]]
    tokens: list[str]

    def program(self, run: NewRun) -> Program: ...

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
        asks += [self._talk for _ in range(dice.choice((0, 4, 10, 20)))]
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
            # The seed of a successor follows from its run's id, which is random if a client's retry made that run.
            failed = [
                one
                for one, record in oracle.ended.items()
                if record.status != "completed" and not self._world.program(oracle.runs[one]).again
            ]
            if failed:
                run_id = dice.choice(failed)
                self._world.note(f"client retries {oracle.label(run_id)}")
                await self._until_answered(lambda: self._client.retry(run_id))

    async def _talk(self) -> None:
        """Send something, to whoever it may concern, and now and then the same again."""
        dice, world = self._dice, self._world
        self._numbers += 1
        payload = f"message {self._numbers}"
        message_id = f"id {self._numbers}" if dice.random() < 0.6 else None
        roll = dice.random()
        ask: Ask
        if roll < 0.6 and world.oracle.runs:
            run_id, name = dice.choice(list(world.oracle.runs)), dice.choice(("a", "b"))
            ask = partial(self._client.signal, run_id, name, payload, message_id=message_id)
        elif roll < 0.8 or not world.tokens:
            ask = partial(self._client.publish, dice.choice(("e", "f")), payload, message_id=message_id)
        else:
            ask = partial(self._client.resume_hook, dice.choice(world.tokens), payload, message_id=message_id)
        for _ in range(1 if message_id is None else dice.choice((1, 1, 2))):
            # Without an id nobody can tell whether it arrived, so it is sent once.
            await self._until_answered(ask, is_once=message_id is None)

    async def feed(self) -> None:
        """When nothing goes wrong any more: send whatever anybody may be waiting for, until the world is over.

        A run that has not taken the last signal is sent no other: messages wake, and would hide what should have.
        """
        world = self._world
        answered: set[str] = set()
        # For a while nobody is woken by anything but what is due.
        await asyncio.sleep(12.0)
        while True:
            await asyncio.sleep(4.0)
            self._numbers += 1
            payload = f"late message {self._numbers}"
            for run_id in [one for one in world.oracle.runs if one not in world.oracle.ended]:
                for name in ("a", "b"):
                    if not world.laws.mail.waiting(run_id, name):
                        await self._until_answered(partial(self._client.signal, run_id, name, f"{payload} {name}"))
            for number, token in enumerate(world.tokens):
                if token not in answered and await self._resume(token, f"{payload} {number}"):
                    answered.add(token)
            for name in ("e", "f"):
                await self._client.publish(name, f"{payload} {name}")

    async def _resume(self, token: str, payload: str) -> bool:
        """Resume a hook; False: it is not there yet, or not any more."""
        try:
            await self._client.resume_hook(token, payload)
        except HookNotFound:
            return False
        except _NOBODY:
            return True
        return True

    async def _until_answered(self, ask: Ask, *, is_once: bool = False) -> None:
        """A client that hears nothing asks again: a start with its id, a cancel as often as it likes."""
        while True:
            try:
                await ask()
                return
            except (KeyTaken, NotRetryable, AlreadyCompensated, *_NOBODY):
                return
            except StoreAway:
                if is_once:
                    return
                await asyncio.sleep(0.3)
