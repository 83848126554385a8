"""assert_durable: run a workflow once per commit point, crashing there each time, and compare what came of it."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import inspect
import threading
from asyncio import events
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ParamSpec, TypeAlias, TypeVar

from holdfast.client import AsyncRun, JournalEntry
from holdfast.define import Resource, Workflow, wrong_workflow
from holdfast.errors import BadArguments, DefinitionError
from holdfast.model import RunStatus
from holdfast.script import workflows_of

from .clock import ManualClock
from .crashes import CommitPoint, Crash, CrashingDriver, CrashingStore
from .driver import Driver
from .environment import Environment
from .stubs import Call

P = ParamSpec("P")
T = TypeVar("T")
Drive: TypeAlias = Callable[[Environment, AsyncRun[Any]], Awaitable[object]]
_RUN_ID = "assert-durable"
_SHOWN = 10
_Place: TypeAlias = tuple[int, str]
"""A step: which of the chain's runs has it, from 0, and its key there."""
_Results: TypeAlias = dict[_Place, tuple[str, Any, str]]


@dataclass(frozen=True, slots=True)
class Durability:
    """What `assert_durable` found: the commit points of the undisturbed run, and how many crashes were tried."""

    commits: tuple[CommitPoint, ...]
    crashes: int


def assert_durable(
    workflow: Workflow[..., Any],
    *args: Any,
    stubs: Mapping[Any, Any] | None = None,
    drive: Drive | None = None,
    effects: Any = None,
    resources: Sequence[Resource[Any]] | Mapping[Resource[Any], Any] = (),
    **kwargs: Any,
) -> Durability:
    """Check that a workflow comes to the same end wherever its process dies.

        def test_checkout_survives_crashes():
            assert_durable(checkout, order, stubs={charge: "receipt-1"}, effects=outbox)

    It is run undisturbed, twice, to see that it comes to the same end at all. Then, for every write that this took (the
    start, claims, turns, waits), once with a crash just before the write and once with one just after it, when the
    answer is lost: steps in flight are cancelled, and another worker takes over. Each of these runs must come to the
    undisturbed one's end: the same status, the same output or error, the same steps with the same results (but for
    those that lose a race), and no step executed again whose result was recorded. If one does not, AssertionError says
    which crash broke what. Of a run that continues as new every run of the chain counts, and the end is the last one's.

    `effects` are what the workflow did to the world: a collection that stubs or steps write to, which is cleared before
    each run, or a function that returns a snapshot and is called once after each run (its `clear`, if it has one, is
    called before). A step in flight when its process dies is executed again, so effects must be such that twice
    is the same as once: a dict by `current_step().idempotency_key`, say, and not a list.

    `drive(env, run)` is awaited first, where waiting for the result is not enough: it skips time, cancels, looks at the
    run. Like any other process it sees nothing of the crash. Every run has the same id, seed and clock. Inside a
    running event loop all of this happens on a thread and a loop of its own. An argument whose name is also one of the
    options here is given by position, else BadArguments.
    """
    if not isinstance(workflow, Workflow):
        raise DefinitionError(f"assert_durable({workflow!r}): {wrong_workflow(workflow)}")
    own = {"stubs": stubs, "drive": drive, "effects": effects, "resources": resources or None}
    for name in [*inspect.signature(workflow.fn).parameters][len(args) :]:
        if own.get(name) is not None:
            # Guessing wrong would be silent: the workflow would be checked with another argument than was meant.
            raise BadArguments(
                f"{name}= is an option of assert_durable() and a parameter of the workflow {workflow.name!r}; give the "
                "argument by position"
            )
    trial = _Trial(workflow, args, kwargs, stubs, drive, effects, resources, ManualClock().moment)
    return _run(trial.hold)


@dataclass(slots=True)
class _Outcome:
    """What came of one run. Compared field by field, so that the report can say what differs."""

    status: RunStatus
    told: str
    """The output or the error, in words."""
    value: Any
    results: _Results
    """Kind, value and words of what was recorded for each step."""
    asked: frozenset[_Place] | None
    """The steps that it asked for; None if another run may rightly ask for others."""
    runs: tuple[str, ...]
    """The ids of the chain's runs."""
    effects: Any = None
    again: list[str] = field(default_factory=list)
    """Steps executed although their result was recorded, or recorded although never executed."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """The workflow, and everything that each of its runs is given."""

    workflow: Workflow[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    stubs: Mapping[Any, Any] | None
    drive: Drive | None
    effects: Any
    resources: Sequence[Resource[Any]] | Mapping[Resource[Any], Any]
    start: datetime

    async def hold(self) -> Durability:
        undisturbed, commits = await self._run(None)
        again, _ = await self._run(None)
        self._check(_differences(undisturbed, again), "its runs differ even undisturbed", commits)
        broken: list[str] = []
        broken_by = crashes = number = 0
        is_reached = True
        while is_reached:
            # Not by the number of commits: steps in threads end in any order, and more or fewer of them share a turn.
            number += 1
            for crash in (Crash(number, is_after=False), Crash(number, is_after=True)):
                point, wrong = await self._crashed(crash, undisturbed)
                is_reached = point is not None
                if point is not None:
                    crashes += 1
                    broken_by += bool(wrong)
                    broken += [f"crash {crash.side} {point}: {what}" for what in wrong]
        self._check(broken, f"{broken_by} of {crashes} crashes changed what came of it", commits)
        return Durability(commits, crashes)

    def _check(self, broken: list[str], summary: str, commits: tuple[CommitPoint, ...]) -> None:
        if not broken:
            return
        lines = [f"{self.workflow.name} is not durable: {summary}."]
        lines += [f"  {line}".replace("\n", "\n    ") for line in broken[:_SHOWN]]
        if len(broken) > _SHOWN:
            lines.append(f"  and {len(broken) - _SHOWN} more")
        lines.append("Undisturbed, it took these commits:")
        lines += [f"  {point.number}  {point.text}" for point in commits]
        raise AssertionError("\n".join(lines))

    async def _crashed(self, crash: Crash, undisturbed: _Outcome) -> tuple[CommitPoint | None, list[str]]:
        """Where it crashed, if it came that far, and what that broke."""
        environment = _CrashingEnvironment(self, crash)
        try:
            found = await self._run_in(environment)
        except Exception as error:
            # A blocked run, a wait without end, or an assertion in `drive`.
            return environment.store.crashed, [f"the run did not come to its end: {type(error).__name__}: {error}"]
        return environment.store.crashed, _differences(undisturbed, found)

    async def _run(self, crash: Crash | None) -> tuple[_Outcome, tuple[CommitPoint, ...]]:
        environment = _CrashingEnvironment(self, crash)
        outcome = await self._run_in(environment)
        return outcome, tuple(environment.store.points)

    async def _run_in(self, environment: _CrashingEnvironment) -> _Outcome:
        clear = getattr(self.effects, "clear", None)
        if clear is not None:
            clear()
        async with environment as env:
            run = await self._start(env)
            if self.drive is not None:
                await self.drive(env, run)
            await run.wait()
            outcome = await _outcome(env, run)
        outcome.again = environment.again
        outcome.again += [
            f"{_step_told(step)} has a result, but was never executed"
            for step in outcome.results
            if (outcome.runs[step[0]], step[1]) not in environment.executed
        ]
        outcome.effects = _snapshot(self.effects)
        return outcome

    async def _start(self, env: _CrashingEnvironment) -> AsyncRun[Any]:
        """Start the run; if the process that starts it crashes, it starts again with the same id, as it should."""
        env.store.is_starting = True
        try:
            while True:
                start = env.client.start(self.workflow.options(id=_RUN_ID), *self.args, **self.kwargs)
                started = await env.store.survive(start)
                if started is not None:
                    return started[0]
                env.store.revive()
        finally:
            env.store.is_starting = False


class _CrashingEnvironment(Environment):
    """An environment that crashes, and where nothing but a crash makes a body run again."""

    def __init__(self, trial: _Trial, crash: Crash | None) -> None:
        self._crash = crash
        super().__init__(workflows_of(trial.workflow), stubs=trial.stubs, resources=trial.resources, start=trial.start)
        self._stubs.noticed = self._noticed
        self.executed: set[tuple[str, str]] = set()
        self.again: list[str] = []

    @property
    def store(self) -> CrashingStore:
        assert isinstance(self._store, CrashingStore)
        return self._store

    def _make_store(self) -> CrashingStore:
        return CrashingStore(self.clock, self._crash)

    def _make_driver(self, resources: Mapping[object, Any]) -> Driver:
        return CrashingDriver(self.store, self._plan, self.clock, resources, self._stubs.perform)

    def _noticed(self, call: Call) -> None:
        self.executed.add((call.run_id, call.key))
        point = self.store.recorded.get((call.run_id, call.key))
        if point is not None:
            self.again.append(f"the step {call.key!r} was executed again after its result was recorded in {point}")


async def _outcome(env: Environment, run: AsyncRun[Any]) -> _Outcome:
    """The end of the last run that went on, and what was recorded for the steps of all of them."""
    journals = [await env.client.journal(run.id)]
    while (successor := journals[-1].run.successor_id) is not None:
        journals.append(await env.client.journal(successor))
    status, ended = journals[-1].run.status, journals[-1][-1]
    told = f"{status} with {_told(ended)}" if status is not RunStatus.CANCELLED else "cancelled"
    results = {
        (number, entry.key): (entry.kind, _value(entry), _told(entry))
        for number, entries in enumerate(journals)
        for entry in entries
        if entry.key is not None and entry.kind in ("step_completed", "step_failed")
    }
    runs = tuple(journal.run.id for journal in journals)
    return _Outcome(status, told, _value(ended), results, _asked(journals, results), runs)


def _asked(journals: Sequence[Sequence[JournalEntry]], results: _Results) -> frozenset[_Place] | None:
    """The steps that it asked for. A step without a result has lost a race, which others may win and then go another
    way; and behind a checkpoint there is no telling."""
    all_entries = [(number, entry) for number, entries in enumerate(journals) for entry in entries]
    asked = frozenset(
        (number, entry.key) for number, entry in all_entries if entry.key is not None and entry.kind == "step_asked"
    )
    is_open = bool(asked - results.keys()) or any(entry.kind == "checkpoint" for _, entry in all_entries)
    return None if is_open else asked


def _value(entry: JournalEntry) -> Any:
    """What can be compared: an error by its class and words, since its traceback is another one each time."""
    return (type(entry.error), str(entry.error)) if entry.error is not None else entry.value


def _told(entry: JournalEntry) -> str:
    return f"{type(entry.error).__name__}: {entry.error}" if entry.error is not None else repr(entry.value)


def _snapshot(effects: Any) -> Any:
    return copy.deepcopy(effects() if callable(effects) else effects)


def _differences(expected: _Outcome, found: _Outcome) -> list[str]:
    wrong = list(found.again)
    if (found.status, found.value) != (expected.status, expected.value):
        wrong.append(f"the outcome was {found.told} instead of {expected.told}")
    wrong += _other_results(expected.results, found.results)
    if expected.asked is not None and found.asked is not None:
        wrong += [f"{_step_told(step)} was never asked for" for step in sorted(expected.asked - found.asked)]
        wrong += [f"{_step_told(step)} was asked for besides" for step in sorted(found.asked - expected.asked)]
    if found.effects != expected.effects:
        wrong.append(f"the effects were {found.effects!r} instead of {expected.effects!r}")
    return wrong


def _other_results(expected: _Results, found: _Results) -> list[str]:
    """Results that are other ones. A step that lost a race need not have one in both.

    Branches that race come to steps of one name in any order, and so those are numbered: they may change places.
    """
    moved: dict[_Place, list[_Place]] = {}
    for step in expected:
        if step not in found or found[step][:2] != expected[step][:2]:
            moved.setdefault((step[0], _name(step[1])), []).append(step)
    wrong: list[str] = []
    for steps in moved.values():
        left = [expected[step][:2] for step in steps]
        changed = [step for step in steps if step in found]
        if not all(_takes_out(left, found[step][:2]) for step in changed):
            for step in changed:
                (kind, _, told), (was_kind, _, was_told) = found[step], expected[step]
                wrong.append(f"{_step_told(step)} has {kind} {told} instead of {was_kind} {was_told}")
    return wrong


def _takes_out(left: list[tuple[str, Any]], one: tuple[str, Any]) -> bool:
    # By comparing: what a step returns need not be hashable.
    if one not in left:
        return False
    left.remove(one)
    return True


def _name(key: str) -> str:
    name, _, number = key.rpartition(":")
    return name if name and number.isdigit() else key


def _step_told(step: _Place) -> str:
    number, key = step
    return f"the step {key!r} of the chain's run {number + 1}" if number else f"the step {key!r}"


def _run(work: Callable[[], Awaitable[T]]) -> T:
    """Run it on a loop of its own, on a thread of its own if this one has a loop already."""

    async def main() -> T:
        return await work()

    if events._get_running_loop() is None:
        return asyncio.run(main())
    answers: list[T] = []
    errors: list[BaseException] = []

    def inside() -> None:
        try:
            answers.append(asyncio.run(main()))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(inside,), name="holdfast assert_durable")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]
