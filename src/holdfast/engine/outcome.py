"""How a body's end becomes the run's: completed, failed, cancelled, or tried again."""

from __future__ import annotations

from hashlib import blake2b
from operator import attrgetter
from typing import Any, Protocol

from holdfast.codec import Codec, unreadable
from holdfast.define import RunInfo, Workflow
from holdfast.errors import CodecError, Continued, DeadlineExceeded, JournalLimitReached, NotCompensated
from holdfast.model import Cancel, Ended, Inherited, Instant, NewRun, RunRetrying, RunStatus, encode_entries

from .commands import Advance, Command
from .endings import failure_of, lost_failures
from .inheritance import bequeathed
from .life import Life, id_after
from .loop import BodyLoop
from .shapes import shapes_of
from .tasks import BodyTask

_failed_at = attrgetter("failed_at")


class Finished(Protocol):
    """What this file needs of an execution whose main task is done."""

    workflow: Workflow[Any, Any]
    run: RunInfo
    time: Instant
    began_at: Instant
    cancel: Cancel | None
    main: BodyTask[Any] | None
    ended_main: BodyTask[Any] | None
    verdict: Exception | None
    failure: bytes
    """The stored error of an earlier try of the run, or of a step that the deadline cut off; empty if there is none."""
    commands: dict[str, Command]
    loop: BodyLoop
    _life: Life | None

    @property
    def life(self) -> Life: ...

    @property
    def is_cancelled(self) -> bool: ...

    def unhandled(self, context: dict[str, Any]) -> None: ...


def settle(
    body: Finished, codec: Codec, seed: bytes, done: Advance, *, may_retry: bool, missed: Cancel | None = None
) -> None:
    """Add the run's end to the turn. `missed` is a cancel that came with it, too late for the body to see: it is noted.

    Steps that are still open are withdrawn; those that were only just asked for are not begun.
    """
    done.begin, begun = [], set(map(id, done.begin))
    done.withdrawn = [*done.withdrawn] + [command for command in body.commands.values() if id(command) not in begun]
    output, error = _result(body, codec)
    cancel = body.cancel
    if _is_late(body, error):
        late = DeadlineExceeded(f"{body.run!r} did not end before its deadline, {body.run.deadline}")
        if error is None and body.failure:
            error = codec.decode_exception(body.failure, home=body.workflow.fn.__module__)
        late.__cause__ = error
        output, error, is_cancelled = None, late, False
    else:
        is_cancelled = body.verdict is None and body.is_cancelled
    undone, hooks = _undone(body), _hooks(body)
    if is_cancelled:
        stored = None if undone is None else codec.encode_exception(undone)
        done.ended = Ended(body.time, RunStatus.CANCELLED, None, stored, hooks=hooks)
    elif isinstance(error, Continued):
        new = _successor(body, codec, seed, error)
        body.life.successor = new
        done.ended = Ended(body.time, RunStatus.CONTINUED, new.id.encode())
    elif error is None:
        done.ended = Ended(body.time, RunStatus.COMPLETED, output)
    else:
        notes = [] if missed is None else [_missed(missed)]
        stored = codec.encode_exception(error, notes=[*notes, str(undone)] if undone else notes)
        done.retrying = _retrying(body, error, stored, seed) if may_retry and cancel is None else None
        if done.retrying is None:
            done.ended = Ended(body.time, RunStatus.FAILED, None, stored, hooks=hooks)
    done.entries.append(done.ended or done.retrying)  # type: ignore[arg-type]  # one of the two is set
    # A retry is no end: the next try may look at the failures of its own tasks.
    if done.ended is not None and len(body.loop.tasks) > 1:
        _report_lost(body)


def _report_lost(body: Finished) -> None:
    """Report the failures of tasks that nobody awaited. When the tasks are freed it is too late for that."""
    own = (body.main, body.ended_main)
    for name, error in lost_failures(task for task in body.loop.tasks.values() if task not in own):
        what = f"the exception of its task {name!r} was never retrieved: await the task, or catch it there"
        body.unhandled({"message": what, "exception": error})


def _is_late(body: Finished, error: BaseException | None) -> bool:
    """Whether the deadline decides how the run ends: it was delivered, or the body failed after it had passed.

    The body may fail so late if the deadline wakes the run from the pause before its next try. Cleanup is exempt.
    """
    life, cancel = body._life, body.cancel
    if cancel is not None and not (life is not None and life.is_exempt):
        return cancel.deadline
    if error is None or isinstance(error, Continued) or body.verdict is not None:
        return False
    return _is_over(body, life.failed_at if life is not None and life.is_compensating else body.time)


def last_failure(body: Finished) -> bytes:
    """The stored error that came last when the deadline passed: of a step that was to be retried, else of an earlier
    try."""
    return max((one for one in body.commands.values() if one.failure), key=_failed_at, default=body).failure


def _is_over(body: Finished, at: Instant) -> bool:
    return body.run.deadline_instant is not None and body.run.deadline_instant <= at


def _result(body: Finished, codec: Codec) -> tuple[bytes | None, BaseException | None]:
    if body.verdict is not None:
        return None, body.verdict
    main = _main(body)
    assert main is not None
    if main.cancelled():
        return None, None
    error = failure_of(main)
    if error is None and body._life is not None:
        # The body caught the exception and went on to its end, but continue_as_new decides.
        error = body._life.continued
    if error is not None:
        return None, error
    try:
        return shapes_of(body.workflow, codec).result.encode(main.result()), None
    except CodecError as said:
        refused: CodecError = said
    except (Exception, KeyboardInterrupt):
        # This is not the value's fault: the codec's chain can't be applied here and now, say. It blocks the run.
        raise
    except BaseException as odd:
        # Code of the result's own class raised this. The worker must not fail because of it.
        refused = unreadable("result", odd)
        refused.__cause__ = odd
    refused.add_note(
        f"this is the result of the workflow {body.workflow.name!r}: annotate it, or return plain data; "
        "then retry the run, which keeps what its steps have done"
    )
    return None, refused


def _main(body: Finished) -> BodyTask[Any] | None:
    """The body's own task, also after compensations."""
    return body.main if body.ended_main is None else body.ended_main


def _undone(body: Finished) -> NotCompensated | None:
    """The error that lists what could not be undone; None if all was."""
    life = body._life
    if life is None:
        return None
    failed = [*life.uncompensated.values()]
    if body.verdict is not None:
        failed += dict.fromkeys(f"{one.name}: the run was stopped before it" for one in life.to_undo)
    return NotCompensated("could not be compensated: " + "; ".join(failed)) if failed else None


def _successor(body: Finished, codec: Codec, seed: bytes, asked: Continued) -> NewRun:
    """The run that continues this one. The store hands over everything that can't be read here."""
    run, target = body.run, asked.workflow
    drawn = blake2b(run.own_id.encode(), key=seed, person=b"holdfast next", digest_size=24).digest()
    life = body.life
    owed, mail, hooks = bequeathed(life.to_undo, codec, target), life.mail_to_leave(), life.hooks_to_leave(body.time)
    made = life.hooks_before + len(life.hooks)
    id = id_after(run.chain_id, drawn[16:])
    return NewRun(
        id=id,
        workflow=target.name,
        version=target.version,
        input=codec.seal(asked.plain),
        seed=drawn[:16],
        queue=run.own_queue or target.queue,
        key=run.key,
        deadline_at=run.deadline_instant,
        priority=run.priority,
        tags=run.tags,
        retention=target.retention,
        chain_id=run.chain_id,
        # A successor begins a life of its own: what it charges next month is another charge.
        origin_id=id,
        parent_id=run.parent_id,
        rows=(encode_entries([Inherited(body.time, owed, mail, hooks, made)]),) if owed or mail or made else (),
    )


def would_retry(body: Finished, seed: bytes) -> bool:
    """Whether the workflow's policy tries again after this end of the body."""
    main = body.main
    if main is None or main.cancelled() or body.cancel is not None or body.verdict is not None:
        return False
    error = failure_of(main)
    return error is not None and _retrying(body, error, b"", seed) is not None


def _missed(cancel: Cancel) -> str:
    if cancel.deadline:
        return "its deadline passed as it failed, too late for the body to notice"
    why = f" ({cancel.reason})" if cancel.reason else ""
    return f"it was cancelled{why} as it failed, too late for the body to notice; so it is not tried again"


def _is_full(error: BaseException) -> bool:
    """Whether the error says that the journal has no room for another try. In a task group it comes in a group."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(JournalLimitReached) is not None
    return isinstance(error, JournalLimitReached)


def _retrying(body: Finished, error: BaseException, stored: bytes, seed: bytes) -> RunRetrying | None:
    policy = body.workflow.retry
    if policy is None or _is_full(error) or _is_over(body, body.time):
        return None
    if body._life is not None and body._life.has_undone:
        # A next try would build on what has been undone.
        return None
    attempt = body.run.attempt
    drawn = blake2b(attempt.to_bytes(8, "big"), key=seed, person=b"holdfast retry", digest_size=4).digest()
    try:
        pause = policy.delay(error, attempt, body.time - body.began_at, int.from_bytes(drawn, "big") / 2**32)
    except Exception:  # A RetryAfter without its delay, say: as of a step it is the last try, and no reason to block.
        pause = None
    if pause is None:
        return None
    failed = () if body._life is None else tuple(body._life.failed)
    return RunRetrying(body.time, attempt, stored, body.time + pause, body.began_at, failed=failed, hooks=_hooks(body))


def _hooks(body: Finished) -> tuple[str, ...]:
    """The names of the hooks that the run has made: a run that repeats this one makes them again."""
    return () if body._life is None else tuple(body._life.hooks)
