"""What a body sends with its turn; and checkpoints, `patched` and continue_as_new, by which it changes or begins
afresh."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

from holdfast.codec import Codec, as_text, from_text
from holdfast.define import RunInfo, Step, Workflow
from holdfast.errors import Continued, MisplacedCall, NotDecodable
from holdfast.model import Checkpoint, OutEvent, OutSignal, Patched, Started

from .calls import Calls
from .inheritance import bequeathed
from .life import Life
from .runners import Runners


class Sends(Calls):
    """The part of an execution that sends. Nothing is sent if the turn is refused, and a replay sends nothing."""

    __slots__ = ("_life", "began_at")

    began_at: int
    """When the run began, or was last tried again as a whole."""

    def __init__(self, workflow: Workflow[Any, Any], run: RunInfo, seed: bytes, codec: Codec, runners: Runners) -> None:
        super().__init__(workflow, run, seed, codec, runners)
        self._life: Life | None = None

    @property
    def life(self) -> Life:
        """Made on first use."""
        if self._life is None:
            self._life = Life()
        return self._life

    def send_signal(self, run_id: str, name: str, payload: Any, key: str | None = None) -> None:
        if self.is_dead:
            self.refuse()
        life = self.life
        child = None
        if self.is_replaying or life.has_keys:
            children = life.children.values() if key is None else filter(None, (life.children.get(key),))
            child = next((one for one in children if one.new.id == run_id), None)
        joined = child.key if child is not None and child.new.key is not None else None
        signal = OutSignal(run_id, name, self._codec.message(payload, "signal", name), self.run.own_trace, joined)
        if not self.is_replaying:
            life.signals.append(signal)
        elif child is not None:
            # If the run goes on from a cut, a child that takes this one's place is sent the same.
            child.told.append(signal)

    @property
    def is_signalling_itself(self) -> bool:
        """Whether a signal that the body sends to its own run, or to its chain, goes out with the coming turn.

        A cancel then waits for the next turn. It may end the run, and the store drops signals to an ended run: sent in
        an earlier turn, the signal is in the inbox by then, for a retry to read.
        """
        signals = () if self._life is None else self._life.signals
        return any(signal.run_id in (self.run.id, self.run.own_id, self.run.chain_id) for signal in signals)

    def send_event(self, name: str, payload: Any) -> None:
        data = self._to_send(payload, "publish", name)
        if data is not None:
            self.life.events.append(OutEvent(name, data, self.run.own_trace))

    def send_value(self, name: str, value: Any) -> None:
        data = self._to_send(value, "set_value", name)
        if data is not None:
            self.life.values.append((name, data))

    def send_item(self, name: str, item: Any) -> None:
        data = self._to_send(item, "emit", name)
        if data is not None:
            self.life.items.append((name, data))

    def _to_send(self, payload: Any, call: str, name: str) -> bytes | None:
        """The encoded payload, or None on replay. It is encoded there, too: a payload that can't be sent is an error
        each time."""
        if self.is_dead:
            self.refuse()
        data = self._codec.message(payload, call, name)
        return None if self.is_replaying else data

    def weigh(self, step: Step[Any, Any], item: Any) -> int:
        return len(self._codec.arguments(step.fn).pack((item,), {}))

    @property
    def max_payload(self) -> int:
        return self._codec.max_payload

    def pack_call(self, workflow: Workflow[Any, Any], item: Any) -> str:
        return as_text(self._codec.arguments(workflow.fn).check((item,), {}))

    def read_result(self, workflow: Workflow[Any, Any], text: str | None) -> Any:
        try:
            return None if text is None else self._codec.result(workflow.fn).decode(from_text(text))
        except NotDecodable as error:
            self.stop_with(error)

    def restored(self) -> Any:
        held = self._feed[self._cursor] if self.is_replaying and self._cursor < len(self._feed) else None
        if not isinstance(held, Checkpoint):
            return None
        self._cursor += 1
        self.run.journal_length = 0
        self._counts = dict(held.counts)
        self.loop.timer_count = held.timers
        self.reseed(held.started.seed)
        if held.undo:
            self.life.compensations = list(held.undo)
        if held.at > self.time:
            self.time = held.at
        return self._codec.value(Any).decode(held.state)

    def checkpoint(self, state: Any) -> None:
        if self.is_dead:
            self.refuse()
        if self.is_replaying:
            # A replay starts at the last checkpoint, so the journal can't hold another one here.
            self.stop_with(self.divergence("a checkpoint", self._next_held(), at=self._cursor))
        data = self._codec.value(Any).encode(state)
        started = Started(self.began_at, self._seed)
        undo = bequeathed(self.life.compensations, self._codec, self.workflow)
        self._entries.append(Checkpoint(self.time, started, data, dict(self._counts), self.loop.timer_count, undo))
        # Entries before the checkpoint need not be read again, so they don't count any more.
        self.run.journal_length = 0
        self.life.truncate = True

    def patched(self, change_id: str) -> bool:
        if self.is_dead:
            self.refuse()
        life = self.life
        known = life.patches.get(change_id)
        if known is None:
            known = life.patches[change_id] = self._patch(life, change_id)
        return known

    def _patch(self, life: Life, change_id: str) -> bool:
        if self.is_replaying:
            if life.markers is None:
                life.markers = frozenset(entry.change_id for entry in self._feed if isinstance(entry, Patched))
            if change_id in life.markers:
                return True
            if self._next_held() is not None:
                return False
            self._go_beyond(life)
        self._entries.append(Patched(change_id))
        return True

    def _go_beyond(self, life: Life) -> None:
        """The journal holds nothing beyond this point: what the body asks for from here on is new.

        These asks are written with the next turn, and none of them begins before.
        """
        life.forget_out()
        life.mark_registered()
        self.is_replaying = False
        self._entries = life.marks = []

    def continue_as_new(
        self, workflow: Workflow[Any, Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> NoReturn:
        if self.is_dead:
            self.refuse()
        if asyncio.current_task(self.loop) is not self.main:
            raise MisplacedCall("continue_as_new() was called in a task of the body; only the body itself may call it")
        target = self.workflow if workflow is None else workflow
        plain = self._codec.arguments(target.fn).check(args, kwargs)
        # Registered compensations go along. One that can't is refused here, where the body sees it, and not at the end.
        bequeathed(self.life.to_undo, self._codec, target)
        self.life.continued = Continued(target, plain)
        raise self.life.continued
