"""Workflows: which versions workers have registered, and how many runs there are."""

from __future__ import annotations

import re
from collections import defaultdict

from holdfast.model import WorkflowCount

from .transactions import Transaction


def newest_version(tx: Transaction, workflow: str, preferred: str | None) -> str | None:
    """The preferred one if it is registered, else the one that was registered last."""
    rows = tx.all("newest_version", {"namespace_id": tx.namespace_id, "workflow": workflow})
    versions = {version: first_at for _, version, first_at in rows}
    if preferred in versions:
        return preferred
    return max(versions, key=lambda version: (versions[version], natural(version)), default=None)


def list_workflows(tx: Transaction) -> list[WorkflowCount]:
    """Every workflow registered or started. Versions nobody has registered come first."""
    first: defaultdict[str, dict[str, int]] = defaultdict(dict)
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for workflow, version, status, count in tx.all("list_workflows", {"namespace_id": tx.namespace_id}):
        first[workflow].setdefault(version, -1)
        if status is not None:
            counts[workflow][status] = counts[workflow].get(status, 0) + count
    for workflow, version, first_at in tx.all("newest_version", {"namespace_id": tx.namespace_id, "workflow": None}):
        first[workflow][version] = first_at
    return [
        WorkflowCount(
            name=workflow,
            versions=tuple(sorted(versions, key=lambda version: (versions[version], natural(version)))),
            counts=counts[workflow],
        )
        for workflow, versions in sorted(first.items())
    ]


def natural(version: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts "10" after "9" and "1.10" after "1.9"."""
    return tuple(
        (1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.split(r"(\d+)", version) if part
    )
