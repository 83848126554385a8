"""Random operations on a store, drawn from a seed and from what the store has answered so far.

An operation holds plain values only, so that a sequence can be printed, and played again without some of its members.
Messages are named by what they hold: each store has its own numbers. Where a contract promises no order, none is
asked for: a batch creates runs in the order in which every dialect numbers them, and a claim looks far enough that
runs due at the same time are not cut apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.model import (
    ON_CONFLICT,
    SECOND,
    Cancel,
    Claimed,
    ClaimedRun,
    Declared,
    Lane,
    Message,
    NewRun,
    Parameter,
    Registration,
    RowChange,
    RowWrite,
    RunStatus,
    Started,
    StepAsked,
    StepCompleted,
    Turn,
    encode_entries,
)
from tests.differential.life import EVENTS, LIFE_WEIGHTS, Operation
from tests.differential.listings import BEGUN, FINAL, KEYS, LIVE, WORKFLOWS, ListingDice

LANES = tuple(Lane(name, version, queue) for name in WORKFLOWS for version in ("1", "2") for queue in ("default", "q"))
WORKERS = {"one": 0, "two": 0, "three": 1}
"""Workers, and the store that each of them has."""
READS = ("list_runs", "next_due", "list_versions", "find_waits", "find_events", "read_items")
OWNERSHIP = ("claim_runs", "write_rows", "renew_lease", "reap_workers", "remove_worker", "release_strays", "read_inbox")
"""What changes nothing but whose a run is."""


@dataclass
class Dice(ListingDice):
    """What comes next, and what has to be remembered for that."""

    claims: dict[str, list[tuple[str, ClaimedRun]]] = field(default_factory=dict)
    messages: dict[str, set[tuple[object, ...]]] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    """The seq behind the last row of each journal."""
    sent: list[Operation] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """Workers that have been registered, and are not any more."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lanes = tuple(self._random.sample(LANES, self._random.randint(1, 4)))
        self._made = 0

    def next(self) -> Operation | None:
        """The next operation; None when there have been enough."""
        self._made += 1
        if self._made > self.length:
            return None
        # Now and then two things happen at once, and now and then a clock goes back.
        self.now += self._random.choice((0, 1, 1000, SECOND, 5 * SECOND, 20 * SECOND, -1000))
        if self._made == self.length and self._random.random() < 0.5:
            return self._start(is_ordered=False)
        draw = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        return getattr(self, f"_{draw}")()

    def heard(self, operation: Operation, answer: Any, state: Mapping[str, Any]) -> None:
        """What the stores, which agreed, have answered, and all that can be read of them now."""
        self.records = state["runs"]
        self.lengths = {run_id: rows[-1].seq + 1 for run_id, rows in state["journals"].items() if rows}
        for inbox in state["inboxes"]:
            self._saw(inbox)
        self.waits = sorted({*self.waits, *(wait.number for wait in state["unmatched"].waits)})
        self.events = [*dict.fromkeys((*self.events, *(event.payload for event in state["unmatched"].events)))]
        if isinstance(answer, Exception):
            return
        if operation.name == "register_worker":
            self.gone.discard(operation.arguments["worker_id"])
        elif operation.name == "remove_worker":
            self.gone.add(operation.arguments["worker_id"])
        elif operation.name == "reap_workers":
            self.gone.update(answer)
        if operation.name == "claim_runs":
            for run in answer:
                self.claims.setdefault(run.id, []).append((operation.arguments["worker_id"], run))
                self.next_seqs[run.id] = run.next_seq
                self._saw(run.inbox)
        elif operation.name == "read_inbox":
            self._saw(answer)
        elif operation.name == "commit_turns":
            self.sent.append(operation)
            for turn, is_accepted in zip(operation.arguments["turns"], answer, strict=True):
                if is_accepted and turn.run_id in self.next_seqs:
                    self.next_seqs[turn.run_id] = max(self.next_seqs[turn.run_id], turn.seq + 1)

    def _saw(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.messages.setdefault(message.run_id, set()).add(name_of(message))

    def _bytes(self) -> bytes:
        return self._one(b"", b"[]", b"\0\xff", b'{"a": "\\u0000"}', b"x" * 3000)

    def _some_lanes(self) -> list[Lane]:
        return list(self._lanes) if self._is(0.8) else self._random.sample(LANES, self._random.randint(0, 3))

    def _start(self, is_ordered: bool = True) -> Operation:
        self._retried: set[str] = set()
        runs = [self._new_run() for _ in range(self._one(1, 1, 1, 2, 3, 5))]
        if is_ordered:
            runs.sort(key=_creation_order)
        else:
            # The last operation: nothing comes after it that the order of numbers could show in.
            runs = list({run.key or run.id: run for run in runs}.values())
        if self._is(0.1):
            runs.append(runs[-1])
        if self._is(0.02):
            runs.append(self._new_run(priority=self._one(-1, 10)))
        return Operation("start_runs", {"runs": runs, "now": self.now}, self._via(), is_ordered=is_ordered)

    def _new_run(self, **fields: Any) -> NewRun:
        self.ids += 1
        lane = self._one(*self._lanes)
        given: dict[str, Any] = {
            "id": f"r{self.ids:03}" if not (self.records and self._is(0.05)) else self._some_id(),
            "workflow": lane.workflow,
            "version": lane.version,
            "queue": lane.queue,
            "input": self._bytes(),
            "seed": f"seed{self.ids}".encode(),
            "priority": self._one(0, 0, 0, 1, 9),
        }
        if self._is(0.5):
            given |= {"key": self._one(*KEYS), "on_conflict": self._one(*ON_CONFLICT)}
        if self._is(0.3):
            given["delay"] = self._one(1, SECOND, 60 * SECOND)
        elif self._is(0.15):
            given["due_at"] = self._soon()
        if self._is(0.2):
            given["deadline"] = self._one(1, 2 * SECOND, 90 * SECOND)
        elif self._is(0.1):
            given["deadline_at"] = self._soon()
        if self._is(0.3):
            given["tags"] = self._one({"a": "b"}, {"a": "c", "é": '"'}, {"x": "%"})
        if self._is(0.2):
            given |= {"retention": self._one(0, SECOND), "parent_id": self._some_id()}
        if self.records and self._is(0.15):
            given |= self._going_on()
        return NewRun(**{**given, **fields})

    def _going_on(self) -> dict[str, Any]:
        """What a retry adds."""
        old = self.records.get(self._some_id())
        found: dict[str, Any] = {"rows": tuple(self._data() for _ in range(self._one(0, 1, 3)))}
        if old is not None:
            found |= {"forked_from": old.id, "keeps_seed": self._is(0.7)}
            chain = [one for one in self.records.values() if one.chain_id == old.chain_id]
            if all(one.status.is_final for one in chain) and old.chain_id not in self._retried:
                # A chain has one live run at a time.
                self._retried.add(old.chain_id)
                found |= {"chain_id": old.chain_id, "origin_id": self._one(None, old.origin_id)}
            if old.key is not None and self._is(0.8):
                found |= {"key": old.key, "workflow": old.workflow, "takes_key_of": old.id}
        return found

    def _cancel(self) -> Operation:
        reason = self._one(None, "", "enough", "größer")
        arguments = {"run_id": self._some_id(), "reason": reason, "force": self._is(0.3), "now": self.now}
        return Operation("cancel_run", arguments, self._via())

    def _claim(self) -> Operation:
        worker_id = self._one(*WORKERS)
        if worker_id in self.gone:
            # How far a store remembers that it has to refuse this one is its own affair.
            return self._register(worker_id)
        # Of more than four times its limit that are due at one time, nobody promises which ones a claim takes.
        least = 1 + sum(not record.status.is_final for record in self.records.values()) // 4
        arguments: dict[str, Any] = {
            "worker_id": worker_id,
            "lanes": self._some_lanes(),
            "limit": max(least, self._one(1, 2, 5, 100)),
            "now": self.now,
        }
        if self._is(0.3):
            arguments["run_id"] = self._some_id()
        elif self._is(0.2):
            # Of more than its limit, in this case.
            arguments |= {"unbegun": True, "limit": 100}
        elif arguments["limit"] == 100:
            # By a smaller one, it is a store's own affair how far it looks for what a suspect may not come with.
            arguments["suspects"] = len(self.records) % 2
        if self.next_seqs and self._is(0.4):
            arguments["cached"] = {
                run_id: seq + self._one(0, 0, 0, 1) for run_id, seq in self.next_seqs.items() if self._is(0.7)
            }
        return Operation("claim_runs", arguments, WORKERS[worker_id])

    def _commit(self) -> Operation:
        # What a store remembers of runs that were deleted is its own affair.
        kept = {run_id for run_id in self.records if run_id not in self.truncated} | {"r999"}
        resent = [one for one in self.sent if all(turn.run_id in kept for turn in one.arguments["turns"])]
        if resent and self._is(0.15):
            # Its answer was lost.
            again = self._one(*resent)
            return Operation("commit_turns", {**again.arguments, "now": self.now}, again.via, again.taken)
        claimed = [run_id for run_id in self.claims if run_id in self.records]
        if not claimed:
            return self._claim()
        ids = self._random.sample(claimed, min(len(claimed), self._one(1, 1, 2, 3, 4)))
        turns: list[Turn] = []
        taken: list[tuple[tuple[object, ...], ...]] = []
        for run_id in ids:
            # Several turns of one run in one batch: only the last of them may change the row.
            for left in range(self._one(0, 0, 0, 0, 1, 2), -1, -1):
                turns.append(self._turn(run_id, sum(turn.run_id == run_id for turn in turns), is_last=not left))
                taken.append(tuple(self._some(sorted(self.messages.get(run_id, ()), key=repr))))
        if self._is(0.6):
            # One of a batch: in which order several give out, nobody promises.
            self._give_out(turns)
        if self._is(0.1):
            turns.append(Turn(run_id="r999", seq=0, epoch=1, at=self.now, data=b""))
            taken.append(())
        if self._is(0.15) and not any(turn.run_id in self.truncated for turn in turns):
            turns.append(turns[0])
            taken.append(taken[0])
        return Operation("commit_turns", {"turns": turns, "now": self.now}, self._via(), tuple(taken))

    def _turn(self, run_id: str, place: int, *, is_last: bool) -> Turn:
        _, claimed = self._holding(run_id)
        seq = self.next_seqs[run_id] + place + self._one(*[0] * 18, 0 if run_id in self.truncated else -1, 1)
        if self.records[run_id].status.is_final:
            # Whoever held it comes too late: an end has the next place, and nobody goes on behind it.
            seq = min(seq, self.lengths.get(run_id, 0) - 1)
        return Turn(
            run_id=run_id,
            seq=max(seq, 0),
            epoch=claimed.epoch,
            at=self.now + self._one(0, 0, -5),
            data=self._data(),
            change=self._change(BEGUN if self._is(0.6) else FINAL) if is_last and self._is(0.6) else None,
        )

    def _holding(self, run_id: str) -> tuple[str, ClaimedRun]:
        """The last claim of a run, or one that has been overtaken."""
        claims = self.claims[run_id]
        return claims[-1] if self._is(0.85) else self._one(*claims)

    def _change(self, statuses: tuple[RunStatus, ...]) -> RowChange:
        status = self._one(*statuses)
        return RowChange(
            status=status,
            due_at=self._one(None, self._soon(), self._soon()),
            release=self._is(0.5) or status is RunStatus.PENDING,
            crashes=self._one(0, 0, 1, 3),
            blocked=self._one(None, None, None, "the code is wrong"),
            output=self._one(None, b"out\0") if status.is_final else None,
            error=self._one(None, b"err\0") if status.is_final else None,
        )

    def _data(self) -> bytes:
        if self._is(0.2):
            return self._bytes()
        at = self.now
        entries = self._random.choices(
            [
                Started(at, b"seed"),
                StepAsked("pay", b"digest"),
                StepAsked("ship", b"digest"),
                StepCompleted(at, "pay", 1, b"[1]"),
                Cancel(at, "enough"),
                Claimed(at, "one"),
            ],
            k=self._random.randint(0, 4),
        )
        return encode_entries(entries)

    def _write(self) -> Operation:
        if not self.claims:
            return self._claim()
        writes = []
        for run_id in self._random.choices(list(self.claims), k=self._one(1, 1, 2, 3)):
            worker_id, claimed = self._holding(run_id)
            writes.append(
                RowWrite(
                    run_id=run_id if not self._is(0.03) else "r999",
                    worker_id=worker_id if not self._is(0.1) else self._one(*WORKERS),
                    epoch=claimed.epoch,
                    next_seq=self.next_seqs[run_id],
                    change=self._change(LIVE if not self._is(0.03) else FINAL),
                )
            )
        for write in writes:
            if write.change.status is RunStatus.PENDING:
                # Its worker has begun nothing of it, and sends no turn of it behind this.
                self.claims.pop(write.run_id, None)
        return Operation("write_rows", {"writes": writes}, self._via())

    def _inbox(self) -> Operation:
        return Operation("read_inbox", {"worker_id": self._one(*WORKERS)}, self._via())

    def _due(self) -> Operation:
        return Operation("next_due", {"lanes": self._some_lanes(), "now": self.now}, self._via())

    def _strays(self) -> Operation:
        worker_id = self._one(*WORKERS)
        held = [record.id for record in self.records.values() if record.owner == worker_id and self._is(0.6)]
        return Operation("release_strays", {"worker_id": worker_id, "held": held, "now": self.now}, WORKERS[worker_id])

    def _register(self, worker_id: str | None = None) -> Operation:
        worker_id = worker_id or self._one(*WORKERS)
        lanes = self._some_lanes()
        declared = Declared(
            queue=self._one("default", "q"),
            deadline=self._one(None, SECOND),
            parameters=self._one(None, (Parameter("order", 1, True),)),
            on_event=self._one(None, None, *EVENTS),
            match=self._one(None, b'{"a":1}'),
        )
        workflows = [Registration(lane.workflow, lane.version, declared) for lane in lanes if self._is(0.5)]
        arguments = {"worker_id": worker_id, "lanes": lanes, "lease": self._lease(), "now": self.now}
        return Operation("register_worker", {**arguments, "workflows": workflows}, WORKERS[worker_id])

    def _lease(self) -> int:
        return self._one(SECOND, 10 * SECOND, 30 * SECOND)

    def _renew(self) -> Operation:
        arguments = {"worker_id": self._one(*WORKERS), "lease": self._lease(), "now": self.now}
        return Operation("renew_lease", arguments, WORKERS[arguments["worker_id"]])

    def _reap(self) -> Operation:
        arguments = {"worker_id": self._one("reaper", *WORKERS), "now": self.now + self._one(0, 0, 20 * SECOND)}
        return Operation("reap_workers", arguments, WORKERS.get(arguments["worker_id"], self._via()))

    def _remove(self) -> Operation:
        worker_id = self._one(*WORKERS)
        return Operation("remove_worker", {"worker_id": worker_id}, WORKERS[worker_id])

    def _reopen(self) -> Operation:
        return Operation("reopen", {}, via=1)


_WEIGHTS = {
    "start": 22,
    "claim": 22,
    "commit": 26,
    "write": 10,
    "cancel": 8,
    "register": 6,
    "renew": 3,
    "reap": 5,
    "remove": 2,
    "strays": 3,
    "inbox": 4,
    "due": 3,
    "list": 8,
    "versions": 2,
    "reopen": 1,
    **LIFE_WEIGHTS,
}


def name_of(message: Message) -> tuple[object, ...]:
    """A message by what it holds."""
    return message.run_id, message.kind, message.name, message.payload


def _creation_order(run: NewRun) -> int:
    """Runs without a key are created first, then those that take a free one, then those that take one over."""
    if run.key is None:
        return 0
    return 2 if run.on_conflict in ("restart", "replace") or run.takes_key_of is not None else 1
