"""How messages, cancels and child ends reach a body, and what happens between the body's end and the run's."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.codec import as_text
from holdfast.define import Unseen
from holdfast.errors import Continued, IOInBody, NeverAwaited, NotDecodable, RunCancelled
from holdfast.model import (
    Cancel,
    ChildEnd,
    ChildEnded,
    Entry,
    EventTaken,
    HookResumed,
    Inherited,
    Input,
    Instant,
    Message,
    Patched,
    Reseeded,
    RunStatus,
    SetAside,
    Signal,
    TimerFired,
)

from .commands import Advance
from .divergence import ending, line_at
from .endings import came_to_its_end, failure_of
from .life import Child
from .loop import Handle
from .mail import ENTRIES, Mailbox
from .marks import Matcher
from .requests import Requests
from .tasks import BodyTask
from .waits import Wait

_child_end = msgspec.msgpack.Decoder(ChildEnd)


class Deliveries(Requests):
    """The part of an execution that takes in what other runs and people send."""

    __slots__ = ("cancel", "ended_main", "stamp")

    cancel: Cancel | None
    ended_main: BodyTask[Any] | None
    """The body's own task, once `main` is the task that compensates for it."""
    context: contextvars.Context
    stamp: Instant
    """The worker's time: entries made of messages get it."""

    def accept(self, message: Message) -> None:
        """Take a message in. A child's end is delivered at once; others stay in the mailbox until a wait takes them."""
        life = self.life
        if message.kind == "child":
            life.taken.append(message.id)
            end = _child_end.decode(message.payload)
            child = life.children.get(message.name or "")
            if child is not None and not child.has_ended and not child.is_former(end.run_id):
                at = max(self.stamp, self.time)
                self._child_ended(ChildEnded(at, child.key, end.run_id, end.status, end.output, end.error))
        elif message.kind in ENTRIES:
            self.keep_mail([message])
        else:
            # Only the worker handles these kinds, and it has.
            life.taken.append(message.id)

    def fire_before(self, sent_at: Instant) -> bool:
        """Fire the next timer if it was due before a message or a cancel was sent. Returns whether one fired.

        What was delivered just before may have set it, such as the start of a run that waited long for a worker.
        """
        timer = self.loop.next_timer()
        if timer is None or timer.due_at >= sent_at or timer.due_at > self.stamp:
            return False
        self._take_in(TimerFired(max(self.stamp, self.time), timer.number))
        self.loop.fire(timer.number)
        return True

    @property
    def is_listening(self) -> bool:
        """Whether a message could change what the body does: it waits for one, or has children."""
        return self._life is not None and bool(self._life.waits or self._life.children)

    @property
    def may_be_stopped(self) -> bool:
        """Whether the body may wait for a thread's answer, as far as one can tell. Such an answer would stop it."""
        is_answered = self.commands or self.loop.timers or self.is_listening
        return not is_answered or self.loop.awaits_stranger

    @property
    def awaits_event(self) -> bool:
        """Whether the body waits for an event. Events reach its inbox only when a worker has matched them."""
        return self._life is not None and any(wait.kind == "event" for wait in self._life.waits.values())

    def leave(self, rest: Sequence[Input | Message]) -> Cancel | None:
        """The body has ended before it got to these inputs. Messages stay unread; a cancel among them is returned."""
        for one in rest:
            # A message of the journal is kept here. One of the inbox is still there.
            if isinstance(one, Message) and one.id < 0:
                self.keep_mail([one])
        return next((one for one in rest if isinstance(one, Cancel)), None)

    def mail(self) -> list[Message]:
        """Messages that no wait has taken yet."""
        return [] if self._life is None else list(self._life.mailbox or ())

    def keep_mail(self, messages: Sequence[Message]) -> None:
        """Keep messages until waits take them; they may come from an earlier execution of this run."""
        for message in messages:
            if self.life.mailbox is None:
                self.life.mailbox = Mailbox(Matcher(self._codec))
            self.life.mailbox.add(message)

    def ask_anew(self, now: Instant, carried: Sequence[Entry] = ()) -> None:
        """Ask anew for what was open at a cut (see Life.ask_anew). `carried` is what will be delivered first."""
        if self._life is not None:
            ended = {entry.key for entry in carried if isinstance(entry, ChildEnded)}
            self._life.ask_anew(ended, now, self.run.deadline_instant)

    @property
    def is_unwritten(self) -> bool:
        """Whether the rebuilt body asked for something that must be written before anything begins."""
        life = self._life
        return life is not None and (life.is_reopened or life.is_outdated or bool(life.marks))

    def hand_out_mail(self) -> bool:
        """Give the oldest message that a wait takes to that wait."""
        found = self.next_mail()
        if found is None:
            return False
        message, wait, value = found
        if message.id > 0:
            # Messages with other ids came out of the journal.
            self.life.taken.append(message.id)
        found_for = self.life.waits.get(message.wait or 0) if message.kind == "event" else None
        if found_for is not None and found_for is not wait:
            # An older wait takes the event. Matching has deleted the row of the wait that it was found for, which goes
            # on: this turn registers it anew.
            found_for.is_registered = False
        at = max(self.stamp, self.time)
        if isinstance(value, NotDecodable):
            # Register the wait anew: the row may have an earlier version's schema, and that of an event's wait was
            # deleted by matching.
            wait.is_stale = True
            self._take_in(SetAside(at, wait.number, wait.name, message.payload, self._codec.sealed_text(str(value))))
        else:
            entry = ENTRIES[wait.kind](at, wait.number, wait.name, message.payload, message.sent_at)
            if wait.hook:
                entry = msgspec.structs.replace(entry, hook=wait.hook)
            if message.trace is not None:
                self.life.traces = (*self.life.traces, (entry, message.trace))
            self._take_in(entry)
            self._resolve(wait, value, entry)
        return True

    def _deliver_other(self, entry: Any) -> None:
        """Deliver an entry that is no start, cancel, timer or step result: `Execution` delivers those."""
        kind = entry.__class__
        if kind is ChildEnded:
            self._child_ended(entry)
        elif kind is SetAside:
            self._take_in(entry)
        elif kind in (Signal, EventTaken, HookResumed):
            wait = None if self._life is None else self._life.waits.get(entry.wait)
            if wait is None or (wait.kind, wait.name) != (entry.kind, entry.name):
                if self.is_replaying:
                    self.fail_with(self.divergence(f"no wait {entry.wait} for {entry.kind} {entry.name!r}", entry))
                return
            self._take_in(entry)
            try:
                self._resolve(wait, wait.shape.decode_message(entry.payload), entry)
            except NotDecodable as error:
                self.fail_with(error)
        elif kind in (Inherited, Reseeded):
            self._begin_with(entry)
        elif kind is not Patched:
            # A marker of a change that the code no longer asks about is skipped. No other kind belongs here.
            self.fail_with(self.divergence("nothing of that kind", entry))

    def _begin_with(self, entry: Inherited | Reseeded) -> None:
        """Apply what the run was begun with. It goes into the journal, and the body does not see it."""
        if not self.is_replaying:
            self._entries.append(entry)
        if isinstance(entry, Inherited):
            self.life.compensations = list(entry.undo)
            self.life.left_hooks, self.life.hooks_before = entry.hooks, entry.hooks_made
            return
        self.begin_timeouts_anew(entry.at)
        self.renew(entry.seed)
        if entry.until is None:
            self.reseed(entry.seed)
        else:
            self._reseed = entry

    def _resolve(self, wait: Wait, value: Any, entry: Signal | EventTaken | HookResumed) -> None:
        self.life.close_wait(wait)
        if isinstance(entry, HookResumed):
            self.life.resumed.append((wait, entry))
        if wait.reply.timer is not None:
            wait.reply.timer.cancel()
        if not wait.reply.done():
            wait.reply.set_result(value)

    def _child_ended(self, entry: ChildEnded) -> None:
        child = None if self._life is None else self._life.children.get(entry.key)
        if child is None:
            if self.is_replaying:
                self.fail_with(self.divergence("nothing; no child run of that key is open", entry))
            return
        self._take_in(entry)
        del self.life.children[entry.key]
        if entry.is_failure:
            self.life.failed.append(entry.key)
        if not child.has_ended:
            self._resolve_child(child, entry)

    def _resolve_child(self, child: Child, entry: ChildEnded) -> None:
        codec = self._codec
        is_unseen = isinstance(child.workflow, Unseen)
        if entry.status == RunStatus.COMPLETED:
            try:
                if is_unseen:
                    child.reply.set_result(None if entry.output is None else as_text(codec.open(entry.output)))
                    return
                shape = codec.result(child.workflow.fn)
                child.reply.set_result(None if entry.output is None else shape.decode(entry.output))
            except NotDecodable as error:
                self.fail_with(error)
        elif entry.status == RunStatus.CANCELLED or entry.error is None:
            child.reply.set_exception(RunCancelled(f"the child run {entry.run_id} was cancelled", entry.run_id))
        else:
            try:
                if is_unseen:
                    failure: BaseException = codec.relayed(entry.error)
                else:
                    failure = codec.decode_exception(entry.error, home=child.workflow.home)
            except NotDecodable as error:
                return self.fail_with(error)
            failure.add_note(f"in the child run {entry.run_id} of {child.workflow.name!r}")
            child.reply.set_exception(failure)

    def _take_in(self, entry: Any) -> None:
        if entry.at > self.time:
            self.time = entry.at
        elif entry.at < self.time and not self.is_replaying:
            # It arrived before messages that were handed out first, and that got the time of this turn.
            entry = msgspec.structs.replace(entry, at=self.time)
        self.run.journal_length += 1
        if not self.is_replaying:
            self._entries.append(entry)

    def enter_shield(self) -> None:
        if self.is_dead:
            self.refuse()
        life = self.life
        if life.is_cancel_due:
            # A shield has held a cancel back, and there was no wait since. Stand aside until it is delivered, so that
            # the body, or a task that is cancelled with it, gets it here and not inside this shield.
            self.block(self.ask_timer(0))
        life.shields += 1

    def leave_shield(self) -> None:
        life = self.life
        life.shields -= 1
        if life.is_cancel_due and not self.is_dead:
            # Only once the current task waits: it may be the body, and asyncio would just flag a running task for
            # cancellation, which a call that blocks never notices.
            self.runners.ready.appendleft(Handle(self.cancel_main, (), self.runners.context))

    def cancel_main(self) -> None:
        """Deliver a cancel to the body, unless a shield holds it back."""
        life, main = self._life, self.main
        if life is not None and life.shields:
            life.is_cancel_held = True
        elif main is not None and not main.done() and (life is None or not life.is_compensating):
            if life is not None:
                life.is_cancel_held = False
            self.reserve_cleanup()
            main.cancel()

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancel has ended the body, including one that a shield held back until the body waited no more."""
        main = self.main if self.ended_main is None else self.ended_main
        if main is None or main.cancelled():
            return main is not None
        is_due = self._life is not None and self._life.is_cancel_due
        return is_due and isinstance(failure_of(main), Continued | None)

    async def rollback(self) -> None:
        self.check_limit()
        # Shielded: what a cancel interrupts here would be asked again after the body, by another key, and undone twice.
        self.enter_shield()
        try:
            await self._undo()
        finally:
            self.leave_shield()

    @property
    def is_cleaning_up(self) -> bool:
        """Whether the run is about to end, or in a shield."""
        return self.cancel is not None or (
            self._life is not None and (self._life.is_compensating or self._life.shields > 0)
        )

    def begins_compensation(self, would_retry: bool) -> bool:
        """Begin to compensate, in a task of its own, if the body has failed and there is something to undo."""
        life, main = self._life, self.main
        if life is None or main is None or life.is_compensating or would_retry:
            return False
        if not (life.compensations or life.in_hand):
            return False
        is_late = self.cancel is not None and self.cancel.deadline
        if not is_late and not self.is_cancelled:
            error = failure_of(main)
            if error is None or isinstance(error, (Continued, IOInBody)):
                return False
        life.is_compensating, life.failed_at = True, self.time
        self.reserve_cleanup()
        self.ended_main = main
        for task in list(self.loop.tasks.values()):
            if task is not main and not task.done():
                task.cancel()
        in_hand = [reply for reply, _ in life.in_hand]
        for command in list(self.commands.values()):
            if command.reply not in in_hand:
                command.reply.cancel()
        self.main = self.loop.create_task(self._undo(), name="compensation", context=self.context)
        return True

    def give_out(self, done: Advance) -> None:
        """Add to an advance what the body sends and registers."""
        life = self.life
        done.taken, life.taken = tuple(life.taken), []
        done.traces, life.traces = life.traces, ()
        if done.retrying is not None:
            # The next try asks for open children by other ids, so these are called off.
            life.cancels += [child.new.id for child in life.children.values() if child.is_ours]
            # Hooks stay open: their tokens are given out, and whoever resumes one meanwhile is heard.
            for wait in [one for one in life.waits.values() if one.kind != "hook"]:
                life.close_wait(wait)
        done.out = life.out()

    def _what_it_does(self) -> str:
        if self.main is None:
            return "nothing yet: the run has not begun"
        if self.main.done():
            return f"nothing: the body has ended{ending(self.main)}"
        waits = [f"step {key!r}" for key in self.commands]
        waits += [f"timer {number}" for number in self.loop.timers]
        if self._life is not None:
            waits += [f"{wait.kind} {wait.name!r}" for wait in self._life.waits.values()]
            waits += [f"child run {child.new.id}" for child in self._life.children.values()]
        return "nothing; it waits for " + (", ".join(waits) or "something that will not come")

    def _check_end(self, main: BodyTask[Any]) -> None:
        """Raise what blocks the run instead, if the body's end does not count."""
        error = failure_of(main)
        if isinstance(error, IOInBody):
            # A call to a client in the body, say. The run goes on when the code is mended.
            self.fail_with(error)
            raise error
        if self.ended_main is not None:
            # Compensation ends normally even if the body has failed, so ask for the body's own error.
            error = failure_of(self.ended_main)
        if (self._tickets or self._open_pendings or self.loop.dropped) and isinstance(error, Continued | None):
            self._check_everything_was_awaited()

    def _check_everything_was_awaited(self) -> None:
        # A call counts as looked at if a task has awaited its coroutine, or a cancel has closed it. A task that was
        # cancelled, failed or lost a race never came to the line where it would have looked.
        forgotten = [
            (code, at)
            for work, task, code, at in self._tickets.values()
            if inspect.getcoroutinestate(work) != inspect.CORO_CLOSED and came_to_its_end(task)
        ]
        forgotten += [(code, at) for _, task, code, at in self._open_pendings.values() if came_to_its_end(task)]
        forgotten += [(code, at) for task, code, at in self.loop.dropped if came_to_its_end(task)]
        if not forgotten:
            return
        lines = ", ".join(dict.fromkeys(line_at(code, at) for code, at in forgotten))
        self.fail_with(
            NeverAwaited(
                f"{self.run!r} ended, but the result of a call was never looked at: {lines}. "
                "Await it (or call .result() in a def body); the run is intact and goes on when the code is fixed"
            )
        )
        assert self.fault is not None
        raise self.fault
