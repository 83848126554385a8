"""How a body's end becomes the run's: completed, failed, cancelled, or tried again."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Protocol

from holdfast.codec import Codec
from holdfast.define import RunInfo, Workflow
from holdfast.errors import CodecError, DeadlineExceeded, JournalLimitReached
from holdfast.model import Cancel, Ended, Instant, RunRetrying, RunStatus

from .commands import Advance, Command
from .loop import BodyTask


class Finished(Protocol):
    """What this file needs of an execution whose main task is done."""

    workflow: Workflow[Any, Any]
    run: RunInfo
    time: Instant
    began_at: Instant
    cancel: Cancel | None
    main: BodyTask[Any] | None
    verdict: Exception | None
    commands: dict[str, Command]


def settle(
    body: Finished, codec: Codec, seed: bytes, done: Advance, *, may_retry: bool, missed: Cancel | None = None
) -> None:
    """Add the end to the turn. `missed` is a cancel that came with it, too late for the body to see: it is noted.

    Steps still open lost their race: they are withdrawn, and what was only just asked is not begun.
    """
    done.begin, begun = [], set(map(id, done.begin))
    done.withdrawn = [*done.withdrawn] + [command for command in body.commands.values() if id(command) not in begun]
    output, error = _result(body, codec)
    cancel = body.cancel
    if cancel is not None and cancel.deadline:
        late = DeadlineExceeded(f"{body.run!r} did not end before its deadline, {body.run.deadline}")
        late.__cause__ = error
        output, error, is_cancelled = None, late, False
    else:
        is_cancelled = body.verdict is None and body.main is not None and body.main.cancelled()
    if is_cancelled:
        done.ended = Ended(body.time, RunStatus.CANCELLED)
    elif error is None:
        done.ended = Ended(body.time, RunStatus.COMPLETED, output)
    else:
        stored = codec.encode_exception(error, notes=() if missed is None else [_missed(missed)])
        done.retrying = _retrying(body, error, stored, seed) if may_retry and cancel is None else None
        if done.retrying is None:
            done.ended = Ended(body.time, RunStatus.FAILED, None, stored)
    done.entries.append(done.ended or done.retrying)  # type: ignore[arg-type]  # one of the two is set


def _result(body: Finished, codec: Codec) -> tuple[bytes | None, BaseException | None]:
    if body.verdict is not None:
        return None, body.verdict
    main = body.main
    assert main is not None
    if main.cancelled():
        return None, None
    error = main.exception()
    if error is not None:
        return None, error
    try:
        return codec.result(body.workflow.fn).encode(main.result()), None
    except CodecError as refused:
        refused.add_note(
            f"this is the result of the workflow {body.workflow.name!r}: annotate it, or return plain data; "
            "then retry the run, which keeps what its steps have done"
        )
        return None, refused


def _missed(cancel: Cancel) -> str:
    if cancel.deadline:
        return "its deadline passed as it failed, too late for the body to notice"
    why = f" ({cancel.reason})" if cancel.reason else ""
    return f"it was cancelled{why} as it failed, too late for the body to notice; so it is not tried again"


def _retrying(body: Finished, error: BaseException, stored: bytes, seed: bytes) -> RunRetrying | None:
    policy = body.workflow.retry
    if policy is None or isinstance(error, JournalLimitReached):
        return None
    attempt = body.run.attempt
    drawn = blake2b(attempt.to_bytes(8, "big"), key=seed, person=b"holdfast retry", digest_size=4).digest()
    pause = policy.delay(error, attempt, body.time - body.began_at, int.from_bytes(drawn, "big") / 2**32)
    if pause is None:
        return None
    return RunRetrying(body.time, attempt, stored, body.time + pause, body.began_at)
