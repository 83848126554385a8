"""What happens to a world from outside: stalls, jumping clocks, a store that goes away, a bad deploy and its repair."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Literal, Protocol

from holdfast.define import Workflow
from holdfast.model import Entry, StepAsked

from .bodies import Change, workflow_of
from .faults import Faults
from .laws import Laws
from .loop import VirtualLoop
from .nodes import NAMES, Code, Mapped
from .oracle import Oracle, Trace
from .processes import Process
from .programs import Program


class Troubled(Protocol):
    """What troubles need of the world."""

    dice: Random
    loop: VirtualLoop
    oracle: Oracle
    laws: Laws
    faults: Faults
    lease: float
    chaos: float
    has_change: bool
    deploys: Literal["", "patched", "second"]
    code: Code
    is_changed: bool
    may_start: asyncio.Event
    is_quiet: bool
    store_offset: int
    programs: list[Program]
    processes: list[Process]
    new: dict[str, Workflow[Any, Any]]

    def alive(self) -> list[Process]: ...

    def note(self, said: str) -> None: ...

    def body_begins(self, version: str) -> Trace: ...

    def marks(self) -> frozenset[str] | None: ...

    def child(self, name: str, code: Code) -> Workflow[Any, Any]: ...

    def has_hook(self, hook: Any) -> None: ...

    def label(self, run_id: str) -> str: ...

    def mapped(self, node: Mapped, items: list[int], results: list[Any]) -> None: ...


class Troubles:
    """The troubles of a world. Each is a task of the world's own."""

    def __init__(self, world: Troubled) -> None:
        self._world = world
        self._dice = world.dice

    def all(self) -> list[Coroutine[Any, Any, None]]:
        found = [self._stalls(), self._clocks(), self._outages(), self._cuts()]
        if self._world.has_change:
            return [*found, self._bad_deploy()]
        return [*found, self._good_deploy()] if self._world.deploys else found

    async def end(self) -> None:
        """Let nothing go wrong from here on."""
        world = self._world
        world.is_quiet = True
        world.faults.is_on = False
        world.faults.is_away = False
        for process in world.processes:
            process.spare()
            process.reconnect()
            process.go_on()
        world.may_start.set()
        if world.is_changed:
            await self._deploy(is_changed=False)
        for process in world.alive():
            if process.code != world.code:
                # The process that replaces it knows both versions.
                process.stop()

    async def _pause(self) -> None:
        await asyncio.sleep(self._dice.uniform(0.1, self._world.chaos / 2))

    async def _stalls(self) -> None:
        dice, world = self._dice, self._world
        for _ in range(dice.choice((0, 0, 1, 3))):
            await self._pause()
            awake = [process for process in world.alive() if not process.is_stalled]
            if awake:
                process = dice.choice(awake)
                process.stall(with_pulse=dice.random() < 0.7)
                world.loop.call_later(world.lease * dice.uniform(0.3, 3.0), process.go_on)

    async def _clocks(self) -> None:
        dice, world = self._dice, self._world
        for _ in range(dice.choice((0, 0, 1, 4))):
            await self._pause()
            by = dice.choice((-20_000_000, -1_500_000, -50_000, 50_000, 3_000_000, 20_000_000))
            alive = world.alive()
            if dice.random() < 0.3:
                world.store_offset += by
                world.laws.has_store_jumped = world.laws.has_clock_jumped = True
                world.note(f"the store's clock jumps by {by / 1_000_000}s")
            elif alive:
                process = dice.choice(alive)
                process.clock.jump(by)
                world.laws.has_clock_jumped = True
                world.note(f"{process.name}'s clock jumps by {by / 1_000_000}s")

    async def _outages(self) -> None:
        dice, world = self._dice, self._world
        for _ in range(dice.choice((0, 0, 0, 1, 2))):
            await self._pause()
            world.note("the store goes away")
            world.faults.is_away = True
            await asyncio.sleep(dice.choice((0.3, 2.0, world.lease * 1.5)))
            world.faults.is_away = False
            world.note("the store is back")

    async def _cuts(self) -> None:
        """Cut a process off from the store while others reach it: its lease lapses, and it goes on working."""
        dice, world = self._dice, self._world
        for _ in range(dice.choice((0, 1, 2, 3))):
            await self._pause()
            alive = world.alive()
            if alive:
                process = dice.choice(alive)
                process.is_cut_off = True
                world.note(f"{process.name} is cut off")
                world.loop.call_later(world.lease * dice.uniform(0.5, 4.0), process.reconnect)

    async def _bad_deploy(self) -> None:
        """P10: half-way, the code changes under the runs that have begun."""
        await asyncio.sleep(self._world.chaos * self._dice.uniform(0.15, 0.4))
        await self._deploy(is_changed=True)

    async def _good_deploy(self) -> None:
        """Half-way, the code changes as it should: under live runs, all at once, or as another version, one process at
        a time."""
        dice, world = self._dice, self._world
        await asyncio.sleep(world.chaos * dice.uniform(0.15, 0.5))
        if world.deploys == "patched":
            world.note("--- the patched code is deployed")
            await self._replace(lambda: setattr(world, "code", world.deploys))
            return
        world.note("--- the second version is deployed")
        world.code = "second"
        for process in world.alive():
            process.stop()
            await asyncio.sleep(dice.choice((0.1, 1.0, 4.0)))

    async def _deploy(self, *, is_changed: bool) -> None:
        world = self._world

        def change() -> None:
            if is_changed:
                self._freeze()
            world.is_changed = is_changed

        world.note(f"--- {'the bad code' if is_changed else 'the good code'} is deployed")
        await self._replace(change)

    async def _replace(self, change: Callable[[], None]) -> None:
        """End all processes, change what others will be, and let those begin."""
        dice, world = self._dice, self._world
        world.may_start.clear()
        for process in world.alive():
            process.go_on()
            if dice.random() < 0.5:
                process.die("in a deploy")
            else:
                process.stop()
        # By then the grace period is over, and most runs were handed back.
        await asyncio.sleep(self._dice.choice((0.5, 4.0)))
        for process in world.alive():
            process.die("since it would not stop")
        change()
        world.may_start.set()

    def _freeze(self) -> None:
        """Note the runs that the new code does not match: those whose journals hold a step that it changes."""
        world = self._world
        frozen = frozenset(
            run_id
            for run_id, journal in world.oracle.journals.items()
            if run_id not in world.oracle.ended
            and world.oracle.runs[run_id].workflow != "machine"
            and any(_changes(one) for one in journal.history.entries)
        )
        world.laws.frozen = frozen
        change = Change(self._dice.choice(("renamed", "arguments", "dropped")), frozen)
        world.note(f"{len(frozen)} runs don't match it: {change.how}")
        for program in world.programs:
            world.new[program.name] = workflow_of(program, world, change)


def _changes(entry: Entry) -> bool:
    """Whether the changed code asks for something else in the place of this entry."""
    return isinstance(entry, StepAsked) and entry.key.partition(":")[0] in NAMES
