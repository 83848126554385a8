"""Records of the client as answers: who may see what of a run, an entry or an error. Reads only handles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.client import AsyncClient, AsyncRun, Explanation, JournalEntry
from holdfast.codec import Shown, message_of, plain, readable_traceback
from holdfast.errors import CodecError, HoldfastError, RunCancelled, RunFailed, StepFailed
from holdfast.model import RunRecord, RunStatus, open_steps

from .shapes import (
    CallShown,
    EntryShown,
    Explained,
    Failure,
    Fault,
    Outcome,
    RunShown,
    RunStarted,
    RunSummary,
    StepShown,
)

_SUMMARY = tuple(name for name in RunSummary.model_fields if name != "is_blocked")
_WITH_RESULT = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class _End:
    """How a run has ended: with a result, an error, or a result that can't be read here."""

    result: Any = None
    error: BaseException | None = None
    unreadable: str | None = None


_NOTHING = _End()


def summary(run: AsyncRun[Any]) -> RunSummary:
    """A run as listings show it."""
    return RunSummary(**_fields(_record(run)))


def started(run: AsyncRun[Any]) -> RunStarted:
    return RunStarted(**_fields(_record(run)), created=bool(run.created))


async def shown(client: AsyncClient, run: AsyncRun[Any], sees: bool) -> RunShown:
    """A run with its payloads, if the caller may see them."""
    record = _record(run)
    end = await _end_of(client, run) if record.status in _WITH_RESULT else _NOTHING
    return RunShown(
        **_fields(record),
        hidden=not sees,
        input=_arguments_shown(client, record) if sees else None,
        input_size=len(record.input),
        result=plain(end.result) if sees else None,
        result_size=None if record.output is None else len(record.output),
        unreadable=plain(end.unreadable) if sees else None,
        error=_failure_shown(client, run, end.error, sees),
        blocked=plain(record.blocked) if sees else None,
    )


async def outcome(client: AsyncClient, run: AsyncRun[Any], sees: bool) -> Outcome:
    """How a run has ended; for one that continued, how the last run of its chain has."""
    try:
        end = await _end_of(client, run)
    except TimeoutError:
        return Outcome(id=run.id, status=run.status.value, done=False, hidden=not sees, unreadable=None, error=None)
    return Outcome(
        id=run.id,
        status=run.status.value,
        done=True,
        hidden=not sees,
        result=plain(end.result) if sees else None,
        unreadable=plain(end.unreadable) if sees else None,
        error=_failure_shown(client, run, end.error, sees),
    )


def fault(error: BaseException | None, sees: bool) -> Fault | None:
    """An error: its class, and its message if the caller may see that."""
    if error is None:
        return None
    name = error.type.rpartition(".")[2] if isinstance(error, StepFailed) and error.type else type(error).__name__
    return Fault(type=plain(name), message=plain(message_of(error)) if sees else None)


def entry_shown(entry: JournalEntry, sees: bool) -> EntryShown:
    return EntryShown(
        number=entry.number,
        seq=entry.seq,
        epoch=entry.epoch,
        at=entry.at,
        kind=entry.kind,
        key=entry.key,
        attempt=entry.attempt,
        value=plain(entry.value) if sees else None,
        error=fault(entry.error, sees),
        note=plain(entry.note) if sees else None,
    )


def steps_shown(entries: Sequence[JournalEntry], sees: bool) -> list[StepShown]:
    """The state of each step, from the entries about it."""
    steps: dict[str, StepShown] = {}
    for number, entry in enumerate(entries, 1):
        if entry.kind == "run_retrying":
            for key in open_steps(one.entry for one in entries[:number]):
                steps[key] = _asked(key, entry.at)
        if entry.key is None or not entry.kind.startswith("step_"):
            continue
        if entry.kind == "step_asked" or entry.key not in steps:
            steps[entry.key] = _asked(entry.key, entry.at)
        known = steps[entry.key]
        if entry.kind == "step_retrying":
            known.status, known.attempt = "retrying", (entry.attempt or 1) + 1
        elif entry.kind in ("step_completed", "step_failed"):
            known.status = "completed" if entry.kind == "step_completed" else "failed"
            known.attempt, known.ended_at = entry.attempt or known.attempt, entry.at
            known.value = plain(entry.value) if sees else None
        known.error = fault(entry.error, sees)
    return list(steps.values())


def _asked(key: str, at: datetime) -> StepShown:
    return StepShown(key=key, status="asked", attempt=1, asked_at=at, ended_at=None, value=None, error=None)


def explained(found: Explanation, sees: bool) -> Explained:
    details = {str(name): plain(value) for name, value in found.details.items()}
    return Explained(
        id=found.run_id,
        reason=found.reason.value,
        hidden=not sees,
        text=plain(found.text) if sees else None,
        details=details if sees else None,
    )


def _failure_shown(client: AsyncClient, run: AsyncRun[Any], error: BaseException | None, sees: bool) -> Failure | None:
    told = fault(error, sees)
    if told is None:
        return None
    # The record as it was read: for a chain, that of the run that ended it.
    where = readable_traceback(client.codec, _record(run).error) if sees else None
    return Failure(**told.model_dump(), traceback=plain(where))


async def _end_of(client: AsyncClient, run: AsyncRun[Any]) -> _End:
    """How a run has ended. Raises TimeoutError if it has not."""
    if await run.wait(timeout=0) is RunStatus.COMPLETED:
        output = _record(run).output
        try:
            return _NOTHING if output is None else _End(result=client.codec.value(Shown).decode(output))
        except CodecError as unreadable:
            # Written with another codec. The run itself has completed, so this is no error of its own.
            return _End(unreadable=str(unreadable))
    try:
        await run.result(timeout=0)
    except RunFailed as failed:
        return _End(error=failed.__cause__ or failed)
    except RunCancelled as cancelled:
        return _End(error=cancelled)
    except HoldfastError as error:
        if type(error) is not HoldfastError:
            raise
        # The run ended in a way that leaves no result.
        return _End(error=error)
    return _NOTHING


def _arguments_shown(client: AsyncClient, record: RunRecord) -> CallShown | None:
    try:
        positional, named = client.codec.plain_arguments(record.input)
    except CodecError:
        return None
    return CallShown(args=plain(positional), kwargs=plain(named))


def _record(run: AsyncRun[Any]) -> RunRecord:
    record = run.record
    assert record is not None, "a run that was read has a record"
    return record


def _fields(record: RunRecord) -> dict[str, Any]:
    told = {name: getattr(record, name) for name in _SUMMARY}
    return {**told, "status": record.status.value, "tags": dict(record.tags), "is_blocked": record.blocked is not None}
