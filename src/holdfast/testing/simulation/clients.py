"""The applications of a world: they start runs, start them again, cancel them, retry them, and meet the same faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, Literal, Protocol, TypeAlias

from holdfast.client import AsyncClient
from holdfast.codec import Codec
from holdfast.define import Workflow
from holdfast.errors import (
    AlreadyCompensated,
    DefinitionError,
    HookExpired,
    HookNotFound,
    HookUsed,
    KeyTaken,
    NotRetryable,
    RunEnded,
    RunNotFound,
    StoreAway,
)
from holdfast.model import ASKS, ON_CONFLICT, Checkpoint, NewRun, Started, StepAsked

from .forks import Asked, asking
from .laws import Laws
from .loop import VirtualLoop
from .network import FaultyStore, Sender
from .nodes import NAMES, Code
from .oracle import Oracle
from .programs import TRIGGER, Program

_NOBODY = (RunEnded, RunNotFound, HookExpired, HookNotFound, HookUsed)
"""The receiver is not there any more, or not yet."""
EDITABLE = (*NAMES, "book", "undo")
"""The names of steps that return a number, for which a fork may set another one."""
Ask: TypeAlias = Callable[[], Awaitable[Any]]


class Served(Protocol):
    """The world as its clients see it."""

    dice: Random
    loop: VirtualLoop
    oracle: Oracle
    laws: Laws
    codec: Codec
    chaos: float
    lease: float
    old: dict[str, Workflow[Any, Any]]
    codes: dict[Code, dict[str, Workflow[Any, Any]]]
    code: Code
    deploys: Literal["", "patched", "second"]

    def program(self, run: NewRun) -> Program: ...

    def faulty(self, sender: Sender) -> FaultyStore: ...

    @property
    def tokens(self) -> list[str]: ...

    def note(self, said: str) -> None: ...


class _Forgetful(dict[tuple[str, str], float]):
    def __setitem__(self, name: tuple[str, str], seen_at: float) -> None:
        pass


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
        # The client caches this for a second of the host's time, which would make a seed depend on the host's speed.
        self._client._starter._served = _Forgetful()
        self._numbers = 0
        self._retried: set[str] = set()
        self._answered: dict[str, float] = {}
        """By id of a run: when its start was answered; infinity while it is under way."""

    def die(self, why: str) -> None:
        """Clients don't die: no promise is about that."""

    async def run(self) -> None:
        """Make requests until the time of faults is over."""
        dice, world = self._dice, self._world
        until = world.loop.time() + world.chaos
        workflows = list(world.old.values())
        asks: list[Ask] = [partial(self._start, dice.choice(workflows)) for _ in range(dice.choice((2, 3, 5, 8)))]
        if world.deploys:
            # Some of these begin after the code has changed.
            asks += [partial(self._start, dice.choice(workflows)) for _ in range(3)]
        asks += [partial(self._start, one) for one in workflows if one.name == "killer"]
        asks += [self._manage for _ in range(dice.choice((0, 1, 2, 4)))]
        asks += [self._fork for _ in range(dice.choice((0, 0, 1, 2, 4)))]
        asks += [self._pause for _ in range(dice.choice((0, 0, 1, 3)))]
        asks += [self._remove for _ in range(dice.choice((0, 1, 2, 4)))]
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
        dice, world = self._dice, self._world
        self._numbers += 1
        number = self._numbers
        if dice.random() < 0.8:
            # The application is deployed with new code, too, and parts of it later.
            workflow = world.codes[world.code][workflow.name]
        options = workflow.options(
            id=f"id-{number}",
            key=f"key-{dice.randrange(3)}" if dice.random() < 0.3 else None,
            on_conflict=dice.choice(ON_CONFLICT),
            delay=dice.choice((None, None, None, None, None, 0.5, 11.0)),
            deadline=dice.choice((None,) * 8 + (0.3, 4.0, 18.0, 30.0)),
            priority=dice.choice((0, 0, 9)),
        )
        salt = dice.randrange(1000)
        self._answered[f"id-{number}"] = float("inf")

        async def start() -> None:
            # If the answer was lost and the run was swept since, starting it again would begin another run of that
            # name.
            if f"id-{number}" not in world.oracle.gone:
                await self._client.start(options, salt)

        await self._until_answered(start)
        self._answered[f"id-{number}"] = self._world.loop.time()

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
            failed = [
                one
                for one, record in oracle.ended.items()
                if record.status in ("failed", "cancelled") and one not in self._retried
            ]
            if failed:
                run_id = dice.choice(failed)
                self._world.note(f"client retries {oracle.label(run_id)}")
                # Without a key, a second retry makes another run in the same chain.
                self._retried |= {run_id} if oracle.runs[run_id].key is None else set()
                await self._until_answered(lambda: self._client.retry(run_id), is_once=run_id in self._retried)

    async def _fork(self) -> None:
        """Fork a run in any state: at a step, unchanged or with another result, or from its start."""
        dice, world = self._dice, self._world
        runs = [run for run in world.oracle.runs.values() if run.workflow in world.old]
        if not runs:
            return
        run = dice.choice(runs)
        workflow = world.old[run.workflow]
        history = world.laws.journal(run.id).history.entries
        steps = [(n, entry.key) for n, entry in enumerate(history) if isinstance(entry, StepAsked)]
        place, at = dice.choice(steps) if steps and dice.random() < 0.85 else (0, None)
        edits: dict[str, Any] = {}
        asked = Asked(run.id, at)
        before = [entry for entry in history[:place] if not isinstance(entry, ASKS) or isinstance(entry, Checkpoint)]
        if all(isinstance(entry, Started) for entry in before) and dice.random() < 0.4:
            # The body's first asks follow from its input; later asks would not match another input.
            edits["input"] = (dice.randrange(1000),)
            asked.input = world.codec.seal(world.codec.arguments(workflow.fn).check(edits["input"], {}))
        elif at is not None and at.partition(":")[0] in EDITABLE and dice.random() < 0.7:
            edits["result"] = dice.randrange(1000)
            asked.result = world.codec.message(edits["result"], "fork")
        asking.set(asked)
        # A client that gets no answer and asks again gets another fork, so it asks once.
        await self._until_answered(lambda: self._client.fork(run.id, at=at, workflow=workflow, **edits), is_once=True)

    async def _pause(self) -> None:
        """Pause a run, and mostly resume it a little later. The others are resumed when nothing goes wrong any more."""
        dice, oracle = self._dice, self._world.oracle
        live = [one for one in oracle.runs if one not in oracle.ended]
        if not live:
            return
        run_id = dice.choice(live)
        await self._until_answered(lambda: self._client.pause(run_id))
        if dice.random() < 0.7:
            await asyncio.sleep(dice.choice((0.0, 0.05, 1.0, 4.0)))
            await self._until_answered(lambda: self._client.resume(run_id))

    async def _remove(self) -> None:
        """Delete a run; the store leaves a live one alone. A run whose start may still be on its way is spared: it
        would begin again."""
        dice, oracle = self._dice, self._world.oracle
        before = self._world.loop.time() - 2 * self._world.lease - 3.0
        known = [one for one, run in oracle.runs.items() if self._is_settled(run, before)]
        ended = [one for one in known if one in oracle.ended]
        some = ended if ended and dice.random() < 0.8 else known
        if some:
            run_id = dice.choice(some)
            await self._until_answered(lambda: self._client.delete(run_id))

    def _is_settled(self, run: NewRun, before: float) -> bool:
        if run.parent_id is not None or run.id not in self._world.oracle.began_at:
            return True
        return "@event-" in run.id or self._answered.get(run.id, before) < before

    async def _talk(self) -> None:
        """Send a signal, an event or a hook's payload, and now and then the same again."""
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
            ask = partial(self._client.publish, dice.choice(("e", "f", TRIGGER)), payload, message_id=message_id)
        else:
            ask = partial(self._client.resume_hook, dice.choice(world.tokens), payload, message_id=message_id)
        for _ in range(1 if message_id is None else dice.choice((1, 1, 2))):
            # Without a message_id nobody can tell whether it arrived, so it is sent once.
            await self._until_answered(ask, is_once=message_id is None)

    async def feed(self) -> None:
        """When nothing goes wrong any more: send whatever any run may be waiting for, until the world is over.

        A run that has not taken the last signal is sent no other: messages wake runs, and would hide a missing wake-up.
        """
        world = self._world
        answered: set[str] = set()
        # At first runs are woken only by what is due.
        await asyncio.sleep(12.0)
        for run_id in world.oracle.astray:
            await self._until_answered(partial(self._client.cancel, run_id, force=True))
        while True:
            await asyncio.sleep(4.0)
            self._numbers += 1
            for run_id in [one for one in world.oracle.runs if one in world.oracle.paused]:
                await self._until_answered(partial(self._client.resume, run_id))
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
        """Resume a hook; False if it is not there yet, or not any more."""
        try:
            await self._client.resume_hook(token, payload)
        except HookNotFound:
            return False
        except _NOBODY:
            return True
        return True

    async def _until_answered(self, ask: Ask, *, is_once: bool = False) -> None:
        """Ask again as long as no answer comes: a start by its id, a cancel as often as needed."""
        while True:
            try:
                await ask()
                return
            except (KeyTaken, NotRetryable, AlreadyCompensated, DefinitionError, *_NOBODY):
                return
            except StoreAway:
                if is_once:
                    return
                await asyncio.sleep(0.3)
