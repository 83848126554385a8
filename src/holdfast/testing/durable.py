"""assert_durable: run a workflow with a crash at each commit point in turn, and compare the outcomes."""

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
"""A step: the number of its run in the chain, from 0, and its key in that run."""
_Results: TypeAlias = dict[_Place, tuple[str, Any, str]]


@dataclass(frozen=True, slots=True)
class Durability:
    """What `assert_durable` did: the commit points of the undisturbed run, and how many crashes were tried."""

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
    """Check that a workflow has the same outcome wherever its process dies.

        def test_checkout_survives_crashes():
            assert_durable(checkout, order, stubs={charge: "receipt-1"}, effects=outbox)

    The workflow runs undisturbed twice, to see that its outcome is the same at all. Then it runs twice for every write
    of the first run (the start, claims, turns, waits): with a crash just before the write, and with one just after it,
    when the answer is lost. At a crash, steps in flight are cancelled and another worker takes over. Each of these runs
    must have the undisturbed run's outcome: the same status, the same output or error, and the same steps with the same
    results (except for steps that lose a race). No step may be executed again whose result was recorded. Otherwise
    AssertionError says which crash broke what. If the run continues as new, all runs of the chain are compared, and the
    last one's end counts.

    `effects` is what the workflow did to the outside: a collection that stubs or steps write to, which is cleared
    before each run, or a function that returns a snapshot and is called once after each run (its `clear`, if it has
    one, is called before). A step in flight when its process dies executes again, so collect effects so that twice is
    the same as once: in a dict by `current_step().idempotency_key`, say, not in a list.

    `drive(env, run)` is awaited first, for runs that need more than waiting for the result: it may skip time, cancel,
    or look at the run. Like another process, it notices no crash. Every run has the same id, seed and clock. Inside
    a running event loop everything happens in a new thread with its own loop. An argument with the name of one of these
    options must be given by position, or BadArguments is raised.
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
    """The outcome of one run, compared field by field so that the report can say what differs."""

    status: RunStatus
    text: str
    """The status with the output or the error, as text."""
    value: _Value
    results: _Results
    """Kind, value and text of the recorded result of each step."""
    asked: frozenset[_Place] | None
    """The steps that the run asked for; None if another run may rightly ask for others."""
    runs: tuple[str, ...]
    """The ids of the chain's runs."""
    effects: Any = None
    again: list[str] = field(default_factory=list)
    """Errors: steps executed although their result was recorded, or recorded although never executed."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """The workflow, and everything that each of its runs gets."""

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
            # Until a crash is no longer reached, not by the number of commits: steps in threads end in any order, and
            # more or fewer of them share a turn.
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
        """The commit point of the crash, None if the run did not reach it, and what the crash broke."""
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
            f"{_step_text(step)} has a result, but was never executed"
            for step in outcome.results
            if (outcome.runs[step[0]], step[1]) not in environment.executed
        ]
        outcome.effects = _snapshot(self.effects)
        return outcome

    async def _start(self, env: _CrashingEnvironment) -> AsyncRun[Any]:
        """Start the run. If the starting process crashes, start it again with the same id, as programs should."""
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
    """An environment with a crash, in which only that crash makes a body run again: turns are not replayed."""

    def __init__(self, trial: _Trial, crash: Crash | None) -> None:
        self._crash = crash
        super().__init__(workflows_of(trial.workflow), stubs=trial.stubs, resources=trial.resources, start=trial.start)
        self._stubs.on_call = self._on_call
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

    def _on_call(self, call: Call) -> None:
        self.executed.add((call.run_id, call.key))
        point = self.store.recorded.get((call.run_id, call.key))
        if point is not None:
            self.again.append(f"the step {call.key!r} was executed again after its result was recorded in {point}")


async def _outcome(env: Environment, run: AsyncRun[Any]) -> _Outcome:
    """The end of the chain's last run, and the recorded results of the steps of all its runs."""
    journals = [await env.client.journal(run.id)]
    while (successor := journals[-1].run.successor_id) is not None:
        journals.append(await env.client.journal(successor))
    status, ended = journals[-1].run.status, journals[-1][-1]
    text = f"{status} with {_text(ended)}" if status is not RunStatus.CANCELLED else "cancelled"
    results = {
        (number, entry.key): (entry.kind, _value(entry), _text(entry))
        for number, entries in enumerate(journals)
        for entry in entries
        if entry.key is not None and entry.kind in ("step_completed", "step_failed")
    }
    runs = tuple(journal.run.id for journal in journals)
    return _Outcome(status, text, _value(ended), results, _asked(journals, results), runs)


def _asked(journals: Sequence[Sequence[JournalEntry]], results: _Results) -> frozenset[_Place] | None:
    """The steps that the runs asked for; None if they can't be compared.

    A step without a result has lost a race: in another run it may win, and the body then takes another branch. What was
    asked before a checkpoint is no longer known.
    """
    all_entries = [(number, entry) for number, entries in enumerate(journals) for entry in entries]
    asked = frozenset(
        (number, entry.key) for number, entry in all_entries if entry.key is not None and entry.kind == "step_asked"
    )
    is_open = bool(asked - results.keys()) or any(entry.kind == "checkpoint" for _, entry in all_entries)
    return None if is_open else asked


class _Value:
    """A value to compare. NaN is not equal to itself, but its text is."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Value) and (self._value == other._value or repr(self._value) == repr(other._value))


def _value(entry: JournalEntry) -> _Value:
    """The value to compare: of an error its class and message, since its traceback differs each time."""
    return _Value((type(entry.error), str(entry.error)) if entry.error is not None else entry.value)


def _text(entry: JournalEntry) -> str:
    return f"{type(entry.error).__name__}: {entry.error}" if entry.error is not None else repr(entry.value)


def _snapshot(effects: Any) -> Any:
    return copy.deepcopy(effects() if callable(effects) else effects)


def _differences(expected: _Outcome, found: _Outcome) -> list[str]:
    wrong = list(found.again)
    if (found.status, found.value) != (expected.status, expected.value):
        wrong.append(f"the outcome was {found.text} instead of {expected.text}")
    wrong += _other_results(expected.results, found.results)
    if expected.asked is not None and found.asked is not None:
        wrong += [f"{_step_text(step)} was never asked for" for step in sorted(expected.asked - found.asked)]
        wrong += [f"{_step_text(step)} was asked for besides" for step in sorted(found.asked - expected.asked)]
    if found.effects != expected.effects:
        wrong.append(f"the effects were {found.effects!r} instead of {expected.effects!r}")
    return wrong


def _other_results(expected: _Results, found: _Results) -> list[str]:
    """The results that differ. A step that lost a race need not have a result in both.

    Steps of one name are numbered in the order in which they are asked for. Branches that race ask in any order, so
    the results of steps of one name may have changed places.
    """
    moved: dict[_Place, list[_Place]] = {}
    for step in expected:
        if step not in found or found[step][:2] != expected[step][:2]:
            moved.setdefault((step[0], _name(step[1])), []).append(step)
    wrong: list[str] = []
    for steps in moved.values():
        left = [expected[step][:2] for step in steps]
        changed = [step for step in steps if step in found]
        if not all(_remove(left, found[step][:2]) for step in changed):
            for step in changed:
                (kind, _, text), (was_kind, _, was_text) = found[step], expected[step]
                wrong.append(f"{_step_text(step)} has {kind} {text} instead of {was_kind} {was_text}")
    return wrong


def _remove(left: list[tuple[str, Any]], result: tuple[str, Any]) -> bool:
    # From a list, not a multiset: a step's result need not be hashable.
    if result not in left:
        return False
    left.remove(result)
    return True


def _name(key: str) -> str:
    name, _, number = key.rpartition(":")
    return name if name and number.isdigit() else key


def _step_text(step: _Place) -> str:
    number, key = step
    return f"the step {key!r} of the chain's run {number + 1}" if number else f"the step {key!r}"


def _run(work: Callable[[], Awaitable[T]]) -> T:
    """Run the work on a new event loop, in a new thread if this one has a running loop."""

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
