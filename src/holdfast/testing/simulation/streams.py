"""Values and streams: what was sent is there once, in order, with offsets that leave no gap.

- A stream of a chain holds what the accepted turns and the steps of its runs have sent, in the order in which the store
  took it; what was read once never changes.
- The first item of another execution of a step, also in a retry of its run, says `reset`. A follower that heeds it has,
  of every step whose result is recorded, the items of one execution, all of them and in order.
- A value is the last one that was set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from holdfast.model import Out, StepAsked, StepCompleted, StepItems, StreamRecord, decode_entries
from holdfast.store import Store

from .forks import inherited, is_fork
from .mail import Mail
from .oracle import Journal, Oracle

STREAM = "e"
"""The stream to which steps send, and bodies as well."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item as it should be."""

    payload: bytes
    run_id: str
    step: str | None
    attempt: int
    reset: bool = False
    epoch: int = 0

    @property
    def execution(self) -> tuple[int, int]:
        return self.epoch, self.attempt


class Streams:
    """What was sent to the streams and values of a world."""

    def __init__(
        self, oracle: Oracle, mail: Mail, store: Store, do: Callable[[Callable[[], Awaitable[Any]]], Any]
    ) -> None:
        self._oracle = oracle
        self._mail = mail
        self._store = store
        self._do = do
        self._items: dict[tuple[str, str], list[Item]] = {}
        self._values: dict[tuple[str, str], bytes] = {}

    def gave_out(self, run_id: str, out: Out) -> None:
        """A turn was accepted that sends this."""
        chain = self._mail.chain(run_id)
        self._values |= {(chain, name): value for name, value in out.values}
        for name in {name for name, _ in out.values}:
            self._check_value(run_id, name)
        for stream, payload in out.items:
            self._items.setdefault((chain, stream), []).append(Item(payload, run_id, None, 0))
        for stream in {stream for stream, _ in out.items}:
            self._check_items(run_id, stream)

    def valued(self, run_id: str, name: str, value: bytes, epoch: int) -> None:
        """A step has set a value. If its run was claimed anew since, nothing is set."""
        if run_id not in self._oracle.gone and self._epoch(run_id) <= epoch:
            self._values[self._mail.chain(run_id), name] = value
            self._check_value(run_id, name)

    def sent(self, items: StepItems) -> None:
        """A step has sent items. They count while no later execution was heard, and each of them once."""
        run_id = items.run_id
        if run_id in self._oracle.gone or self._epoch(run_id) > items.epoch:
            return
        known = self._items.setdefault((self._mail.chain(run_id), items.stream), [])
        execution = (items.epoch, items.attempt)
        heard = [item for item in known if (item.run_id, item.step) == (run_id, items.step)]
        if heard and heard[-1].execution > execution:
            return
        is_reset = heard[-1].execution < execution if heard else self._was_retried(run_id, items.step, known)
        count = sum(item.execution == execution for item in heard)
        new = items.payloads[max(0, count - items.number) :]
        known += [
            Item(one, run_id, items.step, items.attempt, is_reset and not n, items.epoch) for n, one in enumerate(new)
        ]
        if known:
            self._check_items(run_id, items.stream)

    def _was_retried(self, run_id: str, step: str, known: list[Item]) -> bool:
        """Whether the step has sent anything in a run that this one retries."""
        run = self._oracle.runs[run_id]
        while run.forked_from is not None and not is_fork(run) and run.forked_from not in self._oracle.gone:
            run = self._oracle.runs[run.forked_from]
            if any((item.run_id, item.step) == (run.id, step) for item in known):
                return True
        return False

    def gone(self, chain: str) -> None:
        """The last run of a chain was deleted."""
        for kept in (self._items, self._values):
            for found in [one for one in kept if one[0] == chain]:
                del kept[found]

    def _epoch(self, run_id: str) -> int:
        record = self._do(lambda: self._store.get_run(run_id))
        return int(record.epoch)

    def _check_value(self, run_id: str, name: str) -> None:
        found = self._do(lambda: self._store.read_value(run_id, name))
        if found != self._values[self._mail.chain(run_id), name]:
            self._oracle.report("streams", f"value {name!r} of {self._oracle.label(run_id)} is not the last one set")

    def _check_items(self, run_id: str, stream: str) -> None:
        known = self._items[self._mail.chain(run_id), stream]
        found: list[StreamRecord] = self._do(lambda: self._store.read_items(run_id, stream, limit=len(known) + 1))
        name = f"stream {stream!r} of {self._oracle.label(run_id)}"
        if [item.offset for item in found] != list(range(1, len(known) + 1)):
            self._oracle.report("streams", f"{name} has offsets {[item.offset for item in found]}, of {len(known)}")
            return
        for one, other in zip(found, known, strict=True):
            if (one.payload, one.step, one.attempt, one.reset) != (
                other.payload,
                other.step,
                other.attempt,
                other.reset,
            ):
                self._oracle.report("streams", f"{name} has {one} at its place {one.offset}; sent was {other}")
                return

    def check_run(self, run_id: str, journal: Journal, chain: str, origin: str) -> None:
        """After the end: a follower has, of each step with a result, what one execution has sent."""
        run = self._oracle.runs[run_id]
        # Results that it has from another run: that run's steps have sent the items.
        known = inherited(run)
        entries = [entry for row in journal.rows[len(run.rows) :] for entry in decode_entries(row.data)]
        last: dict[str, StepCompleted] = {}
        for entry in entries:
            if isinstance(entry, StepCompleted):
                last[entry.key] = entry
            elif isinstance(entry, StepAsked):
                # The next try asks again, and the items of its execution replace those of the last one.
                last.pop(entry.key, None)
        for entry in last.values():
            if (entry.key, entry.result) not in known:
                self._check_step(run_id, chain, origin, entry)

    def _check_step(self, run_id: str, chain: str, origin: str, entry: StepCompleted) -> None:
        expected = self._oracle.emitted.get((f"{origin}/{entry.key}", entry.attempt, entry.result))
        if expected is None or run_id in self._oracle.gone:
            return
        left: list[bytes] = []
        for item in self._items.get((chain, STREAM), []):
            if (item.run_id, item.step) == (run_id, entry.key):
                if item.reset:
                    left.clear()
                left.append(item.payload)
        if left != expected:
            self._oracle.report(
                "streams",
                f"step {entry.key!r} of {self._oracle.label(run_id)} has sent {expected}; who follows has {left}",
            )
