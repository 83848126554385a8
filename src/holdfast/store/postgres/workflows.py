"""Workflows: which versions workers have registered, and how many runs there are."""

from __future__ import annotations

from collections import defaultdict

from holdfast.model import Instant, WorkflowCount, WorkflowVersion, natural

from .rows import workflow_version
from .transactions import Transaction


async def list_versions(tx: Transaction, workflow: str | None, now: Instant | None) -> list[WorkflowVersion]:
    """What workers have registered, the newest last."""
    rows = await tx.all("list_versions", {"namespace_id": tx.namespace_id, "workflow": workflow, "now": now})
    return sorted((workflow_version(row) for row in rows), key=lambda found: found.age)


async def list_workflows(tx: Transaction) -> list[WorkflowCount]:
    """Every workflow registered or started. Versions nobody has registered come first."""
    first: defaultdict[str, dict[str, int]] = defaultdict(dict)
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for workflow, version, status, count in await tx.all("list_workflows", {"namespace_id": tx.namespace_id}):
        first[workflow].setdefault(version, -1)
        if status is not None:
            counts[workflow][status] = counts[workflow].get(status, 0) + count
    for found in await list_versions(tx, None, None):
        first[found.workflow][found.version] = found.first_at
    return [
        WorkflowCount(
            name=workflow,
            versions=tuple(sorted(versions, key=lambda version: (versions[version], natural(version)))),
            counts=counts[workflow],
        )
        for workflow, versions in sorted(first.items())
    ]
