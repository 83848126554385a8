"""Random operations of runs' whole life: what turns give out, messages, events, hooks, values, pauses, sweeps.

Payloads and numbers of waits are never used twice, so that an event, a message or a wait can be told by what it holds:
each store has its own numbers for events and for runs.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.model import (
    SECOND,
    Instant,
    NewRun,
    NewWait,
    Out,
    OutEvent,
    OutSignal,
    RowChange,
    RunRecord,
    RunStatus,
    StepItems,
    Turn,
    probe_of,
)
from tests.differential.shown import show

BASE: Instant = 4_102_444_800 * SECOND
"""The year 2100: later than any clock that a store reads by itself, so that the two can be told apart."""
SIGNALS = ("go", "größe")
EVENTS = ("paid", 'sh"ut')
VALUES = ("progress", "état")
STREAMS = ("log", "out%")
MATCHES = ({"a": 1}, {"b": {"c": "x"}}, {"a": 2})
PAYLOADS = ({"a": 1}, {"a": 1, "b": {"c": "x"}}, {"b": {"c": "x"}}, {"a": 2}, 7)


@dataclass(frozen=True)
class Operation:
    """One call, by which of a side's stores it is made, and the messages that its turns take."""

    name: str
    arguments: dict[str, Any]
    via: int = 0
    taken: tuple[tuple[tuple[object, ...], ...], ...] = ()
    is_ordered: bool = True
    """Whether the runs that it creates have the same order everywhere."""

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={show(value, BASE)}" for name, value in self.arguments.items())
        return f"[{self.via}] {self.name}({shown})" + (f" taking {self.taken}" if any(self.taken) else "")


@dataclass
class LifeDice:
    """What has to be remembered for these, and how they are drawn."""

    seed: int
    length: int
    now: Instant = BASE
    ids: int = 0
    records: Mapping[str, RunRecord] = field(default_factory=dict)
    marks: int = 0
    """Payloads, tokens and waits made so far."""
    next_seqs: dict[str, int] = field(default_factory=dict)
    truncated: set[str] = field(default_factory=set)
    """Runs whose journals have lost rows: the places of those are free again."""
    asked: dict[str, list[int]] = field(default_factory=dict)
    """Numbers of waits that runs have registered."""
    tokens: list[str] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    """Waits for events that somebody has seen, by number."""
    events: list[bytes] = field(default_factory=list)
    """Events that somebody has seen, by payload."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def _is(self, chance: float) -> bool:
        return self._random.random() < chance

    def _one(self, *of: Any) -> Any:
        return self._random.choice(of)

    def _some(self, of: Any) -> list[Any]:
        return [one for one in of if self._is(0.5)]

    def _via(self) -> int:
        return int(self._is(0.3))

    def _some_id(self) -> str:
        return self._one(*self.records) if self.records and not self._is(0.03) else "r999"

    def _soon(self) -> Instant:
        return self.now + self._one(-SECOND, 0, 1, SECOND, 30 * SECOND)

    def _mark(self) -> int:
        self.marks += 1
        return self.marks

    def _payload(self) -> bytes:
        payload = self._one(*PAYLOADS)
        marked = {**payload, "mark": self._mark()} if isinstance(payload, dict) else [payload, self._mark()]
        return msgspec.json.encode(marked)

    def _message_id(self) -> str | None:
        return self._one(None, None, "m1", "m2", "mé")

    def _new_run(self, **fields: Any) -> NewRun:
        raise NotImplementedError

    def _give_out(self, turns: list[Turn]) -> None:
        """Let the last of these turns give something out, if it is one that its run's owner may send."""
        turn = turns[-1]
        record = self.records.get(turn.run_id)
        before = sum(one.run_id == turn.run_id for one in turns[:-1])
        if record is not None and not record.status.is_final and turn.seq <= self.next_seqs[turn.run_id] + before:
            turns[-1] = self._giving(turn)
            if turns[-1].out is not None and turns[-1].out.truncate:
                self.truncated.add(turn.run_id)

    def _giving(self, turn: Turn) -> Turn:
        """The same turn, giving something out."""
        asked = self.asked.setdefault(turn.run_id, [])
        is_end = turn.change is not None and turn.change.status.is_final
        told = self._some_id()
        out = Out(
            closed=tuple(self._some(asked)) if self._is(0.3) else (),
            # One: in which order several are created is each store's affair.
            children=(self._child(turn.run_id),) if self._is(0.4) else (),
            # A body that has ended waits for nothing.
            waits=tuple(self._wait(turn.run_id) for _ in range(0 if is_end else self._one(0, 0, 1, 1, 2, 3))),
            signals=tuple(
                OutSignal(told, self._one(*SIGNALS), self._payload()) for _ in range(self._one(0, 0, 0, 1, 2))
            ),
            events=tuple(OutEvent(self._one(*EVENTS), self._payload()) for _ in range(self._one(0, 0, 0, 1, 2))),
            # One: the order of messages to several runs means nothing. None beside an end, which cancels children
            # itself: of two reasons given at once either may be told.
            cancels=() if is_end else tuple(self._some_id() for _ in range(self._one(0, 0, 1))),
            values=tuple((name, self._payload()) for name in VALUES if self._is(0.2)),
            items=tuple((self._one(*STREAMS), self._payload()) for _ in range(self._one(0, 0, 0, 1, 3))),
            truncate=self._is(0.05),
            successor=self._successor(turn.run_id) if self._is(0.15) else None,
        )
        change = RowChange(status=RunStatus.CONTINUED) if out.successor is not None else turn.change
        return msgspec.structs.replace(turn, out=out, change=change)

    def _child(self, run_id: str) -> NewRun:
        return self._new_run(
            parent_id=run_id,
            parent_key=f"child#{self._mark()}",
            on_parent_end=self._one("cancel", "cancel", "abandon"),
            on_conflict="return",
            chain_id=None,
            origin_id=None,
            forked_from=None,
            keeps_seed=False,
            rows=(),
            takes_key_of=None,
        )

    def _successor(self, run_id: str) -> NewRun:
        record = self.records.get(run_id)
        chain_id = run_id if record is None else record.chain_id
        kept = {"chain_id": chain_id, "forked_from": None, "keeps_seed": False, "rows": (), "takes_key_of": None}
        key = None if record is None else record.key
        same = {"workflow": record.workflow} if record is not None and self._is(0.8) else {}
        id = self._next_id()
        return self._new_run(
            id=id, origin_id=self._one(None, id), key=key, on_conflict="return", parent_id=None, **kept, **same
        )

    def _next_id(self) -> str:
        self.ids += 1
        return f"r{self.ids:03}"

    def _wait(self, run_id: str) -> NewWait:
        number = self._mark()
        kind = self._one("signal", "event", "event", "event", "hook")
        self.asked.setdefault(run_id, []).append(number)
        if kind == "signal":
            return NewWait(number=number, kind=kind, name=self._one(*SIGNALS), schema=b'{"type": "integer"}')
        if kind == "hook":
            self.tokens.append(f"token{number}")
            expires_at = self._one(None, self._soon())
            return NewWait(number=number, kind=kind, name="hook", token=f"token{number}", expires_at=expires_at)
        match = self._one(None, *MATCHES)
        name = self._one(*EVENTS)
        stored = None if match is None else msgspec.json.encode(match)
        probe = None if match is None else probe_of(name, match)
        return NewWait(number=number, kind=kind, name=name, match=stored, probe=probe)

    def _signal(self) -> Operation:
        arguments = {
            "run_id": self._some_id(),
            "name": self._one(*SIGNALS),
            "payload": self._payload(),
            "message_id": self._message_id(),
            "now": self.now,
        }
        return Operation("send_signal", arguments, self._via())

    def _publish(self) -> Operation:
        given = {"name": self._one(*EVENTS), "payload": self._payload(), "message_id": self._message_id()}
        return Operation("publish_event", {**given, "now": self.now}, self._via())

    def _token(self) -> str:
        return self._one(*self.tokens) if self.tokens and not self._is(0.1) else "token0"

    def _hook(self) -> Operation:
        given = {"token": self._token(), "payload": self._payload(), "message_id": self._message_id()}
        return Operation("resume_hook", {**given, "now": self.now}, self._via())

    def _unmatched(self) -> Operation:
        return Operation("read_unmatched", {"limit": 1000}, self._via())

    def _find_waits(self) -> Operation:
        if not self.events:
            return self._unmatched()
        return Operation("find_waits", {"event": self._one(*self.events), "limit": self._one(1, 2, 100)}, self._via())

    def _find_events(self) -> Operation:
        if not self.waits:
            return self._unmatched()
        return Operation("find_events", {"wait": self._one(*self.waits), "limit": self._one(1, 2, 100)}, self._via())

    def _deliver(self) -> Operation:
        if not self.waits or not self.events:
            return self._unmatched()
        waits = self._random.sample(self.waits, min(len(self.waits), self._one(1, 2, 5)))
        return Operation("deliver_event", {"event": self._one(*self.events), "waits": waits}, self._via())

    def _matched(self) -> Operation:
        fresh = {"key": None, "forked_from": None, "keeps_seed": False, "rows": (), "takes_key_of": None}
        runs = [self._new_run(chain_id=None, origin_id=None, **fresh)] if self._is(0.5) else []
        marked = {"events": self._some(self.events), "waits": self._some(self.waits)}
        return Operation("mark_matched", {**marked, "runs": runs, "now": self.now}, self._via())

    def _value(self) -> Operation:
        given = {"run_id": self._some_id(), "name": self._one(*VALUES), "value": self._payload()}
        given |= {"epoch": self._one(0, 1, 2, 9), "now": self.now}
        return Operation("set_value", given, self._via())

    def _items(self) -> Operation:
        sent = StepItems(
            run_id=self._some_id(),
            stream=self._one(*STREAMS),
            payloads=tuple(self._payload() for _ in range(self._one(0, 1, 2, 3))),
            step=self._one("pay", "pay", "ship"),
            attempt=self._one(1, 1, 2, 3),
            epoch=self._one(0, 1, 1, 2, 3),
            number=self._one(0, 0, 1, 2),
        )
        return Operation("append_items", {"sent": sent, "now": self.now}, self._via())

    def _read_items(self) -> Operation:
        given = {"run_id": self._some_id(), "stream": self._one(*STREAMS)}
        return Operation(
            "read_items", {**given, "after": self._one(0, 1, 2), "limit": self._one(1, 2, 100)}, self._via()
        )

    def _pause(self) -> Operation:
        ids = [self._some_id() for _ in range(self._one(1, 1, 2, 3))]
        return Operation("pause_runs", {"run_ids": ids, "paused": self._is(0.6), "now": self.now}, self._via())

    def _delete(self) -> Operation:
        ids = [self._some_id() for _ in range(self._one(1, 2, 3))]
        return Operation("delete_runs", {"run_ids": ids}, self._via())

    def _sweep(self) -> Operation:
        # Of runs that ended at one time, nobody promises which ones a small sweep takes.
        before = self.now - self._one(0, SECOND, 3600 * SECOND)
        return Operation("sweep", {"limit": 1000, "events_before": before, "now": self.now}, self._via())


LIFE_WEIGHTS = {
    "signal": 8,
    "publish": 6,
    "hook": 6,
    "unmatched": 6,
    "find_waits": 4,
    "find_events": 4,
    "deliver": 8,
    "matched": 3,
    "value": 3,
    "items": 4,
    "read_items": 2,
    "pause": 4,
    "delete": 4,
    "sweep": 3,
}
