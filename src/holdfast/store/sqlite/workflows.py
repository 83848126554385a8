"""Workflows: which versions workers have registered, and how many runs there are."""

from __future__ import annotations

from holdfast.model import Instant, WorkflowCount, WorkflowVersion
from holdfast.store.versions import counted

from .rows import workflow_version
from .transactions import Transaction


def list_versions(tx: Transaction, workflow: str | None, now: Instant | None) -> list[WorkflowVersion]:
    """What workers have registered, the newest last."""
    params = {"namespace_id": tx.namespace_id, "workflow": workflow, "now": tx.now(now)}
    return sorted((workflow_version(row) for row in tx.all("list_versions", params)), key=lambda found: found.age)


def list_workflows(tx: Transaction) -> list[WorkflowCount]:
    """Every workflow registered or started."""
    rows = tx.all("list_workflows", {"namespace_id": tx.namespace_id})
    return counted(rows, list_versions(tx, None, None))
