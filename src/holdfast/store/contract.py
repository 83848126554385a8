"""The contract that every store keeps. One method is one transaction is one guarded transition.

Invariants, whatever the dialect:

- The journal's primary key (run, seq) decides. A turn is accepted if its row was inserted, or if the row at that seq
  has this turn's own epoch (its answer was lost, and it is sent again); else it is refused and nothing of it happens.
- A claim of a run that was not handed back writes a `claimed` row at the next seq in the claim's own commit.
- Row-only writes happen only if owner and epoch still match.
- A terminal status never changes.
- `now` is an instant; None means the store's own clock. Only one of the two is used with one database.

Methods may be called from any event loop of the process; each answers on the loop it was called from. When the database
can't be reached they raise StoreAway and have changed nothing, except that a commit whose answer was lost may have
happened: every write here may therefore be sent again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from holdfast.errors import StoreError
from holdfast.model import (
    ClaimedRun,
    Event,
    EventWait,
    Instant,
    JournalRow,
    Lane,
    Looked,
    Message,
    NewRun,
    Page,
    Registration,
    RowWrite,
    RunFilter,
    RunRecord,
    Sent,
    StartedRun,
    StepItems,
    StreamName,
    StreamRecord,
    Swept,
    Trigger,
    Turn,
    Unmatched,
    Unread,
    ValueName,
    WaitRecord,
    WorkerRecord,
    WorkflowCount,
    WorkflowVersion,
)

from .callers import Guest
from .loans import Lender
from .subscribers import News

Answer: TypeAlias = bool | StoreError
"""What became of one item of a batch. True: accepted, or accepted earlier with the answer lost. False: refused, nothing
of it happened. StoreAway: not now, something else holds what it needs; send it again. Another StoreError: it can never
be stored."""


class Store(Protocol):
    """Where runs live. `open_store(url)` gives one; nothing is read or written before `open`."""

    url: str
    """Without a password."""
    namespace: str
    is_remote: bool
    """Whether another process does its work, so that whoever asks for something early can compute meanwhile."""

    async def open(self) -> None:
        """Connect and migrate. Repeating it changes nothing."""

    async def close(self) -> None:
        """Finish what is under way, then disconnect. Repeating it changes nothing."""

    def subscribe(self, changed: Callable[[], None], to: News = News.ANY) -> Callable[[], None]:
        """Call `changed` on this loop whenever something of this kind may have happened.

        Calls are coalesced and may come for nothing. Returns the way to unsubscribe.
        """

    def guest(self, connection: Any) -> Guest:
        """This store inside the transaction of a caller's own connection.

        What is no connection to a database of this kind raises DefinitionError at once, one to another database of
        this kind when it is first used.
        """

    def lender(self, lease: int) -> Lender:
        """What lends connections to the transactional steps of a worker with that lease, on the running loop."""

    async def read_clock(self) -> Instant:
        """The store's own time: what whoever stamps an entry goes by, for a host's clock may be hours off."""

    async def start_runs(self, runs: Sequence[NewRun], *, now: Instant | None = None) -> list[StartedRun]:
        """Create runs, each on its own terms.

        An id that exists is returned as it is (created=False). A key that is taken is settled by `on_conflict`:
        "return", "raise" and "retry" return the run there is (the caller goes on from there); "restart" gives the key
        of an ended run to the new one and returns a live one; "replace" does the same for an ended one, and for a
        live one sends it a cancel and creates the new run with the key, to begin when the old one has ended. So does
        "restart" of a child whose key a live child holds that the end of its own parent has called off. Whoever
        takes a key over from a run that was itself waiting for another waits for that one. An id or a key that comes
        more than once in a call is settled in the order given.

        A run is due after its delay, at the latest at its deadline: one that waits for its delay, or for another run,
        when its deadline passes is claimed then, and its worker ends it.
        """

    async def get_run(self, run_id: str) -> RunRecord | None:
        """One run, or None."""

    async def find_run(self, workflow: str, key: str) -> RunRecord | None:
        """The run that holds the key, or None."""

    async def find_last(self, run_id: str) -> RunRecord | None:
        """The newest run of this run's chain; None if none is left. A live run is its own."""

    async def list_runs(
        self,
        where: RunFilter,
        *,
        cursor: str | None = None,
        limit: int = 100,
        accept: Callable[[RunRecord], bool] | None = None,
    ) -> Page[RunRecord]:
        """Newest first, stable under inserts. What is no cursor raises BadCursor.

        `accept` is one more test, made on any thread; a page on which many fail it may be short, even empty, and have
        a next one. `where.input` is left to it: only a codec can read an input.
        """

    async def read_ended(self, run_ids: Sequence[str]) -> list[RunRecord]:
        """Those of the runs that have ended."""

    async def read_gone(self, run_ids: Sequence[str]) -> list[str]:
        """Those of the ids that no run has, or none any more."""

    async def read_journal(self, run_id: str) -> list[JournalRow]:
        """All turns of a run, in order."""

    async def cancel_run(
        self, run_id: str, *, reason: str | None = None, force: bool = False, now: Instant | None = None
    ) -> RunRecord | None:
        """Ask a run to end, and return it as it was before; None: there is no such run.

        Of a run that has continued, the last run of its chain is meant. An ended run is left alone. One never begun
        ends at once, with a row that holds `Stopped`. A live one gets a "cancel" message, once. With force it ends at
        once whoever holds it: `Claimed` by FORCED with the next epoch, and `Stopped` with what was `skipped`, in one
        row.
        """

    async def find_cancel(self, run_id: str) -> Message | None:
        """The cancel that was sent to this run and that no turn has taken yet; None: there is none."""

    async def claim_runs(
        self,
        worker_id: str,
        lanes: Sequence[Lane],
        limit: int,
        *,
        run_id: str | None = None,
        cached: Mapping[str, int] | None = None,
        unbegun: bool = False,
        suspects: int | None = None,
        now: Instant | None = None,
    ) -> list[ClaimedRun]:
        """Take up to `limit` runs that are due or have fresh messages: larger priority first, then oldest due first.

        Only unowned, unended runs of these lanes (or the one run named); a paused one only for a cancel, or when its
        deadline is over, and both end the pause. Each gets this owner, the next epoch, status running and a
        `started_at` if it has none. `cached` names runs whose journal the caller holds up
        to a next seq: their rows are left out if that is still the stored next seq. With `unbegun`, of the `limit` that
        come first, those are left out that were ever begun, are paused or not due by themselves; none comes in their
        stead. A fixed number of statements, whatever the limit.

        With `suspects`, at most so many come of the runs with whom two workers or more have died, and none together
        with a run with whom one has. The others stay as they are: who dies with this claim in hand has not died with
        them.
        """

    def commit_turns(self, turns: Sequence[Turn], *, now: Instant | None = None) -> Awaitable[Sequence[Answer]]:
        """Group commit: each turn is answered for itself, and one that has to wait, or can never be stored, holds up
        none of the others. What follows such a turn of the same run shares its fate.

        It is on its way when this returns, before anybody awaits the answers: on the hot path every turn of the loop
        counts.
        """

    def write_rows(self, writes: Sequence[RowWrite]) -> Awaitable[Sequence[Answer]]:
        """Park, hand back or block, each guarded by owner and epoch, and each answered for itself.

        One that is handed back as pending is as if it had not been claimed: nothing of it has begun.
        """

    async def read_inbox(self, worker_id: str, *, known: Sequence[int] = ()) -> list[Message]:
        """Fresh messages for runs that this worker holds, oldest first, but for those that it knows already."""

    async def next_due(
        self, lanes: Sequence[Lane], *, suspects: bool = True, now: Instant | None = None
    ) -> Instant | None:
        """When the earliest unowned run of these lanes is due: a time that is not after now if one is due already, or
        has a fresh message; None if none ever will be by itself. Without `suspects` those are left out."""

    async def release_strays(self, worker_id: str, held: Sequence[str], *, now: Instant | None = None) -> list[str]:
        """Hand back what this worker owns and does not hold: a claim's answer was lost on its way. Returns their ids.

        They are due at once and their next claim is no takeover, for nothing of them was begun.
        """

    async def send_signal(
        self,
        run_id: str,
        name: str,
        payload: bytes,
        *,
        message_id: str | None = None,
        trace: str | None = None,
        now: Instant | None = None,
    ) -> Sent:
        """Put a signal into the inbox of the live run of this run's chain. It only inserts.

        SENT, DUPLICATE, ENDED or MISSING. The same `message_id` is sent to a chain once, also after it was taken.
        """

    async def count_unread(self, run_id: str) -> list[Unread]:
        """Messages to this run that no turn has taken yet, by kind and name in their order, up to a hundred names.

        Cancels and pauses are none of them: they are not the body's to read.
        """

    async def publish_event(
        self,
        name: str,
        payload: bytes,
        *,
        message_id: str | None = None,
        trace: str | None = None,
        now: Instant | None = None,
    ) -> Sent:
        """Keep an event, to be matched by any worker: SENT or DUPLICATE. It only inserts, whoever waits for what."""

    async def find_hook(self, token: str) -> WaitRecord | None:
        """The open hook with this digest of a token, or None."""

    async def resume_hook(
        self,
        token: str,
        payload: bytes,
        *,
        message_id: str | None = None,
        trace: str | None = None,
        now: Instant | None = None,
    ) -> Sent:
        """Deliver a payload to a hook, once: SENT, DUPLICATE, USED, EXPIRED, ENDED or MISSING.

        The delete of the wait's row decides who was first; the inbox row is written in the same commit. A hook that its
        run has closed unused is EXPIRED; one that was open when its run ended, ENDED.
        """

    async def read_waits(self, run_id: str) -> list[WaitRecord]:
        """What the live run of this run's chain has registered, in the order of asking."""

    # Events meet waits: each side commits first and is looked at in a later statement, so that neither misses the
    # other. Any worker may do it; doing it twice changes nothing.

    async def read_unmatched(
        self, limit: int, *, after_event: tuple[Instant, int] = (0, 0), after_wait: tuple[int, int] = (0, 0)
    ) -> Unmatched:
        """Events and waits for events that nobody has looked at yet, up to `limit` of each.

        Events come by their time and id, waits by run and number, those behind these places.
        """

    async def find_waits(
        self, event: Event, probes: Sequence[bytes], *, after: tuple[int, int] | None = None, limit: int = 1000
    ) -> list[EventWait]:
        """Waits that this event may match: of its name, with one of these probes or none, of chains that had begun when
        it was published. Ordered by (run, number), and each says whether it may get an older one instead."""

    async def find_events(
        self, wait: EventWait, *, after: int = 0, limit: int = 100, looked: Looked | None = None
    ) -> list[Event]:
        """Events of the wait's name, published since its chain began and not taken by that chain, oldest first.

        With `looked` only those behind what an earlier look has seen, and those that were not matched by then, or are
        not matched yet: what a chain has taken long ago is not walked again.
        """

    async def deliver_event(self, event: Event, waits: Sequence[EventWait]) -> int:
        """Give an event to waits: each whose row is there, not registered anew since it was found, and whose chain has
        not taken this event, loses its row and gets an inbox row of kind "event" for its number, in one commit. Of
        several waits of one chain the one with the smallest number gets it. It was sent when the event was published,
        so that it comes before a timeout that was due later. Returns how many did."""

    async def mark_matched(
        self,
        events: Sequence[int],
        waits: Sequence[EventWait],
        *,
        runs: Sequence[NewRun] = (),
        now: Instant | None = None,
    ) -> None:
        """These were looked at; a wait that was registered anew meanwhile was not. `runs` begin in the same commit,
        unless somebody has marked the events before: so an event begins its runs once, however often it is looked at
        and whatever has become of them."""

    async def list_triggers(self, event: str) -> list[Trigger]:
        """Workflows that begin a run for an event of this name, as workers have registered them (newest version)."""

    async def set_value(self, run_id: str, name: str, value: bytes, *, epoch: int, now: Instant | None = None) -> None:
        """Live state, as a step sets it: visible at once. It belongs to the chain. Nothing is set for a run that
        somebody has claimed since this epoch."""

    async def read_value(self, run_id: str, name: str) -> bytes | None:
        """The last one that any run of the chain has set."""

    async def list_values(self, run_id: str, *, after: str = "", limit: int = 1000) -> list[ValueName]:
        """Which values there are, by name, behind that one. Names are ordered by their code points."""

    async def append_items(self, sent: StepItems, *, now: Instant | None = None) -> None:
        """Add to a stream, as a step does: visible at once. The first item of an execution is marked `reset` if an
        earlier one of the same step has sent any. What was added before is not added again. Nothing is added for a
        run that somebody has claimed since, or by an execution after a later one was heard."""

    async def read_items(self, run_id: str, stream: str, *, after: int = 0, limit: int = 100) -> list[StreamRecord]:
        """Items behind an offset, in order."""

    async def list_streams(self, run_id: str, *, after: str = "", limit: int = 1000) -> list[StreamName]:
        """Which streams have items, as `list_values`. The cost does not depend on how many items there are."""

    async def pause_runs(self, run_ids: Sequence[str], paused: bool, *, now: Instant | None = None) -> list[str]:
        """Set the flag of live runs; returns the ids of those that it changed. A held one's owner gets a "pause"
        message: one, with the last word. It wakes nobody else."""

    async def delete_runs(self, run_ids: Sequence[str]) -> list[str]:
        """Remove ended runs with everything they own; returns the ids of those removed. A live one is left alone.

        So is one whose chain lives on, while a caller's own transaction that sends to it is open. The key of one that
        ended while it waited for the run that it replaces goes back to that, if it lives.
        """

    async def sweep(self, limit: int, *, events_before: Instant, now: Instant | None = None) -> Swept:
        """Remove up to `limit` runs whose retention is over, oldest end first, with all they own, and old events."""

    async def register_worker(
        self,
        worker_id: str,
        lanes: Sequence[Lane],
        lease: int,
        *,
        workflows: Sequence[Registration] = (),
        now: Instant | None = None,
    ) -> Instant:
        """Announce a worker and what it knows, wake the blocked runs of those lanes, return the store's time.

        Every version in `lanes` is registered. What `workflows` declare of them is kept as the last worker said it.
        """

    def renew_lease(self, worker_id: str, lease: int, *, now: Instant | None = None) -> Instant | None:
        """Extend the lease and return the store's time; None if the worker was reaped.

        The one blocking method: it is called from the worker's renewal thread, on a connection of its own.
        """

    async def reap_workers(self, worker_id: str, *, now: Instant | None = None) -> list[str]:
        """End the leases of workers that are dead: lapsed, or their process is gone. Their runs become due at once.

        Takeovers of those runs count as crashes when they are claimed. Returns the ids of the dead.
        """

    async def remove_worker(self, worker_id: str) -> None:
        """A worker that stops in good order leaves; what it still held becomes due at once."""

    async def list_workers(self) -> list[WorkerRecord]:
        """Every worker whose lease holds, but for those of this host whose process is gone, where that can be told."""

    async def list_versions(self, workflow: str | None = None, *, now: Instant | None = None) -> list[WorkflowVersion]:
        """Versions of this workflow, or of all, that workers have ever registered; the newest last."""

    async def list_workflows(self) -> list[WorkflowCount]:
        """Every workflow registered or started, with its runs counted by status."""
