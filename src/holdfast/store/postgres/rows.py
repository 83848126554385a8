"""Rows become records. Only here and in the .sql files does the order of columns matter; no row leaves the store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from holdfast.model import (
    ClaimedRun,
    Declared,
    Instant,
    JournalRow,
    Lane,
    Message,
    RunRecord,
    RunStatus,
    WaitRecord,
    WorkerRecord,
    WorkflowVersion,
    moment_of,
)

from .transactions import Row

STATUS = {status.value: status for status in RunStatus}
_NO_TAGS: Mapping[str, str] = {}
_tags = msgspec.json.Decoder(dict[str, str])
_declared = msgspec.json.Decoder(Declared)
_lanes = msgspec.json.Decoder(tuple[tuple[str, str, str], ...])


def run_record(row: Row) -> RunRecord:
    """A row of select_runs."""
    (_number, id, workflow, version, queue, status, paused, key, tags, priority, created_at, started_at, ended_at,
     due_at, deadline_at, retention, chain_id, origin_id, parent_id, forked_from, successor_id, after_run_id, owner,
     epoch, crashes, blocked, input, output, error, trace) = row  # fmt: skip
    return RunRecord(
        id=id,
        workflow=workflow,
        version=version,
        queue=queue,
        status=STATUS[status],
        paused=paused,
        key=key,
        tags=tags_of(tags),
        priority=priority,
        created_at=moment_of(created_at),
        started_at=_moment(started_at),
        ended_at=_moment(ended_at),
        due_at=_moment(due_at),
        deadline_at=_moment(deadline_at),
        retention=retention,
        chain_id=chain_id,
        origin_id=origin_id,
        parent_id=parent_id,
        forked_from=forked_from,
        successor_id=successor_id,
        after_run_id=after_run_id,
        owner=owner,
        epoch=epoch,
        # It is -1 where the next claim will count a crash that was none.
        crashes=max(crashes, 0),
        blocked=blocked,
        input=input,
        output=output,
        error=error,
        trace=trace,
    )


def claimed_run(row: Row, next_seq: int, rows: tuple[JournalRow, ...], inbox: tuple[Message, ...]) -> ClaimedRun:
    """The run of a row of claim_runs, as it is after the claim."""
    (_number, id, workflow, version, epoch, stored_seq, input, seed, key, tags, priority, created_at, started_at,
     deadline_at, chain_id, parent_id, queue, paused, crashes, blocked, _has_messages, due_at, now, trace,
     origin_id, has_to_wait, is_first) = row  # fmt: skip
    return ClaimedRun(
        id=id,
        workflow=workflow,
        version=version,
        epoch=epoch,
        next_seq=next_seq,
        input=input,
        seed=seed,
        key=key,
        tags=tags_of(tags),
        priority=priority,
        created_at=created_at,
        started_at=started_at,
        claimed_at=now,
        due_at=due_at,
        deadline_at=deadline_at,
        chain_id=chain_id,
        origin_id=origin_id,
        parent_id=parent_id,
        queue=queue,
        is_paused=paused,
        crashes=crashes,
        is_takeover=stored_seq is None,
        has_to_wait=has_to_wait,
        is_first=is_first,
        blocked=blocked,
        trace=trace,
        rows=rows,
        inbox=inbox,
    )


def wait_record(row: Row) -> WaitRecord:
    """A row of read_waits or find_hook."""
    run_id, number, kind, name, match, schema, expires_at, registered_at = row
    return WaitRecord(
        run_id=run_id,
        number=number,
        kind=kind,
        name=name,
        match=match,
        schema=schema,
        expires_at=expires_at,
        registered_at=registered_at,
    )


def worker_record(row: Row) -> WorkerRecord:
    """A row of list_workers."""
    id, host, pid, _has_lock, started_at, renewed_at, lease_until, lanes, _now = row
    return WorkerRecord(
        id=id,
        host=host,
        pid=pid,
        started_at=moment_of(started_at),
        renewed_at=moment_of(renewed_at),
        lease_until=moment_of(lease_until),
        lanes=tuple(Lane(*lane) for lane in _lanes.decode(lanes)),
    )


def workflow_version(row: Row) -> WorkflowVersion:
    """A row of list_versions."""
    workflow, version, first_at, declared, queues = row
    return WorkflowVersion(
        workflow=workflow,
        version=version,
        first_at=first_at,
        queues=tuple(sorted(queues or ())),
        declared=None if declared is None else _declared.decode(declared),
    )


def tags_of(text: str) -> Mapping[str, str]:
    """Tags by name, from their JSON."""
    return _NO_TAGS if text == "{}" else _tags.decode(text)


def _moment(instant: Instant | None) -> datetime | None:
    return None if instant is None else moment_of(instant)
