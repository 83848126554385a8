"""Archiving: the client's methods that move runs into files and back. archives.py says what a line of such a file
is."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from holdfast.define import refuse_in_body
from holdfast.errors import NotDecodable, RunNotFound
from holdfast.model import ENDED, Duration, RunFilter, RunRecord, instant_of, microseconds
from holdfast.store import Store, kept_of_chain

from . import archives
from .archives import Imported
from .connections import Connected
from .listings import matching

_BATCH = 200


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune removed: how many runs, and the file in which they were archived, if any.

    `unreadable` are the ids of runs that were left, since their journals can't be read and so can't be archived.
    """

    runs: int
    archived: Path | None = None
    unreadable: tuple[str, ...] = ()


class Archiving(Connected):
    """The part of a client that prunes, exports and imports."""

    async def prune(
        self,
        *,
        older_than: Duration | datetime = "30d",
        where: RunFilter | None = None,
        archive: str | Path | None = None,
    ) -> Pruned:
        """Remove runs that ended longer ago than this, without waiting for the end of their retention.

            pruned = await client.prune(older_than="90d", archive="runs.jsonl")

        A duration counts back from the database's time, which may differ from this host's; an aware datetime is taken
        as it is. With `archive`, each run is first added to that file as a line of JSON, with its journal. A run that
        can't be archived, because its journal was damaged, is not removed, and the answer names it. The first run of a
        chain stays while another run of the chain is kept.
        """
        refuse_in_body("client.prune()", "do it in a step")
        if isinstance(older_than, datetime):
            before, age = instant_of(older_than, what="older_than"), 0
        else:
            before, age = None, microseconds(older_than, what="older_than")
        store = await self._connection.opened()
        if before is None:
            # By the store's clock, which stamps ends, too: a host that is ahead would delete runs that have just ended.
            before = await store.read_clock() - age
        pruning = _Pruning(store, None if archive is None else Path(archive), self._line_of)
        firsts: list[str] = []
        async for record in matching(self._connection, where or RunFilter(), ENDED):
            if record.ended_at is None or instant_of(record.ended_at) > before:
                continue
            if await kept_of_chain(store, record) is None:
                await pruning.add(record)
            else:
                firsts.append(record.id)
        await pruning.remove()
        # A line for a run that stays would be written again by each prune. So these come when the others are gone.
        for run_id in firsts:
            found = await store.get_run(run_id)
            if found is not None and await kept_of_chain(store, found) is None:
                await pruning.add(found)
        await pruning.remove()
        return Pruned(pruning.count, pruning.file if pruning.is_archived else None, tuple(pruning.unreadable))

    async def export(self, run_id: str) -> str:
        """A run with its journal as one line of JSON: to keep it, read it, replay it elsewhere, or import it.

        Payloads stay as the codec wrote them. Raises RunNotFound, and NotDecodable for a journal that was damaged.
        """
        refuse_in_body("client.export()", "do it in a step")
        store, record = await self._connection.found(run_id)
        return await self._line_of(store, record)

    async def import_run(self, line: str | bytes) -> Imported:
        """Bring an ended run back from its line, with its id, its key and its journal; it is kept for ever.

        For another database, or after a prune. If a run with this id exists, or another run holds the key, nothing is
        changed, and the answer says so. Raises DefinitionError for any other text, and for a run that had not ended or
        has continued as new. To import a line again changes nothing.
        """
        refuse_in_body("client.import_run()", "do it in a step")
        return await archives.import_line(await self._connection.opened(), line)

    async def _line_of(self, store: Store, record: RunRecord) -> str:
        rows = await store.read_journal(record.id)
        if not rows:
            # It was deleted since it was found (this raises RunNotFound): a line without a journal would be useless.
            await self._connection.found(record.id)
        holder = None if record.key is None else await store.find_run(record.workflow, record.key)
        holds_key = holder is not None and holder.id == record.id
        return archives.line_of(record, rows, self._connection.codec, holds_key=holds_key)


@dataclass(slots=True)
class _Pruning:
    """Runs on their way out, a batch at a time."""

    store: Store
    file: Path | None
    line_of: Callable[[Store, RunRecord], Awaitable[str]]
    ids: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    count: int = 0
    is_archived: bool = False

    async def add(self, record: RunRecord) -> None:
        """Archive a run, if there is an archive, and then remove it with the others of its batch."""
        if self.file is not None:
            try:
                line = await self.line_of(self.store, record)
            except RunNotFound:
                # Another prune, or the end of its retention, has removed it since it was listed.
                return
            except NotDecodable:
                self.unreadable.append(record.id)
                return
            archives.append(self.file, line)
            self.is_archived = True
        self.ids.append(record.id)
        if len(self.ids) == _BATCH:
            await self.remove()

    async def remove(self) -> None:
        """Remove the batch, after making sure that its lines are on the disk, as the removal will be."""
        if self.file is not None and self.ids:
            with self.file.open("a", encoding="utf-8") as lines:
                os.fsync(lines.fileno())
        self.count += len(await self.store.delete_runs(self.ids)) if self.ids else 0
        self.ids.clear()
