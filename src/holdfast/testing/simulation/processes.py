"""A worker's process: its sessions, its renewals, and its death, which may come at any await."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from random import Random
from typing import Any, Protocol

import holdfast
from holdfast.codec import Codec
from holdfast.define import Context, StepInfo, Workflow
from holdfast.errors import HoldfastError, StoreAway
from holdfast.model import Lane
from holdfast.worker import Plan, Session

from .clocks import SimClock
from .loans import BOOK
from .loop import Domain, VirtualLoop, domain_of
from .network import FaultyStore
from .nodes import Code, Errand
from .oracle import Oracle, Trace
from .steps import Flaky, failure, hands

LEAST_RENEWAL_PAUSE = 0.2


class Laws(Protocol):
    """What a process tells the laws."""

    def begins(self, hand: Hand, step: StepInfo) -> None: ...

    def kills(self, step: StepInfo) -> None: ...

    def enters(self, step: StepInfo, context: Context) -> None: ...


class Hand:
    """One session's access to the world: its steps do their errands here."""

    def __init__(
        self, process: Process, session: Session, errands: dict[int, Errand], laws: Laws, codec: Codec
    ) -> None:
        self.process = process
        self._codec = codec
        self.session = session
        self.traces: dict[str, Trace] = {}
        """What the bodies in this session's memory have seen, by run."""
        self._errands = errands
        self._laws = laws
        self._chunks: dict[tuple[str, str], tuple[StepInfo, int]] = {}
        """By run and key of a chunk: the attempt under way, and the number of that execution."""
        self._tries: dict[tuple[int, int], int] = {}
        """By execution and item: how often the item was tried."""

    @property
    def worker_id(self) -> str:
        return self.session.worker_id

    def judging(self) -> AbstractContextManager[None]:
        """Wraps what an errand does: it may only fail as errands do, or because of the lease."""
        return self.process.oracle.judging(Flaky, ValueError, HoldfastError)

    async def work(self, step: StepInfo, number: int, value: int) -> int:
        """Do an errand, and tell the world."""
        process, oracle, errand = self.process, self.process.oracle, self._errands[number]
        name = f"{self.worker_id} {oracle.label(step.run_id)}/{step.key} attempt {step.attempt}"
        oracle.note(f"{name} begins")
        self._laws.begins(self, step)
        if errand.name == "undo":
            oracle.undone[step.run_id, step.key] = number
        execution = oracle.new_execution()
        sent: list[bytes] = []
        try:
            await asyncio.sleep(errand.duration(step.attempt) / 2)
            if errand.beats:
                step.heartbeat()
            for item in range(errand.emits):
                holdfast.set_value("e", execution)
                holdfast.emit("e", [execution, item])
                sent.append(self._codec.message([execution, item], "emit"))
            await asyncio.sleep(errand.duration(step.attempt) / 2)
        except asyncio.CancelledError:
            if errand.linger:
                await asyncio.sleep(errand.linger)
            oracle.note(f"{name} is cancelled")
            raise
        if errand.is_killer:
            self._laws.kills(step)
            process.die("killed by its step")
            await process.loop.create_future()
        if step.attempt <= errand.fails:
            oracle.note(f"{name} fails")
            raise failure(errand, step.attempt)
        result = (value * 31 + number * 1009 + execution * 7919) % 1_000_003
        oracle.returned(step.idempotency_key, step.attempt, result)
        if sent:
            oracle.emitted[step.idempotency_key, step.attempt, self._codec.value(int).encode(result)] = sent
        oracle.note(f"{name} returns {result}")
        return result

    async def item(self, step: StepInfo, number: int, value: int) -> int:
        """One item of a map. Its result says which item it was, and in which execution of its chunk."""
        oracle, errand = self.process.oracle, self._errands[number]
        place = step.run_id, step.key
        known = self._chunks.get(place)
        if known is None or known[0] is not step.whole:
            oracle.note(f"{self.worker_id} {oracle.label(step.run_id)}/{step.key} begins a chunk")
            self._laws.begins(self, step.whole)
            known = self._chunks[place] = step.whole, oracle.new_execution()
        journal = oracle.journals[step.run_id]
        tries = journal.tries(len(journal.rows))
        oracle.charged(step.run_id, tries, self.process.code, step.idempotency_key, value)
        attempt = self._tries[known[1], value] = self._tries.get((known[1], value), 0) + 1
        await asyncio.sleep(errand.duration(attempt))
        if attempt <= errand.fails and value % 3 == 0:
            raise failure(errand, attempt)
        return value * 100_000 + known[1]

    async def state(self, step: StepInfo, number: int, context: Context) -> int:
        """One state of a machine: it finds what the last state has committed, and nothing else."""
        oracle, errand = self.process.oracle, self._errands[number]
        name = f"{self.worker_id} {oracle.label(step.run_id)}/{step.key} attempt {step.attempt}"
        oracle.note(f"{name} begins")
        self._laws.begins(self, step)
        self._laws.enters(step, context)
        count = int(context.get("count", 0)) + 1
        # If this attempt fails, or its result is lost, the next one must see nothing of this.
        context["try"] = oracle.new_execution()
        context["count"] = count
        await asyncio.sleep(errand.duration(step.attempt))
        if step.attempt <= errand.fails:
            raise Flaky(f"state {count}, attempt {step.attempt}")
        return count

    def book(self, step: StepInfo, number: int, value: int, connection: Any) -> int:
        """A transactional step: it writes the number of its execution."""
        oracle, errand = self.process.oracle, self._errands[number]
        oracle.note(f"{self.worker_id} {oracle.label(step.run_id)}/{step.key} attempt {step.attempt} books")
        self._laws.begins(self, step)
        execution = oracle.new_execution()
        connection.execute(BOOK, (step.run_id, step.key, execution))
        if step.attempt <= errand.fails:
            raise failure(errand, step.attempt)
        result = (value * 31 + execution * 7919) % 1_000_003
        oracle.returned(step.idempotency_key, step.attempt, result)
        oracle.bookings[step.run_id, step.key, self._codec.value(int).encode(result)] = execution
        return result


class Process:
    """One process: it registers, serves, registers again when its lease is lost, and goes."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        oracle: Oracle,
        laws: Laws,
        buried: Callable[[Process], None],
        store: Callable[[Process], FaultyStore],
        workflows: dict[tuple[str, str], Workflow[Any, Any]],
        errands: dict[int, Errand],
        codec: Codec,
        dice: Random,
        lease: float,
        code: Code,
        *,
        is_changed: bool,
    ) -> None:
        self.name = name
        self.is_mortal = True
        self.is_passing = False
        """It goes by itself, as a drive does."""
        self.is_cut_off = False
        """It can't reach the store."""
        self.loop = loop
        self.oracle = oracle
        self.code = code
        self.is_changed = is_changed
        """It runs the code of the bad deploy."""
        self.store = store(self)
        self.hands: list[Hand] = []
        self.gone: asyncio.Future[None] = loop.create_future()
        self.refused: dict[str, int] = {}
        """By run: the epoch of a turn of which it learned that it was refused."""
        self._stops_well = self.left_well = False
        """Whether it stopped in good order, without any fault in its way."""
        self.went_on_at = -1
        """When its last stall ended."""
        self._laws = laws
        self._buried = buried
        self._errands = errands
        self._main, self._pulse = Domain(name), Domain(f"{name} pulse")
        self._main.died = lambda: self.die("at an await")
        self._contexts = {domain: _context(loop, domain) for domain in (self._main, self._pulse)}
        offset = dice.randrange(10**9)
        self.clock = SimClock(loop, offset, self._contexts[self._main])
        self._stopping = asyncio.Event()
        self._plan = Plan(
            store=self.store,
            codec=codec,
            clock=self.clock,
            workflows=workflows,
            lanes=tuple(Lane(*one) for one in workflows),
            concurrency=dice.choice((1, 3, 20, 50)),
            threads=1,
            lease=round(lease * 1_000_000),
            grace=dice.choice((0, 300_000, 3_000_000)),
            stall=300_000_000,
            blocked_after=1_000_000,
            keep_parked=dice.choice((0, 1, 1000)),
            middleware=(),
            # From dice of its own, so that known seeds stay the same worlds.
            ahead=Random(f"{offset} ahead").choice((0, 200_000, 2_000_000)),
            replay_each_turn=dice.random() < 0.25,
        )

    @property
    def is_alive(self) -> bool:
        return not self._main.is_dead

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def is_stalled(self) -> bool:
        return self._main.is_stalled

    @property
    def is_serving(self) -> bool:
        """Whether it has registered, and its lease holds."""
        return bool(self.hands) and hasattr(self.hands[-1].session, "runs") and self.hands[-1].session.lease.holds()

    @property
    def workflows(self) -> Mapping[tuple[str, str], Workflow[Any, Any]]:
        """The workflows that it knows, by name and version."""
        return self._plan.workflows

    @property
    def concurrency(self) -> int:
        return self._plan.concurrency

    def start(self, *, dies_at: int | None) -> None:
        self._main.dies_at = dies_at
        self.loop.create_task(self._run(), context=self._contexts[self._main].copy())

    def stop(self) -> None:
        """Ask it to stop in good order, as SIGTERM does."""
        if self.is_alive and not self._stopping.is_set():
            self.oracle.note(f"{self.name} is asked to stop")
            self._stops_well = self.store.is_sound and self.is_serving and not self.is_stalled
            self.loop.call_soon(self._stopping.set, context=self._contexts[self._main].copy())

    def die(self, why: str) -> None:
        """End at once: from here on nothing of it runs, whatever it was about to do."""
        if self.is_alive:
            self.oracle.note(f"{self.name} dies {why}")
            self._main.is_dead = self._pulse.is_dead = True
            self._main.is_killed = self._pulse.is_killed = True
            self._leave()
            self._buried(self)

    def reconnect(self) -> None:
        """It reaches the store again."""
        if self.is_cut_off and self.is_alive:
            self.oracle.note(f"{self.name} is no longer cut off")
        self.is_cut_off = False

    def spare(self) -> None:
        """Cancel its planned death."""
        self._main.dies_at = None

    def owns(self, domain: Domain) -> bool:
        return domain is self._main

    def stall(self, *, with_pulse: bool) -> None:
        """Nothing of it runs until `go_on`: it is stopped by the system, or only its loop is blocked, if its pulse goes
        on."""
        self.oracle.note(f"{self.name} stalls{'' if with_pulse else ', but for its pulse'}")
        self._main.is_stalled = True
        self._pulse.is_stalled = with_pulse

    def go_on(self) -> None:
        if self.is_stalled and self.is_alive:
            self.oracle.note(f"{self.name} goes on")
            self.went_on_at = self.loop.microseconds
            for domain in (self._pulse, self._main):
                self.loop.go_on(domain)

    def put_away(self) -> None:
        """At the world's end, end its bodies in order, so that none is left to the collector."""
        for hand in self.hands:
            if hasattr(hand.session, "runs"):
                hand.session.leave()

    def _leave(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    async def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                await self._serve()
            self.oracle.note(f"{self.name} has stopped")
            self.left_well = self._stops_well
        except StoreAway:
            self.oracle.note(f"{self.name} can't register and gives up")
        self._end()

    async def _serve(self) -> None:
        session = await self._registered(Session)
        session.start(with_pulse=False)
        self._live(session)
        waits = [self.loop.create_task(one.wait()) for one in (self._stopping, session.ended)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()
        await session.stop()

    async def _registered(self, kind: type[Session]) -> Session:
        """A session that is registered."""
        resources: dict[object, Any] = {}
        session = kind(self._plan, resources, self._stopping.set)
        session.worker_id = f"{self.name}.{len(self.hands) + 1}"
        hand = resources[hands] = Hand(self, session, self._errands, self._laws, self._plan.codec)
        self.hands.append(hand)
        await session.register()
        # A `def` step is called directly: there are no threads here.
        session.runs.attempts._threads.call = _at_once  # type: ignore[method-assign]
        # Python's own random numbers, which belong to this seed while its world runs: see World.run.
        session.runs.attempts.dice = random.random
        self.oracle.note(f"{session.worker_id} has registered")
        return session

    def _live(self, session: Session) -> None:
        """Begin its pulse."""
        self.loop.create_task(self._beat(session), context=self._contexts[self._pulse].copy())

    def _end(self) -> None:
        """What is still in flight dies with the process."""
        self._main.is_dead = self._pulse.is_dead = True
        self._leave()

    async def _beat(self, session: Session) -> None:
        """What the pulse's thread does: renew every third of the lease, and tell the loop."""
        length = self._plan.lease
        pause = length / 3_000_000
        context = self._contexts[self._main]
        while not session.ended.is_set():
            await asyncio.sleep(pause)
            asked_at = self.clock.monotonic()
            try:
                seen = await self.store.renew(session.worker_id, length)
            except StoreAway:
                pause = LEAST_RENEWAL_PAUSE
                continue
            pause = length / 3_000_000
            if seen is None:
                session.lease.is_lost = True
                self.oracle.note(f"{session.worker_id} has lost its lease")
                self.loop.call_soon(session.lost, context=context.copy())
                return
            session.lease.renewed(asked_at)
            self.clock.observe(seen, asked_at)
            self.loop.call_soon(session.renewed, context=context.copy())


async def _at_once(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)


def _context(loop: VirtualLoop, domain: Domain) -> contextvars.Context:
    context = loop.neutral.copy()
    context.run(domain_of.set, domain)
    return context
