"""Messages and children: none lost, none twice. Every claim brings the inbox, and so shows what the store holds.

- Signals of one name are taken by the runs of a chain in the order in which they were sent, each once; a signal that
  was sent to a live chain and not taken is in the inbox of its live run.
- An event, or a hook's payload, is taken once by a chain, and only if it was sent.
- The end of a child is in its live parent's inbox until a turn of the parent takes it.
- A child whose parent has ended is asked to end, unless it is abandoned.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import (
    MESSAGES,
    Cancel,
    ChildEnded,
    ClaimedRun,
    Entry,
    EventTaken,
    HookResumed,
    Inherited,
    Message,
    NewRun,
    RunRecord,
    RunStatus,
    Sent,
    Signal,
    Turn,
    decode_entries,
)

from .oracle import Journal, Oracle


class Mail:
    """What was sent, and what became of it."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.sent: dict[tuple[str, str], list[bytes]] = {}
        """Signals that a chain has not taken, by chain and name, in the order in which they were sent."""
        self.events: dict[str, dict[bytes, int]] = {}
        """When each event was published, by name and payload."""
        self._payloads: set[bytes] = set()
        """The payloads with which hooks were resumed."""
        self._resumed: set[str] = set()
        self._joined: dict[str, str] = {}
        """The live run that was joined, by the id of the child that was therefore not begun."""
        self._taken: dict[str, set[tuple[str, bytes]]] = {}
        """Kinds and payloads that the runs of a chain have taken."""
        self._messages: dict[int, Message] = {}
        """Every message that a worker was ever told of."""
        self._ends: dict[str, dict[str, str]] = {}
        """Ends of children that their live parents have yet to take: the child's key and id, by parent."""
        self._begun_with: dict[str, set[tuple[str, bytes]]] = {}
        """Messages in the journals that runs were begun with."""
        self._shared: set[str] = set()
        """Chains with more than one live run."""
        self._orphans: set[str] = set()
        """Live children whose parent has ended before them."""

    def chain(self, run_id: str) -> str:
        run = self._oracle.runs.get(run_id)
        return run_id if run is None or run.chain_id is None else run.chain_id

    def has_taken(self, run_id: str, kind: str, payload: bytes) -> bool:
        return (kind, payload) in self._taken.get(self.chain(run_id), ())

    def waiting(self, run_id: str, name: str) -> list[bytes]:
        """The signals of this name that the run has not taken."""
        return self.sent.get((self.chain(run_id), name), [])

    def joins(self, child_id: str, joined: RunRecord | None) -> None:
        """A child was not begun because its key was taken. If a live run has it, the parent has joined that run."""
        if joined is not None and not joined.status.is_final:
            self._joined[child_id] = joined.id

    def signalled(self, run_id: str, name: str, payload: bytes) -> None:
        """A signal was sent to the live run of a chain, or to the run that was joined in the place of a child."""
        if run_id in self._joined:
            run_id = self._joined[run_id]
            while (ended := self._oracle.ended.get(run_id)) is not None:
                if ended.successor_id is None:
                    return
                run_id = ended.successor_id
        chain = self.chain(run_id)
        if self._live(chain):
            self.sent.setdefault((chain, name), []).append(payload)

    def published(self, name: str, payload: bytes, at: int) -> None:
        self.events.setdefault(name, {}).setdefault(payload, at)

    def resumed(self, token: str, payload: bytes, answer: Sent) -> None:
        if answer is Sent.SENT:
            if token in self._resumed:
                self._oracle.report("messages", "a hook was resumed twice")
            self._resumed.add(token)
            self._payloads.add(payload)

    def _live(self, chain: str) -> list[str]:
        return [one for one in self._oracle.runs if self.chain(one) == chain and one not in self._oracle.ended]

    def removed(self, run_id: str) -> None:
        """An ended run was deleted. The unread signals of the last run of a chain are deleted with it, also for a retry
        that is on its way."""
        chain = self.chain(run_id)
        if run_id == [one for one in self._oracle.runs if self.chain(one) == chain][-1]:
            self._forget_signals(chain)

    def _forget_signals(self, chain: str) -> None:
        for owner, signal in list(self.sent):
            if owner == chain:
                del self.sent[owner, signal]

    def began(self, run_id: str) -> None:
        """A run was created. If a client that heard nothing retries twice, two runs share one inbox from then on."""
        chain = self.chain(run_id)
        if len(self._live(chain)) > 1:
            self._shared.add(chain)

    def took(self, run: NewRun, journal: Journal, seq: int, entries: Sequence[Entry]) -> None:
        """A row has come into a journal."""
        if seq < len(run.rows) or self.chain(run.id) in self._shared:
            # Another run's, which took what is in it.
            return
        for entry in entries:
            if isinstance(entry, (Signal, EventTaken, HookResumed)):
                self._took(run, journal, entry)

    def _took(self, run: NewRun, journal: Journal, entry: Signal | EventTaken | HookResumed) -> None:
        oracle, chain = self._oracle, self.chain(run.id)
        if run.id not in self._begun_with:
            begun_with = [one for row in run.rows for one in decode_entries(row)]
            # A fork may be cut at the input that a message caused: the original run has taken that message.
            taken_by_other = begun_with if chain == run.id else []
            # Or the run before in the chain has taken it, and its body has not read it.
            left = [mail for one in begun_with if isinstance(one, Inherited) for mail in one.mail]
            self._begun_with[run.id] = {
                (one.kind, one.payload) for one in (*taken_by_other, *left) if isinstance(one, MESSAGES)
            }
        if (entry.kind, entry.payload) in self._begun_with[run.id]:
            return
        what = f"{oracle.label(run.id)} has taken {entry.kind} {entry.name!r} {entry.payload!r}"
        taken = self._taken.setdefault(chain, set())
        if (entry.kind, entry.payload) in taken:
            # Messages taken before a cut, or by a body that was blocked, are taken in anew.
            if not journal.is_broken:
                oracle.report("messages", f"{what} twice")
            return
        taken.add((entry.kind, entry.payload))
        if isinstance(entry, Signal):
            waiting = self.sent.get((chain, entry.name), [])
            if entry.payload not in waiting:
                oracle.report("messages", f"{what}, which nobody has sent")
            elif waiting[0] != entry.payload:
                oracle.report("messages", f"{what} before {waiting[0]!r}, which was sent earlier")
            else:
                waiting.pop(0)
        elif isinstance(entry, EventTaken):
            if entry.payload not in self.events.get(entry.name, {}):
                oracle.report("messages", f"{what}, which nobody has published")
        elif entry.payload not in self._payloads:
            oracle.report("messages", f"{what}, with which nobody has resumed it")

    def accepted(self, turn: Turn) -> None:
        """A turn was accepted: its messages are deleted from the inbox."""
        for message_id in turn.taken:
            message = self._messages.get(message_id)
            if message is not None and message.kind == "child" and message.name is not None:
                self._ends.get(message.run_id, {}).pop(message.name, None)

    def told(self, messages: Sequence[Message]) -> None:
        """A worker has read these messages."""
        for message in messages:
            self._messages[message.id] = message

    def claimed(self, run: ClaimedRun, journal: Journal) -> None:
        """A claim must bring everything that was sent to the run and not taken."""
        self.told(run.inbox)
        oracle, name = self._oracle, self._oracle.label(run.id)
        there: dict[str, list[bytes]] = {}
        for message in run.inbox:
            if message.kind == "signal" and message.name is not None:
                there.setdefault(message.name, []).append(message.payload)
        chain = self.chain(run.id)
        for (owner, signal), waiting in self.sent.items():
            if owner == chain and chain not in self._shared and there.get(signal, []) != waiting:
                oracle.report("messages", f"{name} has signals {signal!r} {there.get(signal)}; sent were {waiting}")
        ends = {message.name for message in run.inbox if message.kind == "child"}
        for key, child in self._ends.get(run.id, {}).items():
            if key not in ends:
                oracle.report("children", f"{name} is not told that its child {oracle.label(child)} has ended")
        is_told = any(message.kind == "cancel" for message in run.inbox)
        if run.id in self._orphans and not is_told and not any(isinstance(one, Cancel) for one in journal.entries):
            oracle.report("children", f"{name} is not asked to end although its parent has")

    def ended(self, run: NewRun, record: RunRecord) -> None:
        """A run has ended: note who has to be told, and what is left of it."""
        oracle = self._oracle
        for child in oracle.runs.values():
            is_kept = child.parent_key is None or child.on_parent_end != "cancel"
            if child.parent_id == run.id and not is_kept and child.id not in oracle.ended:
                self._orphans.add(child.id)
        if record.status is RunStatus.CONTINUED:
            return
        if record.status is RunStatus.COMPLETED:
            # A retry of any other end reads what this run had not read.
            self._forget_signals(self.chain(run.id))
        parent = run.parent_id
        if parent in oracle.runs and parent not in oracle.ended and run.parent_key is not None:
            self._ends.setdefault(parent, {})[run.parent_key] = run.id


def heard_twice(journal: Journal) -> str | None:
    """The key of a child whose end the body was told twice, or None."""
    heard: set[str] = set()
    for entry in journal.history.entries:
        if isinstance(entry, ChildEnded):
            if entry.key in heard:
                return entry.key
            heard.add(entry.key)
    return None
