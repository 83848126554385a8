"""Making forks: of one run, or of all that a filter lets through. forks.py says what a fork is.

Arguments are checked against every workflow that is going to get them before the first fork is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypedDict

from holdfast.define import Workflow
from holdfast.errors import BadArguments, DefinitionError, NoSuchStep, NotDecodable, RunNotFound
from holdfast.model import Lane, NewRun, NotGiven, RunRecord

from .connections import Connection
from .forks import fork_of
from .runs import AsyncRun
from .starts import next_lane, place_of, sealed_input

_BATCH = 100
"""How many forks begin in one transaction. Each brings its part of a journal along."""


class Edits(TypedDict, total=False):
    """The options of a fork; see AsyncClient.fork."""

    at: str | None
    input: Sequence[Any] | NotGiven
    result: Any
    workflow: Workflow[..., Any] | None


class Forks:
    """One request for forks: where they are cut, and what is different in them."""

    def __init__(
        self,
        connection: Connection,
        at: str | None,
        input: Sequence[Any] | NotGiven,
        result: bytes | None,
        workflow: Workflow[..., Any] | None,
    ) -> None:
        self._connection = connection
        self._at = at
        self._input = input
        self._result = result
        self._workflow = workflow
        self._codes: dict[tuple[str, str, str], tuple[Lane, bytes | None]] = {}
        """By a run's workflow, version and queue: the lane of its fork, and its arguments if others were given."""

    async def make(self, record: RunRecord) -> AsyncRun[Any]:
        """Fork one run."""
        await self._learn(record)
        store = await self._connection.opened()
        [started] = await store.start_runs([await self._fork(record)])
        workflow = self._workflow or record.workflow
        return AsyncRun(self._connection, started.id, workflow=workflow, status=started.status, created=True)

    async def make_all(self, records: Sequence[RunRecord]) -> int:
        """Fork those of the runs that have asked for the step. Returns how many there were."""
        for record in records:
            await self._learn(record)
        store = await self._connection.opened()
        count = 0
        for start in range(0, len(records), _BATCH):
            news: list[NewRun] = []
            for record in records[start : start + _BATCH]:
                # A run may be deleted meanwhile, or have a journal that can't be read.
                with suppress(NoSuchStep, NotDecodable, RunNotFound):
                    news.append(await self._fork(record))
            count += len(await store.start_runs(news)) if news else 0
        return count

    async def _learn(self, record: RunRecord) -> None:
        code = record.workflow, record.version, record.queue
        if code not in self._codes:
            self._codes[code] = await self._placed(record)
        lane, given = self._codes[code]
        workflow = self._workflow
        if workflow is None or given is not None or not lane.version == workflow.version != record.version:
            return
        codec = self._connection.codec
        try:
            codec.arguments(workflow.fn).unpack(codec.open(record.input))
        except NotDecodable as error:
            raise BadArguments(
                f"fork(workflow={workflow!r}): it can't take the arguments that run {record.id} was started with: "
                f"{error}; give others with input="
            ) from error

    async def _placed(self, record: RunRecord) -> tuple[Lane, bytes | None]:
        workflow = self._workflow
        if workflow is not None and workflow.name != record.workflow:
            raise DefinitionError(
                f"fork(workflow={workflow.name!r}): run {record.id} is of {record.workflow!r}, and so is its fork; "
                f"give that workflow, or start one of {workflow.name!r}"
            )
        store = await self._connection.opened()
        versions = await store.list_versions(record.workflow)
        # From the start there is no history that the given version might not match.
        own = workflow.version if workflow is not None and self._at is None else record.version
        lane = next_lane(versions, own, record)
        if isinstance(self._input, NotGiven):
            return lane, None
        place = place_of([one for one in versions if one.version == lane.version], None)
        call = tuple(self._input), dict[str, Any]()
        # Checked against the version that is going to get them.
        target = workflow if workflow is not None and workflow.version == lane.version else record.workflow
        return lane, sealed_input(self._connection.codec, target, call, place)

    async def _fork(self, record: RunRecord) -> NewRun:
        store = await self._connection.opened()
        lane, given = self._codes[record.workflow, record.version, record.queue]
        rows = await store.read_journal(record.id)
        if not rows:
            # It was deleted since it was found: this raises RunNotFound.
            await self._connection.found(record.id)
        new = fork_of(
            record,
            rows,
            at=self._at,
            input=given,
            result=self._result,
            lane=lane,
            now=await store.read_clock(),
        )
        return self._connection.traced_after(new, record)
