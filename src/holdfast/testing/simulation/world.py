"""One seed: a store, workers, clients and programs; a time of faults, then a time of quiet, then the laws."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Literal

import msgspec

from holdfast.codec import Codec
from holdfast.define import CHUNK_RUNS, Workflow, current_run, current_scope
from holdfast.engine import Execution
from holdfast.model import JournalRow, NewRun
from holdfast.store import SqliteStore

from .bodies import workflow_of
from .clients import Clients
from .drives import Drive, keep_driving
from .endings import check_after
from .faults import Faults, Rates
from .forks import asking, reseeded
from .laws import Laws
from .loans import Books
from .loop import Domain, Spinning, Stuck, VirtualLoop
from .maps import check_map
from .network import FaultyStore, Sender, done
from .nodes import Code, Errand, Mapped
from .oracle import LawBroken, Oracle, Trace
from .processes import Hand, Process
from .programs import CHUNK, Author, Program
from .quiet import Quiet
from .replays import Replays
from .troubles import Troubles

EPOCH = 1_800_000_000_000_000
"""When virtual worlds begin."""
_STUMBLES = 3


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int, listener: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.dice = dice = Random(seed)
        self.loop = VirtualLoop()  # type: ignore[abstract]  # the rest of a loop is not for simulations
        self.oracle = Oracle(lambda: self.loop.microseconds, self.loop.halt)
        self.oracle.listener = listener
        self.oracle.stumbles = self._stumbles
        self._stumbling = Random(f"{seed} stumbling")
        self._stumbled: Counter[str] = Counter()
        self._surefootedness = self._stumbling.choice((0.5, 0.9, 1.0))
        self.codec = Codec()
        self.lease = dice.choice((1.5, 3.0, 6.0))
        self.chaos = dice.choice((8.0, 15.0, 30.0))
        """For how many seconds there are faults."""
        self.has_change = dice.random() < 0.2
        has_killer = dice.random() < 0.2
        self.deploys: Literal["", "patched", "second"] = ""
        """The code that replaces the first half-way, if there is no bad deploy: it asks `patched`, or is another
        version."""
        deploying = Random(f"{seed} deploying")
        if not self.has_change and deploying.random() < 0.45:
            self.deploys = deploying.choice(("patched", "second"))
        self.code: Code = "first"
        """The code of processes that begin now."""
        author = Author(dice, has_patches=bool(self.deploys))
        self.programs: list[Program] = []
        for number in range(dice.choice((1, 2, 2, 3))):
            called = tuple(program.name for program in self.programs)
            self.programs.append(author.program(f"w{number}", children=called))
        if dice.random() < 0.35:
            self.programs.append(author.machine("machine"))
        if has_killer:
            self.programs.append(author.program("killer", is_killer=True))
        self._hooks: list[Any] = []
        """In the order in which bodies have made them."""
        self.errands: dict[int, Errand] = {}
        for program in self.programs:
            self.errands |= program.errands
        self.faults = Faults(dice, Rates.drawn(dice), self.lease)
        self.faults.deaths = dice.choice((0, 1, 3, 6))
        self.store_offset = 0
        self.store = SqliteStore(":memory:", "sqlite:///:memory:", "default", inline=True, clock=self.store_now)
        self._driving = Random(f"{seed} driving")
        self.is_driven = self._driving.random() < 0.3
        """Whether there are drives."""
        self.has_workers = not self.is_driven or self._driving.random() < 0.6
        self.is_exclusive = dice.random() < 0.5
        """Whether a transactional step keeps its run's other turns waiting."""
        self.books = Books(self.store)
        self._remade = 0
        self.replays = Replays(self.oracle, self.codec, dice)
        self.laws = Laws(self.oracle, self.store, self.do, self.replays, self.store_now)
        self.old = {program.name: workflow_of(program, self) for program in self.programs}
        self.new: dict[str, Workflow[Any, Any]] = {}
        self.codes: dict[Code, dict[str, Workflow[Any, Any]]] = {"first": self.old}
        if self.deploys:
            self.codes[self.deploys] = {one.name: workflow_of(one, self, code=self.deploys) for one in self.programs}
        self.laws.workflows = {**self.old, CHUNK.name: CHUNK_RUNS}
        self.replays.codes = {code: {**known, CHUNK.name: CHUNK_RUNS} for code, known in self.codes.items()}
        self.is_changed = False
        self.may_start = asyncio.Event()
        """Cleared while a deploy is under way."""
        self.may_start.set()
        self.processes: list[Process] = []
        self.bodies: list[Execution] = []
        """Every body that a worker began, kept here so that the collector never ends one."""
        self.is_over = False
        self.is_quiet = False

    def store_now(self) -> int:
        return EPOCH + self.loop.microseconds + self.store_offset

    def do(self, call: Callable[[], Awaitable[Any]]) -> Any:
        return done(self.loop, call)

    def faulty(self, sender: Sender) -> FaultyStore:
        return FaultyStore(
            self.store, self.loop, self.faults, self, sender, self.store_now, is_exclusive=self.is_exclusive
        )

    def note(self, said: str) -> None:
        self.oracle.note(said)

    def told(self, sender: Sender, method: str, asked: Any, answer: Any) -> None:
        self.laws.told(sender, method, asked, answer)

    def heard(self, sender: Sender, method: str, asked: Any, answer: asyncio.Future[Any]) -> None:
        self.laws.heard(sender, method, asked, answer)

    def seeded(self, run: NewRun) -> NewRun:
        if run.forked_from is not None:
            # A retry or a fork gets a random id from the client, from which much else would follow.
            self._remade += 1
            run = msgspec.structs.replace(run, id=f"again-{self._remade}")
            self.laws.forks.is_asked(run)
        source = () if run.forked_from is None else self.laws.journal(run.forked_from).entries
        return reseeded(run, Random(f"{self.seed} {self.oracle.label(run.id)}").randbytes(16), source)

    def arrives(self, method: str, asked: Any) -> None:
        if method == "start_runs":
            self.laws.forks.arrives(asked)

    def is_outlived(self, method: str, asked: Any) -> bool:
        return method == "start_runs" and any(run.id in self.oracle.gone for run in asked)

    def has_read(self, run_id: str, rows: Sequence[JournalRow]) -> None:
        fork = asking.get()
        if fork is not None:
            fork.rows = rows

    def body_begins(self, version: str) -> Trace:
        """A body has begun: in a worker, or in our own replays."""
        info = current_run()
        began_with = self.oracle.runs[info.own_id].version
        if began_with != version:
            name = self.oracle.label(info.own_id)
            self.oracle.report("versions", f"{name} has version {began_with}, and is executed by code of {version}")
        hand = None if self.replays.is_under_way else self._hand_of(self.loop.current)
        # What non-matching code sees does not count: it is stopped.
        is_astray = hand is not None and hand.process.is_changed and info.own_id in self.laws.frozen
        number = 1
        if hand is not None:
            number = self.laws.journal(info.own_id).tries(hand.session.runs.held[info.own_id].seq)
            self.bodies.append(current_scope.get())
        trace = Trace(self.oracle, info.own_id, number, current_scope.get(), is_ours=hand is None or is_astray)
        if hand is None:
            self.replays.trace = trace
        elif not is_astray:
            hand.traces[info.own_id] = trace
        return trace

    def marks(self) -> frozenset[str] | None:
        return self.replays.marks if self.replays.is_under_way else None

    def child(self, name: str, code: Code) -> Workflow[Any, Any]:
        return self.codes[code][name]

    def has_hook(self, hook: Any) -> None:
        if not self.is_over:
            self._hooks.append(hook)

    @property
    def tokens(self) -> list[str]:
        """The tokens of all hooks."""
        return list(dict.fromkeys(hook.token for hook in self._hooks))

    def label(self, run_id: str) -> str:
        return self.oracle.label(run_id)

    def mapped(self, node: Mapped, items: list[int], results: list[Any]) -> None:
        check_map(self, node, items, results)

    def _stumbles(self, run_id: str) -> bool:
        if self.is_quiet or self._stumbled[run_id] == _STUMBLES or self._stumbling.random() < self._surefootedness:
            return False
        self._stumbled[run_id] += 1
        self.note(f"{self.oracle.label(run_id)} stumbles")
        return True

    def _hand_of(self, domain: Domain) -> Hand | None:
        for process in reversed(self.processes):
            if process.owns(domain):
                return process.hands[-1]
        return None

    def run(self) -> None:
        """Run from the beginning to the end. Raises LawBroken if a promise was not kept."""
        state = random.getstate()
        # The jitter of retries comes from Python's own random numbers, which belong to this seed meanwhile.
        random.seed(self.seed)
        try:
            self.loop.run(self._run())
        except Spinning as error:
            self.oracle.report("P6", f"a worker spins: {error}")
        except Stuck as error:
            self.oracle.report("P6", f"everything stands still for ever: {error}")
        except LawBroken:
            pass  # It is raised below, when everything is put away.
        except Exception as error:
            self.oracle.failed(error)
        finally:
            self._put_away()
            random.setstate(state)
        if self.oracle.broken is not None:
            raise self.oracle.broken

    def _put_away(self) -> None:
        """End everything, so that nothing is left to the collector, whose moment nobody chooses."""
        self.oracle.is_muted = True
        for process in self.processes:
            process.die("with the world")
        last = [*(process.put_away for process in self.processes), self.replays.close]
        self.loop.finish(last, self.store.close())
        self.oracle.is_muted = False
        for body in self.bodies:
            if body.main is not None:
                body.put_away()
                self.oracle.report("P9", f"a body of {self.oracle.label(body.run.own_id)} was left to the collector")

    async def _run(self) -> None:
        await self.store.open()
        self.books.open()
        clients = Clients(self)
        troubles = Troubles(self)
        slots = self.dice.choice((1, 2, 2, 3))
        drivers = [self.loop.create_task(self._serve(slot)) for slot in range(slots if self.has_workers else 0)]
        if self.is_driven:
            drivers.append(self.loop.create_task(keep_driving(self, self._driving)))
        under_way = [self.loop.create_task(one) for one in troubles.all()]
        await clients.run()
        for one in under_way:
            one.cancel()
        await asyncio.sleep(0)
        self.note("--- quiet")
        await troubles.end()
        quiet = Quiet(self)
        fed = self.loop.create_task(clients.feed())
        await quiet.wait_for_ends()
        fed.cancel()
        self.replays.punctual_from = quiet.punctual_from
        self.is_over = True
        for driver in drivers:
            driver.cancel()
        check_after(self)

    def program(self, run: NewRun) -> Program:
        return next((program for program in self.programs if program.name == run.workflow), CHUNK)

    async def _serve(self, slot: int) -> None:
        """Keep a process running in this slot: when one is gone, another follows."""
        number = 0
        while not self.is_over:
            await self.may_start.wait()
            number += 1
            process = self._spawn(f"p{slot + 1}.{number}")
            await process.gone
            await asyncio.sleep(self.dice.choice((0.0, 0.2, 2.0)))

    def _spawn(self, name: str) -> Process:
        dice = self.dice
        process = Process(*self._surroundings(name, dice), is_changed=self.is_changed)
        dies_at = None
        if not self.is_quiet and self.faults.deaths > 0 and dice.random() < 0.5:
            self.faults.deaths -= 1
            dies_at = dice.choice((30, 100, 300, 1000)) + dice.randrange(100)
        self._start(process, dies_at)
        if not self.is_quiet and dice.random() < 0.3:
            self.loop.call_later(dice.uniform(0.1, self.chaos), process.stop)
        return process

    def spawn_drive(self, name: str, dice: Random, run_id: str | None, budget: float) -> None:
        """A process that drives once."""
        surroundings = self._surroundings(name, dice)
        process = Drive(*surroundings, is_changed=self.is_changed, run_id=run_id, budget=budget, judge=self.laws)
        is_doomed = not self.is_quiet and dice.random() < 0.15
        self._start(process, 20 + dice.randrange(200) if is_doomed else None)

    def _surroundings(self, name: str, dice: Random) -> tuple[Any, ...]:
        """The arguments that every process of the world is made with."""
        code = self.new if self.is_changed else self.codes[self.code]
        # Another version is served beside the first one; code that asks `patched` replaces it.
        both = (*self.old.values(), *code.values(), CHUNK_RUNS)
        known = {(one.name, one.version): one for one in both}
        return (
            name,
            self.loop,
            self.oracle,
            self.laws,
            self._buried,
            self.faulty,
            known,
            self.errands,
            self.codec,
            dice,
            self.lease,
            self.code,
        )

    def _start(self, process: Process, dies_at: int | None) -> None:
        self.processes.append(process)
        process.start(dies_at=dies_at)

    def _buried(self, process: Process) -> None:
        """A process has died. On one host its lock is released with it, and others may see that at once."""
        if self.dice.random() < 0.5:
            for hand in process.hands:
                self.loop.call_later(
                    self.dice.choice((0.0, 0.3)),
                    self.store.renew_lease,
                    hand.worker_id,
                    -1,
                    context=self.loop.neutral.copy(),
                )

    def alive(self) -> list[Process]:
        return [process for process in self.processes if process.is_alive]
