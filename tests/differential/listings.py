"""Random listings: filters of every kind, pages, and cursors that are none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from holdfast.model import SECOND, RunStatus
from tests.differential.life import LifeDice, Operation

WORKFLOWS = ("ship", "b\"ill's", "größe")
KEYS = ("k", "clé/1", "%k_")
FINAL = tuple(status for status in RunStatus if status.is_final and status is not RunStatus.CONTINUED)
LIVE = tuple(status for status in RunStatus if not status.is_final)
BEGUN = tuple(status for status in LIVE if status is not RunStatus.PENDING)
"""What a turn makes of a run that goes on. Pending it is again only if it is handed back without a turn."""
ACCEPTS = {"even": lambda record: int(record.id[1:]) % 2 == 0, "none": lambda record: False}


@dataclass
class ListingDice(LifeDice):
    """What is asked about many runs."""

    def _list(self) -> Operation:
        where: dict[str, Any] = {}
        if self._is(0.4):
            where["workflow"] = self._one(*WORKFLOWS, "unknown")
        if self._is(0.4):
            where["status"] = self._one(*LIVE, *FINAL, ("pending", "failed"), (RunStatus.RUNNING, "waiting"), "none")
        if self._is(0.3):
            where["key"] = self._one(*KEYS, "unknown")
        if self._is(0.2):
            where["tags"] = self._one({"a": "b"}, {"é": '"'}, {"a": "z"})
        if self._is(0.2):
            where["parent"] = self._some_id()
        if self.records:
            found = self._one(*self.records.values())
            if self._is(0.2):
                where["since"] = found.created_at + timedelta(microseconds=self._one(-1, 0, 1))
            if self._is(0.2):
                where["until"] = found.created_at + timedelta(microseconds=self._one(-1, 0, 1))
        arguments: dict[str, Any] = {"where": where, "limit": self._one(1, 2, 3, 100)}
        if self._is(0.05):
            arguments["limit"] = self._one(0, -1)
        if self._is(0.05):
            arguments["cursor"] = self._one("", "none", "AAAA", "é")
        if self._is(0.15):
            arguments["accept"] = self._one(*ACCEPTS)
        return Operation("list_runs", arguments, self._via())

    def _versions(self) -> Operation:
        later = self._one(0, 40 * SECOND)
        arguments = {"workflow": self._one(None, *WORKFLOWS, "unknown"), "now": self.now + later}
        return Operation("list_versions", arguments, self._via())
