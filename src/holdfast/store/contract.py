"""The contract that every store keeps. One method is one transaction is one guarded transition.

Invariants, whatever the dialect:

- The journal's primary key (run, seq) decides. A turn is accepted if its row was inserted, or if the row at that seq
  has the turn's own epoch: then the turn was accepted before, the answer was lost, and it was sent again. Any other
  turn is refused, and nothing of it happens.
- A claim of a run that was not handed back writes a `claimed` row at the next seq, in the claim's own commit.
- Row-only writes happen only if owner and epoch still match.
- A terminal status never changes.
- `now` is an instant; None means the store's own clock. One database is used either always with a given time or never.

Methods may be called from any event loop of the process; each answers on the loop it was called from. When the database
can't be reached they raise StoreAway. Then nothing was changed, or a commit happened and only its answer was lost. So
every write may be sent again.
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
"""What became of one item of a batch. True: accepted, now or by an earlier call whose answer was lost. False: refused,
nothing of it happened. StoreAway: another transaction holds what it needs; send it again. Any other StoreError: it can
never be stored."""


class Store(Protocol):
    """Where runs live. `open_store(url)` gives one; nothing is read or written before `open`."""

    url: str
    """Without a password."""
    namespace: str
    is_remote: bool
    """Whether the work is done in another process, so that a caller who asks early can compute meanwhile."""

    async def open(self) -> None:
        """Connect, and migrate the schema. Opening an open store changes nothing."""

    async def close(self) -> None:
        """Finish what is under way, then disconnect. Closing a closed store changes nothing."""

    def subscribe(self, changed: Callable[[], None], to: News = News.ANY) -> Callable[[], None]:
        """Call `changed` on the running loop whenever news of this kind may have come.

        Calls are coalesced, and may turn out to be for nothing. Returns a function that unsubscribes.
        """

    def guest(self, connection: Any) -> Guest:
        """This store inside the transaction of a caller's own connection.

        Raises DefinitionError: at once for anything that is not a connection to this kind of database, and on first
        use for a connection to another database of this kind.
        """

    def lender(self, lease: int) -> Lender:
        """The lender of connections to the transactional steps of a worker with this lease, on the running loop."""

    async def read_clock(self) -> Instant:
        """The store's own time. Entries are stamped by it, for a host's clock may be hours off."""

    async def start_runs(self, runs: Sequence[NewRun], *, now: Instant | None = None) -> list[StartedRun]:
        """Create runs, each settled by itself.

        For an id that exists, the run with that id is returned (created=False). For a key that a run holds,
        `on_conflict` decides:

        - "return", "raise" and "retry" return the holder, and the caller goes on from there.
        - "restart" returns a live holder; of an ended one the new run takes the key over.
        - "replace" takes the key over from either. A live holder is sent a cancel, and the new run begins when it has
          ended. "restart" does this, too, for a child whose key is held by a live child of an ended parent that was to
          end with it.

        A run that takes the key over from one that was itself waiting for another run to end waits for that other run.
        An id or a key that occurs more than once in a call is settled in the order given.

        A run is due after its delay, and at its deadline at the latest, even if it still waits for its delay or for
        another run: it is claimed then, and its worker ends it.
        """

    async def get_run(self, run_id: str) -> RunRecord | None:
        """One run, or None."""

    async def find_run(self, workflow: str, key: str) -> RunRecord | None:
        """The run that holds the key, or None."""

    async def find_last(self, run_id: str) -> RunRecord | None:
        """The newest run of this run's chain; None if none is left. For a live run, that run itself."""

    async def list_runs(
        self,
        where: RunFilter,
        *,
        cursor: str | None = None,
        limit: int = 100,
        accept: Callable[[RunRecord], bool] | None = None,
    ) -> Page[RunRecord]:
        """A page of runs, newest first; inserts between two pages change nothing. Raises BadCursor.

        `accept` is an additional test, called on any thread. If many runs fail it, a page may be short or even empty
        and still have a next one. `where.input` is ignored here and left to `accept`: only a codec can read an input.
        """

    async def read_ended(self, run_ids: Sequence[str]) -> list[RunRecord]:
        """Those of the runs that have ended."""

    async def read_gone(self, run_ids: Sequence[str]) -> list[str]:
        """Those of the ids that belong to no run, or to none any more."""

    async def read_journal(self, run_id: str) -> list[JournalRow]:
        """All turns of a run, in order."""

    async def cancel_run(
        self, run_id: str, *, reason: str | None = None, force: bool = False, now: Instant | None = None
    ) -> RunRecord | None:
        """Ask a run to end, and return it as it was before; None: there is no such run.

        For a run that has continued, this asks the last run of its chain. An ended run is left alone. A run that never
        began ends at once, with a row that holds `Stopped`. Any other gets a "cancel" message, once. With `force` it
        ends at once, whoever holds it: one row holds `Claimed` by FORCED with the next epoch, and `Stopped` with the
        work that was `skipped`.
        """

    async def find_cancel(self, run_id: str) -> Message | None:
        """The cancel that was sent to this run and not yet taken by a turn; None: there is none."""

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

        Only unowned runs of these lanes that have not ended are taken, or the one run named. A paused run is taken only
        for a cancel or when its deadline has passed; both end the pause. Each run gets this owner, the next epoch, the
        status running, and a `started_at` if it has none. The number of statements does not depend on the limit.

        `cached` maps ids of runs whose journals the caller has in memory to their next seqs: the rows of such a run are
        left out if the stored next seq is still the same.

        With `unbegun`, the first `limit` runs are looked at, and those are left out that ever began, are paused, or
        are not due by their time; none come in their stead.

        A run is a suspect if two workers or more died while they held it. If `suspects` is given, at most so many of
        them come, and none together with a run that one worker died with. The other suspects are not claimed, so that
        the worker's death, should it come, does not count against them.
        """

    def commit_turns(self, turns: Sequence[Turn], *, now: Instant | None = None) -> Awaitable[Sequence[Answer]]:
        """Group commit. Each turn gets an answer of its own, and a turn that has to wait or can never be stored holds
        up none of the others, except for later turns of the same run, which share its answer.

        The commit is on its way when this returns, before anybody awaits the answers: on the hot path every turn of
        the event loop counts.
        """

    def write_rows(self, writes: Sequence[RowWrite]) -> Awaitable[Sequence[Answer]]:
        """Park, hand back or block runs, each guarded by owner and epoch, and each with an answer of its own.

        A run that is handed back as pending is as if it had never been claimed: nothing of it has begun.
        """

    async def read_inbox(self, worker_id: str, *, known: Sequence[int] = ()) -> list[Message]:
        """Fresh messages for runs that this worker holds, oldest first, without those whose ids are `known`."""

    async def next_due(
        self, lanes: Sequence[Lane], *, suspects: bool = True, now: Instant | None = None
    ) -> Instant | None:
        """When the earliest unowned run of these lanes is due; None if none is going to be by itself. If a run is due
        already or has a fresh message, the time is not after now. Without `suspects`, suspects are left out."""

    async def release_strays(self, worker_id: str, held: Sequence[str], *, now: Instant | None = None) -> list[str]:
        """Hand back the runs that this worker owns but does not hold, and return their ids: the answer to the claim
        that took them was lost.

        They are due at once, and their next claim is no takeover, for nothing of them was begun.
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

        Answers SENT, DUPLICATE, ENDED or MISSING. A `message_id` is sent to a chain once, even after it was taken.
        """

    async def count_unread(self, run_id: str) -> list[Unread]:
        """How many messages to this run no turn has taken yet, by kind and name, oldest first, up to a hundred names.

        Cancels and pauses are left out: they are not for the body to read.
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
        """Keep an event for any worker to match with waits. It only inserts. Answers SENT or DUPLICATE."""

    async def find_hook(self, token: str) -> WaitRecord | None:
        """The open hook whose token has this digest, or None."""

    async def resume_hook(
        self,
        token: str,
        payload: bytes,
        *,
        message_id: str | None = None,
        trace: str | None = None,
        now: Instant | None = None,
    ) -> Sent:
        """Deliver a payload to a hook, once. Answers SENT, DUPLICATE, USED, EXPIRED, ENDED or MISSING.

        The delete of the wait's row decides who was first; the inbox row is written in the same commit. A hook that
        its run closed unused is EXPIRED; a hook that was still open when its run ended is ENDED.
        """

    async def read_waits(self, run_id: str) -> list[WaitRecord]:
        """The open waits of the live run of this run's chain, in the order in which it asked for them."""

    # How events meet waits: each side is committed first and looked at by a later statement, so that neither misses
    # the other. Any worker may look, and looking twice changes nothing.

    async def read_unmatched(
        self, limit: int, *, after_event: tuple[Instant, int] = (0, 0), after_wait: tuple[int, int] = (0, 0)
    ) -> Unmatched:
        """Events and waits for events that nobody has looked at yet, up to `limit` of each.

        Events are ordered by time and id and come after `after_event`; waits are ordered by run and number and come
        after `after_wait`.
        """

    async def find_waits(
        self, event: Event, probes: Sequence[bytes], *, after: tuple[int, int] | None = None, limit: int = 1000
    ) -> list[EventWait]:
        """Waits that this event may match: waits for its name, with one of these probes or none, of chains that had
        begun when it was published. Ordered by (run, number); each says whether an older event may have to come
        first."""

    async def find_events(
        self, wait: EventWait, *, after: tuple[Instant, int] = (0, 0), limit: int = 100, looked: Looked | None = None
    ) -> list[Event]:
        """Events that the wait may match, published since its chain began and not taken by that chain, oldest first.
        They come after `after`, a time and an id. If the wait has a probe, they are events that were marked with it or
        with the probe of their name, and those that are not marked yet; otherwise all of the wait's name.

        With `looked`, only events after the last that an earlier look saw, and those that were not matched by then or
        still are not. So events that the chain took long ago are not walked again.
        """

    async def deliver_event(self, event: Event, waits: Sequence[EventWait]) -> int:
        """Give an event to those of the waits whose rows are still there, have not been registered anew since they
        were found, and whose chains have not taken this event. In one commit the wait's row goes, and its run gets an
        inbox row of kind "event" with the wait's number. Of several waits of one chain, the smallest number gets it.
        The message counts as sent when the event was published, so that it comes before a timeout that was due later.
        Returns how many waits got it."""

    async def mark_matched(
        self,
        events: Mapping[int, Sequence[bytes]],
        waits: Sequence[EventWait],
        *,
        runs: Sequence[NewRun] = (),
        now: Instant | None = None,
    ) -> None:
        """Remember that these were looked at, except for a wait that was registered anew meanwhile. In the same commit
        the probes are noted by which later waits find the events, and `runs` begin, unless the events were marked
        before. So an event begins its runs once, however often it is looked at and whatever became of those runs."""

    async def list_triggers(self, event: str, *, now: Instant | None = None) -> list[Trigger]:
        """Workflows that begin a run for an event of this name, by the newest version that live workers have."""

    async def set_value(self, run_id: str, name: str, value: bytes, *, epoch: int, now: Instant | None = None) -> None:
        """Set a value of the run's chain, as a step does: it is visible at once. Nothing is set if the run has been
        claimed since this epoch."""

    async def read_value(self, run_id: str, name: str) -> bytes | None:
        """The value as any run of the chain has last set it; None: there is none."""

    async def list_values(self, run_id: str, *, after: str = "", limit: int = 1000) -> list[ValueName]:
        """The chain's values whose names come after `after`. Names are ordered by code points."""

    async def append_items(self, sent: StepItems, *, now: Instant | None = None) -> None:
        """Add items to a stream, as a step does: they are visible at once. The first item of an execution is marked
        `reset` if an earlier execution of the same step has sent any. Items that are there already are not added again.
        Nothing is added if the run has been claimed since, or if a later execution of the step has sent items."""

    async def read_items(self, run_id: str, stream: str, *, after: int = 0, limit: int = 100) -> list[StreamRecord]:
        """Items after an offset, in order."""

    async def list_streams(self, run_id: str, *, after: str = "", limit: int = 1000) -> list[StreamName]:
        """Streams that have items, paged as in `list_values`. The cost does not depend on how many items they have."""

    async def pause_runs(self, run_ids: Sequence[str], paused: bool, *, now: Instant | None = None) -> list[str]:
        """Set the flag of live runs, and return the ids of those that this changed. The owner of a held run gets a
        "pause" message, which takes the place of an earlier one. It wakes nobody else."""

    async def delete_runs(self, run_ids: Sequence[str]) -> list[str]:
        """Remove ended runs with everything they own, and return their ids. Live runs are left alone. So are the first
        run of a chain of which another stays, and an ended run of a chain that lives on while a caller's transaction
        that has sent to it is open. If a run ended while it waited for the one that it replaces, its key goes back to
        that one if it is live."""

    async def sweep(self, limit: int, *, events_before: Instant, now: Instant | None = None) -> Swept:
        """Remove up to `limit` runs whose retention is over, oldest first, as `delete_runs` does, and up to `limit`
        events that were published before that time."""

    async def register_worker(
        self,
        worker_id: str,
        lanes: Sequence[Lane],
        lease: int,
        *,
        workflows: Sequence[Registration] = (),
        now: Instant | None = None,
    ) -> Instant:
        """Announce a worker and its lanes, wake the blocked runs of those lanes, and return the store's time.

        Every version in `lanes` is registered. What `workflows` declare of a version replaces what was declared before.
        """

    def renew_lease(self, worker_id: str, lease: int, *, now: Instant | None = None) -> Instant | None:
        """Extend the lease and return the store's time; None if the worker was reaped.

        This is the only blocking method: the worker's renewal thread calls it, and it has a connection of its own.
        """

    async def reap_workers(self, worker_id: str, *, now: Instant | None = None) -> list[str]:
        """End the leases of dead workers and return their ids. A worker is dead if its lease has lapsed or its process
        is gone. Its runs become due at once, and each counts a crash when it is claimed.
        """

    async def remove_worker(self, worker_id: str) -> None:
        """Remove a worker that stops in good order. Runs that it still holds become due at once."""

    async def list_workers(self) -> list[WorkerRecord]:
        """Every worker whose lease holds, except for those on this host whose processes are known to be gone."""

    async def list_versions(self, workflow: str | None = None, *, now: Instant | None = None) -> list[WorkflowVersion]:
        """Versions of this workflow, or of all workflows, that workers have ever registered; the newest last."""

    async def list_workflows(self) -> list[WorkflowCount]:
        """Every workflow that was ever registered or started, with its runs counted by status."""
