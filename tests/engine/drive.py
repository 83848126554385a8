"""A run taken by hand: the test plays the worker, one input at a time, and keeps the journal.

`check` is the law of replay: every prefix of the journal is replayed by a fresh body, which must have seen, and wait
for, exactly what the first one had at that point, and must then come to the same journal and the same end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.codec import Codec
from holdfast.define import RunInfo, Workflow, current_run
from holdfast.engine import Advance, Command, Execution, Runners
from holdfast.model import (
    ASKS,
    Cancel,
    ChildEnd,
    Ended,
    Entry,
    Input,
    Message,
    Out,
    RunRetrying,
    Started,
    StepAsked,
    StepCompleted,
    StepFailed,
    StepRetrying,
    TimerFired,
    decode_entries,
    encode_entries,
    history_of,
)

START = 1_700_000_000_000_000
TICK = 1_000
SEED = b"a seed of sixteen"
CODEC = Codec()


class NotedRun(RunInfo):
    """A run that remembers what its body has seen, in this life of it."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.notes: list[Any] = []


def note(*seen: Any) -> None:
    """Say what the body sees, here: `check` compares it with every replay."""
    run = current_run()
    assert isinstance(run, NotedRun)
    run.notes.append(seen[0] if len(seen) == 1 else seen)


@dataclass(frozen=True)
class Mark:
    """Where a body is after an input."""

    length: int
    notes: tuple[Any, ...]
    open: tuple[str, ...]
    next_timer: int | None
    time: int


class Drive:
    """One run. Made, it has begun: its first asks are open."""

    def __init__(
        self,
        workflow: Workflow[..., Any],
        *args: Any,
        runners: Runners | None = None,
        seed: bytes = SEED,
        deadline_at: int | None = None,
        run_id: str = "run-1",
        begin: bool = True,
        **kwargs: Any,
    ) -> None:
        self.workflow = workflow
        self.runners = runners or Runners()
        self.seed = seed
        self.run_id = run_id
        self.deadline_at = deadline_at
        self.input = CODEC.seal(CODEC.arguments(workflow.fn).pack(args, kwargs))
        self.at = START
        self.entries: list[Entry] = []
        self.marks: list[Mark] = []
        self.messages = 0
        self.out: list[Out] = []
        """What its turns gave out, in order."""
        self.ended: Ended | None = None
        self.missed: tuple[Input | Message, ...] = ()
        """What came with the end and was not taken in: a cancel among it is noted there."""
        self.retrying: RunRetrying | None = None
        self.last: Advance | None = None
        self.lives: list[Execution] = []
        self.execution = self.live()
        if begin:
            try:
                self.take(Started(START, seed))
            except BaseException:
                # As a worker does with a body that can't go on.
                self.close()
                raise

    def live(self, workflow: Workflow[..., Any] | None = None) -> Execution:
        """A fresh body, nothing delivered."""
        run = NotedRun(
            id=self.run_id, workflow=self.workflow.name, version="1", key=None, tags={}, priority=0,
            chain_id=self.run_id, origin_id=self.run_id, parent_id=None, created_at=START, started_at=START,
            deadline_at=self.deadline_at,
        )  # fmt: skip
        made = Execution(workflow or self.workflow, run, self.input, self.seed, CODEC, self.runners)
        self.lives.append(made)
        return made

    def take(self, *inputs: Input | Message) -> Advance:
        """One turn."""
        done = self.last = self.execution.advance(list(inputs), self.at)
        if done.out is not None:
            self.out.append(done.out)
        self.entries += stored(done.entries)
        self.ended, self.retrying = done.ended, done.retrying
        self.missed = inputs[done.consumed :]
        if not self.ended:
            self.marks.append(self.mark(self.execution, len(self.entries)))
        return done

    def tick(self) -> int:
        self.at += TICK
        return self.at

    def completed(self, key: str, *value: Any, attempt: int = 1) -> StepCompleted:
        """The entry of a result; the step is executed if no value is given."""
        command = self.execution.commands[key]
        result = value[0] if value else execute(command)
        return StepCompleted(self.tick(), key, attempt, CODEC.result(command.step.fn).encode(result))

    def complete(self, key: str, *value: Any) -> Advance:
        return self.take(self.completed(key, *value))

    def failed(self, key: str, error: BaseException, attempt: int = 1) -> StepFailed:
        return StepFailed(self.tick(), key, attempt, CODEC.encode_exception(error))

    def fail(self, key: str, error: BaseException) -> Advance:
        return self.take(self.failed(key, error))

    def retry_step(self, key: str, error: BaseException, attempt: int = 1, after: int = 1_000_000) -> Advance:
        """An attempt failed, another one follows."""
        at = self.tick()
        return self.take(StepRetrying(at, key, attempt, CODEC.encode_exception(error), at + after, START))

    def fired(self) -> TimerFired:
        """The entry of the next timer, when it is due."""
        due = self.execution.next_timer()
        assert due is not None, "no timer is set"
        self.at = max(self.at + 1, due)
        _, number = self.execution.due_timers(self.at)[0]
        return TimerFired(self.at, number)

    def fire(self) -> Advance:
        return self.take(self.fired())

    def tell(self, kind: str, name: str | None, payload: Any = None, *, wait: int | None = None) -> Advance:
        """Take in a new message."""
        return self.take(self.message(kind, name, payload, wait=wait))

    def message(self, kind: str, name: str | None, payload: Any = None, *, wait: int | None = None) -> Message:
        """A message that was just sent."""
        self.messages += 1
        data = payload if isinstance(payload, bytes) else CODEC.message(payload, kind)
        return Message(self.messages, self.run_id, kind, name, data, self.tick(), wait)

    def signal(self, name: str, payload: Any = None) -> Advance:
        return self.tell("signal", name, payload)

    def child_ends(self, key: str, value: Any = None, *, error: BaseException | None = None) -> Advance:
        """A child run has ended: completed, failed, or (with value RunCancelled) cancelled."""
        child = self.execution.life.children[key]
        status = "failed" if error else "completed"
        output = None if error else CODEC.result(child.workflow.fn).encode(value)
        end = ChildEnd(child.new.id, status, output, None if error is None else CODEC.encode_exception(error))
        return self.tell("child", key, msgspec.msgpack.encode(end))

    def cancel(self, *, deadline: bool = False) -> Advance:
        return self.take(Cancel(self.tick(), None, deadline))

    def finish(self, limit: int = 1_000) -> Drive:
        """Execute what is asked, first asked first, and let timers fire when nothing else is open."""
        for _ in range(limit):
            if self.ended or self.retrying:
                return self
            key = next(iter(self.execution.commands), None)
            if key is None:
                self.fire()
                continue
            try:
                entry: Input = self.completed(key)
            except Exception as error:
                entry = self.failed(key, error)
            self.take(entry)
        raise AssertionError(f"the run did not end; it waits for {self.open} and {self.execution.next_timer()}")

    def run_again(self) -> Drive:
        """What a worker does when the workflow's own retry is due."""
        history = history_of(self.entries)
        assert history.retrying is not None
        self.at = max(self.at, history.retrying.retry_at)
        self.retrying = None
        self.execution = self.live()
        self.execution.replay(history.entries, history.lives)
        for entry in history.carried:
            self.take(msgspec.structs.replace(entry, at=self.tick()))
        return self

    @property
    def open(self) -> list[str]:
        return list(self.execution.commands)

    @property
    def notes(self) -> list[Any]:
        return self.execution.run.notes  # type: ignore[attr-defined]

    @property
    def begun(self) -> list[str]:
        assert self.last is not None
        return [command.key for command in self.last.begin]

    @property
    def withdrawn(self) -> list[str]:
        assert self.last is not None
        return [command.key for command in self.last.withdrawn]

    @property
    def asked(self) -> list[str]:
        """The keys of all steps asked for, in the journal's order."""
        return [entry.key for entry in self.entries if isinstance(entry, StepAsked)]

    @property
    def status(self) -> str | None:
        return None if self.ended is None else str(self.ended.status)

    @property
    def result(self) -> Any:
        assert self.ended is not None, f"the run goes on, waiting for {self.open}"
        if self.ended.status != "completed":
            raise self.error
        assert self.ended.output is not None
        return CODEC.result(self.workflow.fn).decode(self.ended.output)

    @property
    def error(self) -> BaseException:
        assert self.ended is not None, f"the run goes on, waiting for {self.open}"
        assert self.ended.error is not None, f"the run {self.ended.status}"
        return CODEC.decode_exception(self.ended.error, home=self.workflow.fn.__module__)

    def mark(self, execution: Execution, length: int) -> Mark:
        run = execution.run
        assert isinstance(run, NotedRun)
        return Mark(length, tuple(run.notes), tuple(execution.commands), execution.next_timer(), execution.time)

    def replay(self, length: int | None = None, workflow: Workflow[..., Any] | None = None) -> Execution:
        """A fresh body, rebuilt from the journal or the beginning of it."""
        again = self.live(workflow)
        again.replay(self.entries[:length])
        return again

    def check(self) -> Drive:
        """Check that every prefix replays and goes on alike, however its inputs are grouped into turns."""
        notes = list(self.notes)
        for mark in self.marks:
            again = self.replay(mark.length)
            assert self.mark(again, mark.length) == mark
            rest = self.entries[mark.length :]
            if rest:
                inputs = [entry for entry in rest if not isinstance(entry, (*ASKS, Ended, RunRetrying))]
                done = again.advance([*inputs, *self.missed])
                assert stored(done.entries) == rest
                assert again.run.notes == notes  # type: ignore[attr-defined]
            again.put_away()
        return self

    def close(self) -> None:
        for one in self.lives:
            one.put_away()
        self.lives.clear()


def execute(command: Command) -> Any:
    """What a worker does for a step, on copies of its arguments."""
    fn = command.step.fn
    args, kwargs = CODEC.arguments(fn).unpack(command.args)
    result = fn(*args, **kwargs)
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


def stored(entries: Iterable[Entry]) -> list[Entry]:
    """As they come back from the store."""
    return decode_entries(encode_entries(list(entries)))
