"""Why is this run not moving? A pure answer from its row, its journal, the live workers and the time.

Nothing here reads or waits: explaining.py reads, and `explain` decides. It can't tell what is not in the store:

- A timer has no entry until it fires; its body, in some worker's memory, is all that knows of it.
- A wait for a signal without `type=` is known to its body alone. But unread messages are in the inbox, and show that a
  signal was sent by a wrong name.
- There is an entry when a step is asked for, and none when it begins: it may execute or wait for a thread.
- There is no entry when a step is withdrawn. But a run with the status waiting has no step in flight.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from holdfast.model import (
    Cancel,
    Entry,
    Lane,
    Message,
    RunRecord,
    RunRetrying,
    RunStatus,
    SetAside,
    Stopped,
    Undoing,
    Unread,
    WaitRecord,
    WorkerRecord,
    counted,
    history_of,
    instant_of,
    moment_of,
    spoken,
)

from .moments import spelt, time_left
from .unfinished import UNNAMED, OpenChild, OpenStep, OpenWait, is_wanted, open_children, open_steps, open_wait


class Reason(StrEnum):
    """Why a run is where it is, in one word."""

    ENDED = "ended"
    PAUSED = "paused"
    BLOCKED = "blocked"
    AFTER = "after"
    """It begins when another run has ended."""
    NOT_DUE = "not_due"
    NO_WORKER = "no_worker"
    CAPACITY = "capacity"
    """It is due, and a worker that knows its workflow has not taken it yet."""
    TAKEOVER = "takeover"
    """Its worker is gone; another one takes over."""
    RETRYING = "retrying"
    STEP = "step"
    """It waits for a step, which executes or stands in line for a thread: only its worker knows."""
    SLEEPING = "sleeping"
    """It waits for a timer, or for a signal without `type=`, which the store can't tell from a timer."""
    WAITING = "waiting"
    ADVANCING = "advancing"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a run is not moving: `str()` says it in words, `reason` in one word, and `details` holds the facts."""

    run_id: str
    reason: Reason
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All that an explanation needs besides the run and its journal. `describe` puts a stored exception into words."""

    workers: Sequence[WorkerRecord]
    namespace: str
    now: datetime
    describe: Callable[[bytes], str]
    waits: Sequence[WaitRecord] = ()
    """The waits that the run has registered."""
    cancel: Message | None = None
    """A cancel that was sent and not yet taken by a turn."""
    unread: Sequence[Unread] = ()
    """Other messages that no turn has taken."""
    joined: Collection[str] = ()
    """Ids of children that no run has: one that had the child's key was joined instead."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """All facts to decide by."""

    run: RunRecord
    steps: tuple[OpenStep, ...]
    retrying: RunRetrying | None
    cancel: Cancel | None
    stopped: Stopped | None
    set_aside: tuple[SetAside, ...]
    is_compensated: bool
    children: tuple[OpenChild, ...]
    around: Surroundings

    @property
    def workers(self) -> Sequence[WorkerRecord]:
        return self.around.workers

    @property
    def waits(self) -> tuple[OpenWait, ...]:
        return tuple(open_wait(wait) for wait in self.around.waits)

    @property
    def now(self) -> datetime:
        return self.around.now

    @property
    def describe(self) -> Callable[[bytes], str]:
        return self.around.describe

    @property
    def owner(self) -> WorkerRecord | None:
        return next((worker for worker in self.workers if worker.id == self.run.owner), None)

    @property
    def lane(self) -> Lane:
        return Lane(self.run.workflow, self.run.version, self.run.queue)

    @property
    def knowing(self) -> list[WorkerRecord]:
        return [worker for worker in self.workers if self.lane in worker.lanes]


def explain(run: RunRecord, entries: Iterable[Entry], around: Surroundings) -> Explanation:
    """Why `run` is not moving, or how it ended."""
    known = list(entries)
    history = history_of(known)
    cancel = next((entry for entry in history.entries if isinstance(entry, Cancel)), None)
    stopped = next((entry for entry in known if isinstance(entry, Stopped)), None)
    steps = tuple(step for step in open_steps(history.entries, around.describe) if is_wanted(step, run))
    set_aside = tuple(entry for entry in history.entries if isinstance(entry, SetAside))
    is_compensated = any(isinstance(entry, Undoing) for entry in known)
    children = open_children(history)
    scene = _Scene(run, steps, history.retrying, cancel, stopped, set_aside, is_compensated, children, around)
    reason, text, details = _decide(scene)
    if reason is not Reason.ENDED:
        text = " ".join([text, *_asides(scene)])
        if around.unread:
            details["unread"] = tuple(around.unread)
    return Explanation(run.id, reason, f"run {run.id} of {run.workflow!r} {text}", details)


_Answer = tuple[Reason, str, dict[str, Any]]


def _decide(scene: _Scene) -> _Answer:
    run = scene.run
    if run.status.is_final:
        return _ended(scene)
    if run.paused:
        return Reason.PAUSED, "is paused: no turn is taken until it is resumed.", {}
    if run.owner is not None:
        return _held(scene)
    if run.blocked is not None:
        return _blocked(scene)
    if run.after_run_id is not None and run.started_at is None and (run.due_at is None or run.due_at > scene.now):
        text = f"begins when run {run.after_run_id} has ended, from which it takes over the key {run.key!r}."
        return Reason.AFTER, text, {"after_run_id": run.after_run_id}
    if run.due_at is not None and run.due_at <= scene.now:
        return _unclaimed(scene)
    return _parked(scene)


def _ended(scene: _Scene) -> _Answer:
    run = scene.run
    when = "" if run.ended_at is None else f" at {spelt(run.ended_at)}"
    details: dict[str, Any] = {"status": run.status, "ended_at": run.ended_at}
    if run.status is RunStatus.FAILED and run.error:
        details["error"] = scene.describe(run.error)
        retry = f"client.retry({run.id!r}), or in a shell `holdfast retry {shlex.quote(run.id)}`, goes on from there"
        advice = "it was compensated, so only a new run can go on" if scene.is_compensated else retry
        return Reason.ENDED, f"failed{when} with {details['error']}; {advice}.", details
    why = (scene.cancel.reason if scene.cancel else None) or (scene.stopped.reason if scene.stopped else None)
    if run.status is RunStatus.CANCELLED and why:
        details["reason"] = why
        when += f", because: {why}"
    if scene.stopped is not None and scene.stopped.skipped:
        details["skipped"] = scene.stopped.skipped
        when += f"; it was ended by force, which skipped {', '.join(scene.stopped.skipped)}"
    if run.successor_id is not None:
        details["successor_id"] = run.successor_id
        when += f"; it went on as run {run.successor_id}"
    return Reason.ENDED, f"has ended: {run.status}{when}.", details


def _held(scene: _Scene) -> _Answer:
    """The answer for a run that has an owner, alive or dead."""
    run, owner = scene.run, scene.owner
    if owner is None:
        text = f"was held by worker {run.owner}, which is gone; "
        text += _next_worker(scene, "takes it over", "it is taken over when a worker that knows it starts")
        return Reason.TAKEOVER, text, {"owner": run.owner, "steps": scene.steps}
    where = f"on worker {owner.id} (host {owner.host}, pid {owner.pid}{_silence_told(owner, scene.now)})"
    details: dict[str, Any] = {"worker": owner, "steps": scene.steps}
    if run.blocked is not None:
        return Reason.BLOCKED, f"is blocked {where}: {run.blocked}", {**details, "report": run.blocked}
    if scene.steps:
        waits = [step for step in scene.steps if not _is_due(step, scene.now)]
        reason = Reason.RETRYING if len(waits) == len(scene.steps) else Reason.STEP
        told = f"{_steps_told(scene)} {where}"
        if reason is Reason.STEP:
            # That a step has begun is not recorded.
            told += ": it executes there, or stands in line for a thread"
        return reason, f"{told}.", details
    if run.status is RunStatus.WAITING and run.due_at is not None and run.due_at > scene.now:
        reason, text, more = _parked(scene, f", {where}")
        return reason, text, {**details, **more}
    if run.status is RunStatus.WAITING and (what := _waits_told(scene)):
        return Reason.WAITING, f"waits for {what} {where}.", {**details, "waits": scene.waits}
    if run.status is RunStatus.WAITING and run.due_at is None:
        told = f"waits {where} for {UNNAMED}; or for nothing that will come, such as an Event that no task of it sets."
        return Reason.WAITING, told, {**details, "waits": scene.waits}
    if run.started_at is not None and scene.retrying is None and run.status is RunStatus.RUNNING:
        what = "its first steps execute or stand in line for a thread, or it waits for a short timer"
        return Reason.ADVANCING, f"is held {where}, begun at {spelt(run.started_at)}: {what}.", details
    return Reason.ADVANCING, f"is held {where}.", details


def _silence_told(worker: WorkerRecord, now: datetime) -> str:
    """When a worker was last heard of, if it is late to renew its lease: it may be dead, on a host that we can't
    see."""
    is_late = now - worker.renewed_at > (worker.lease_until - worker.renewed_at) / 2
    return f", last heard of at {spelt(worker.renewed_at)}" if is_late else ""


def _blocked(scene: _Scene) -> _Answer:
    run = scene.run
    again = "" if run.due_at is None else f" It is tried again at {spelt(run.due_at)}."
    end = f"cancel it with force=True, or in a shell: holdfast cancel --force {shlex.quote(run.id)}"
    goes_on = "it goes on by itself when mended code is deployed"
    text = f"is blocked and intact: {goes_on}.{again} To end it, {end}. The report: {run.blocked}"
    return Reason.BLOCKED, text, {"report": run.blocked, "retry_at": run.due_at}


def _unclaimed(scene: _Scene) -> _Answer:
    """The answer for a run that is due and has no owner."""
    run = scene.run
    if not scene.knowing:
        text = f"is {run.status} and due, but " + _next_worker(
            scene, "", "it waits until a worker that knows it starts"
        )
        return Reason.NO_WORKER, text, {"lane": scene.lane, "known": _lanes(scene.workers)}
    names = ", ".join(worker.id for worker in scene.knowing[:3])
    assert run.due_at is not None
    late = spoken(max(instant_of(scene.now) - instant_of(run.due_at), 0))
    text = (
        f"is {run.status} and due for {late}; {counted(len(scene.knowing), 'live worker')} ({names}) can take it: it "
        "waits for one that has room, behind runs of a larger priority and those due earlier."
    )
    return Reason.CAPACITY, text, {"workers": tuple(scene.knowing), "due_at": run.due_at}


def _parked(scene: _Scene, where: str = "") -> _Answer:
    """The answer for a run that waits for a time to come or for a message, perhaps on a worker: `where`."""
    run = scene.run
    details: dict[str, Any] = {"steps": scene.steps, "waits": scene.waits}
    waits = _waits_told(scene)
    if run.due_at is None:
        return Reason.WAITING, f"waits for {waits or UNNAMED}. Nothing else would wake it.", details
    until = f"{spelt(run.due_at)}, {time_left(run.due_at, scene.now)}"
    details["until"] = run.due_at
    if run.started_at is None:
        if run.deadline_at is not None and run.deadline_at <= run.due_at:
            return Reason.NOT_DUE, f"is not due yet, and fails at its deadline, which comes first: {until}.", details
        return Reason.NOT_DUE, f"is not due yet: it begins at {until}.", details
    if scene.retrying is not None:
        error = scene.describe(scene.retrying.error) if scene.retrying.error else "no recorded error"
        details |= {"error": error, "attempt": scene.retrying.attempt}
        return Reason.RETRYING, f"failed with {error} and is tried again as a whole at {until}{where}.", details
    if scene.steps:
        return Reason.RETRYING, f"{_steps_told(scene)}; the run wakes at the latest at {until}.", details
    if waits:
        return Reason.WAITING, f"waits for {waits}, and wakes at the latest at {until}{where}.", details
    # A wait for a signal that has a timeout and no `type=` looks the same.
    return Reason.SLEEPING, f"sleeps until {until}{where}.", details


def _asides(scene: _Scene) -> Iterable[str]:
    run = scene.run
    if _is_parked(scene) and not scene.knowing:
        missing = _next_worker(scene, "", "the run goes on when a worker that knows it starts")
        yield missing[:1].upper() + missing[1:]
    if scene.cancel is not None:
        why = f" ({scene.cancel.reason})" if scene.cancel.reason else ""
        kind = "Its deadline passed" if scene.cancel.deadline else f"It was cancelled{why}"
        yield f"{kind} at {spelt(moment_of(scene.cancel.at))}, and its cleanup has not ended."
    elif scene.around.cancel is not None:
        yield _cancel_told(scene, scene.around.cancel)
    if run.crashes:
        yield f"It has taken its worker down {counted(run.crashes, 'time')} without progress."
    if run.deadline_at is not None and scene.cancel is None:
        yield f"Its deadline is {spelt(run.deadline_at)}."
    if scene.set_aside:
        last = scene.set_aside[-1]
        many = counted(len(scene.set_aside), "message")
        yield f"{many} that did not fit: set aside in its journal, the last one {last.name!r}: {last.reason}"
    if scene.around.unread:
        # This may be the only sign of a misspelt name.
        told = [f"{one.kind} {one.name!r} ({one.count})" for one in scene.around.unread[:5]]
        more = ", and more" if len(scene.around.unread) > 5 else ""
        yield f"In its inbox, sent and not read: {', '.join(told)}{more}."


def _cancel_told(scene: _Scene, cancel: Message) -> str:
    """Words about a cancel that waits in the inbox: when it is delivered, and what to do if it never is."""
    run = scene.run
    reason = cancel.payload.decode(errors="replace")
    why = f" ({reason})" if reason else ""
    if run.blocked is not None:
        when = "when it goes on"
    elif scene.owner is not None:
        when = "by the worker that holds it"
    elif scene.knowing:
        when = "by the worker that takes it next"
    else:
        when = "when a worker that knows it starts"
    end = f"a cancel with force=True, or in a shell `holdfast cancel --force {shlex.quote(run.id)}`, ends it at once"
    return f"A cancel was asked for{why} at {spelt(moment_of(cancel.sent_at))} and is delivered {when}; {end}."


def _is_parked(scene: _Scene) -> bool:
    """Whether the run waits in the store for its time, or for a message."""
    run = scene.run
    is_idle = run.owner is None and not run.paused and run.blocked is None and run.after_run_id is None
    return is_idle and (run.due_at is None or run.due_at > scene.now)


def _waits_told(scene: _Scene) -> str:
    """What the run waits for, as far as the store knows."""
    told = [_wait_told(wait) for wait in scene.around.waits]
    told += [child.told(scene.around.joined) for child in scene.children]
    more = f" and {len(told) - 5} more" if len(told) > 5 else ""
    return " or ".join(told[:5]) + more


def _wait_told(wait: WaitRecord) -> str:
    match = "" if wait.match is None else f" that holds {wait.match.decode(errors='replace')}"
    until = "" if wait.expires_at is None else f", which expires at {spelt(moment_of(wait.expires_at))}"
    return f"the {wait.kind} {wait.name!r}{match}{until}"


def _is_due(step: OpenStep, now: datetime) -> bool:
    return step.retry_at is None or step.retry_at <= now


def _steps_told(scene: _Scene) -> str:
    told = [_step_told(step, scene.now) for step in scene.steps[:5]]
    more = f" and {len(scene.steps) - 5} more" if len(scene.steps) > 5 else ""
    return "; ".join(told) + more


def _step_told(step: OpenStep, now: datetime) -> str:
    since = "" if step.since is None else f", since {spelt(step.since)}"
    if step.retry_at is None:
        return f"waits for step {step.key!r} (attempt {step.attempt}{since})"
    if _is_due(step, now):
        return f"waits for step {step.key!r} (attempt {step.attempt}{since}; the last one failed with {step.error})"
    return (
        f"retries step {step.key!r} at {spelt(step.retry_at)}, {time_left(step.retry_at, now)} "
        f"(attempt {step.attempt}; the last one failed with {step.error})"
    )


def _next_worker(scene: _Scene, does: str, otherwise: str) -> str:
    """Which workers can take the run, or why none can."""
    lane = scene.lane
    if scene.knowing:
        return f"the next of {counted(len(scene.knowing), 'live worker')} to look {does}."
    what = f"{lane.workflow!r} version {lane.version!r} on queue {lane.queue!r}"
    if not scene.workers:
        return f"no worker is alive in the namespace {scene.around.namespace!r}; {otherwise}. It needs {what}."
    same = [other for other in _lanes(scene.workers) if other.workflow == lane.workflow]
    listed = same or _lanes(scene.workers)
    known = ", ".join(f"{other.workflow} version {other.version} on {other.queue}" for other in listed[:10])
    alive = counted(len(scene.workers), "worker")
    return f"no live worker knows {what}; {otherwise}. {alive} alive, knowing: {known}."


def _lanes(workers: Iterable[WorkerRecord]) -> list[Lane]:
    found = {lane for worker in workers for lane in worker.lanes}
    return sorted(found)
