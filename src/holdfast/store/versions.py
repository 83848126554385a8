"""Answers worked out from the versions of workflows that workers have registered, whatever the dialect. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.model import Trigger, WorkflowCount, WorkflowVersion, natural


def triggers_of(versions: Iterable[WorkflowVersion], event: str) -> list[Trigger]:
    """Workflows that begin a run for the event. The newest version of a workflow decides, even if it declares another
    event or none."""
    newest = {found.workflow: found for found in sorted(versions, key=lambda found: found.age)}
    return [
        Trigger(
            found.workflow,
            found.version,
            found.declared.queue,
            event,
            found.declared.match,
            found.declared.deadline,
            found.declared.retention,
        )
        for _, found in sorted(newest.items())
        if found.declared is not None and found.declared.on_event == event
    ]


def counted(rows: Iterable[Sequence[Any]], versions: Iterable[WorkflowVersion]) -> list[WorkflowCount]:
    """Every workflow registered or started, from rows of list_workflows. Its versions that were never registered come
    first."""
    first: defaultdict[str, dict[str, int]] = defaultdict(dict)
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for workflow, version, status, count in rows:
        first[workflow].setdefault(version, -1)
        if status is not None:
            counts[workflow][status] = counts[workflow].get(status, 0) + count
    for found in versions:
        first[found.workflow][found.version] = found.first_at
    return [
        WorkflowCount(
            name=workflow,
            versions=tuple(sorted(known, key=lambda version: (known[version], natural(version)))),
            counts=counts[workflow],
        )
        for workflow, known in sorted(first.items())
    ]
