"""Answers worked out from the versions of workflows that workers have registered, whatever the dialect. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.model import Trigger, WorkflowCount, WorkflowVersion, natural, newest_of


def triggers_of(versions: Iterable[WorkflowVersion], event: str) -> list[Trigger]:
    """Workflows that begin a run for the event. Of each workflow one version decides, the one that a start by name
    takes, even if it declares another event or none: with a newer one that nobody executes, the run would stay pending.
    """
    known: defaultdict[str, list[WorkflowVersion]] = defaultdict(list)
    for one in versions:
        known[one.workflow].append(one)
    triggers: list[Trigger] = []
    for workflow in sorted(known):
        found = newest_of(known[workflow])
        declared = None if found is None else found.declared
        if found is not None and declared is not None and declared.on_event == event:
            queue = found.served_on(declared.queue)
            triggers.append(
                Trigger(workflow, found.version, queue, event, declared.match, declared.deadline, declared.retention)
            )
    return triggers


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
