"""How messages and cancels reach a body, how its children end, and what happens between its end and the run's."""

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
from .divergence import ending, line_of
from .endings import came_to_its_end, failure_of
from .life import Child
from .loop import Handle
from .mail import ENTRIES, Mailbox
from .marks import Marks
from .requests import Requests
from .tasks import BodyTask
from .waits import Wait

_child_end = msgspec.msgpack.Decoder(ChildEnd)


class Deliveries(Requests):
    """The part of an execution that takes in what comes from other runs and from people."""

    __slots__ = ("cancel", "ended_main", "stamp")

    cancel: Cancel | None
    ended_main: BodyTask[Any] | None
    """The body's own task, once another one compensates for it."""
    context: contextvars.Context
    stamp: Instant
    """The worker's time, for what is made of messages."""

    def accept(self, message: Message) -> None:
        """A message has come. A child's end is delivered; the others wait in the mailbox until a wait takes them."""
        life = self.life
        if message.kind == "child":
            life.taken.append(message.id)
            end = _child_end.decode(message.payload)
            child = life.children.get(message.name or "")
            if child is not None and not child.reply.done() and not child.is_former(end.run_id):
                at = max(self.stamp, self.time)
                self._child_ended(ChildEnded(at, child.key, end.run_id, end.status, end.output, end.error))
        elif message.kind in ENTRIES:
            self.keep_mail([message])
        else:
            # Of a kind that only the worker understands: it has done so.
            life.taken.append(message.id)

    def fire_before(self, sent_at: Instant) -> bool:
        """Fire the timer that was due before a message or a cancel was sent, if there is one.

        It may have been set by what was delivered just before, such as the start of a run that nobody had for a while.
        """
        timer = self.loop.next_timer()
        if timer is None or timer.due_at >= sent_at or timer.due_at > self.stamp:
            return False
        self._take_in(TimerFired(max(self.stamp, self.time), timer.number))
        self.loop.fire(timer.number)
        return True

    @property
    def is_listening(self) -> bool:
        """Whether a message could still change what it does: it waits for one, or has children."""
        return self._life is not None and bool(self._life.waits or self._life.children)

    @property
    def may_be_stopped(self) -> bool:
        """Whether a thread may have to answer what it waits for, as far as one can tell, which would stop it."""
        is_answered = self.commands or self.loop.timers or self.is_listening
        return not is_answered or self.loop.awaits_stranger

    @property
    def awaits_event(self) -> bool:
        """Whether an event could change what it does: those come to its inbox only when somebody has matched them."""
        return self._life is not None and any(wait.kind == "event" for wait in self._life.waits.values())

    def leave(self, rest: Sequence[Input | Message]) -> Cancel | None:
        """The body has ended before it got to these: the cancel, if there is one. Messages stay unread."""
        for one in rest:
            # What is in the inbox is there still.
            if isinstance(one, Message) and one.id < 0:
                self.keep_mail([one])
        return next((one for one in rest if isinstance(one, Cancel)), None)

    def mail(self) -> list[Message]:
        """Messages that no wait has taken yet."""
        return [] if self._life is None else list(self._life.mailbox or ())

    def keep_mail(self, messages: Sequence[Message]) -> None:
        """Keep messages, maybe those of an earlier self, until waits take them."""
        for message in messages:
            if self.life.mailbox is None:
                self.life.mailbox = Mailbox(Marks(self._codec))
            self.life.mailbox.add(message)

    def ask_anew(self, now: Instant, carried: Sequence[Entry] = ()) -> None:
        """The run goes on from a cut: see Life.ask_anew. `carried` is what will be delivered first."""
        if self._life is not None:
            ended = {entry.key for entry in carried if isinstance(entry, ChildEnded)}
            self._life.ask_anew(ended, now, self.run.deadline_instant)

    @property
    def is_unwritten(self) -> bool:
        """Whether the body, when it was rebuilt, asked for something that is to be written before anything begins."""
        return self._life is not None and (self._life.is_reopened or bool(self._life.marks))

    def hand_out_mail(self) -> bool:
        """Give the oldest message that a wait takes to that wait."""
        found = self.next_mail()
        if found is None:
            return False
        message, wait, value = found
        if message.id > 0:
            # Else it came out of the journal.
            self.life.taken.append(message.id)
        found_for = self.life.waits.get(message.wait or 0) if message.kind == "event" else None
        if found_for is not None and (found_for is not wait or isinstance(value, NotDecodable)):
            # The delivery has taken that wait's row away, and it goes on: an older one takes the event, or it does not
            # fit. With this turn it is registered anew.
            found_for.is_registered = False
        at = max(self.stamp, self.time)
        if isinstance(value, NotDecodable):
            # What is sent next is to be checked against the type of this code: the row may be that of earlier code.
            wait.is_stale = True
            self._take_in(SetAside(at, wait.number, wait.name, message.payload, str(value)))
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
        """Deliver what is neither a start, a cancel, a timer nor of a step: those are delivered by `Execution`."""
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
                self._resolve(wait, wait.shape.decode(entry.payload), entry)
            except NotDecodable as error:
                self.fail_with(error)
        elif kind in (Inherited, Reseeded):
            self._begin_with(entry)
        elif kind is not Patched:
            # A change that the code no longer asks about is passed over; anything else is none of ours.
            self.fail_with(self.divergence("nothing of that kind", entry))

    def _begin_with(self, entry: Inherited | Reseeded) -> None:
        """What the run was begun with: it is in the journal, and nothing that the body takes in."""
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
        self.life.is_over(wait)
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
        if not child.reply.done():
            self._tell_end(child, entry)

    def _tell_end(self, child: Child, entry: ChildEnded) -> None:
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
        self.run.journal_length += 1
        if not self.is_replaying:
            self._entries.append(entry)

    def enter_shield(self) -> None:
        if self.is_dead:
            self.refuse()
        life = self.life
        if life.is_cancel_due:
            # Between two shields, without a wait there: what runs now stands aside until the body has got it, and is
            # told here, and not inside, if it is the body, or a task that is cancelled with it.
            self.block(self.ask_timer(0))
        life.shields += 1

    def leave_shield(self) -> None:
        life = self.life
        life.shields -= 1
        if life.is_cancel_due and not self.is_dead:
            # When what runs now waits, for it may be the body itself: asyncio would only note the cancel then, and a
            # call that blocks would never hear of it.
            self.runners.ready.appendleft(Handle(self.cancel_main, (), self.runners.context))

    def cancel_main(self) -> None:
        """Deliver a cancel to the body, unless it is shielded for now."""
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
        """Whether the body has ended by a cancel, also by one that a shield kept back until there was no wait left."""
        main = self.main if self.ended_main is None else self.ended_main
        if main is None or main.cancelled():
            return main is not None
        is_due = self._life is not None and self._life.is_cancel_due
        return is_due and isinstance(failure_of(main), Continued | None)

    async def rollback(self) -> None:
        self.check_limit()
        # What a cancel interrupts would be asked for again behind the body, by another key: undone twice, maybe.
        self.enter_shield()
        try:
            await self._undo()
        finally:
            self.leave_shield()

    @property
    def is_cleaning_up(self) -> bool:
        """Whether the run is on its way to its end, or in a block that a cancel must not interrupt."""
        return self.cancel is not None or (
            self._life is not None and (self._life.is_compensating or self._life.shields > 0)
        )

    def begins_compensation(self, would_retry: bool) -> bool:
        """The body has ended: if it failed and something is to be undone, that begins now, as a task of its own."""
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
        """Add to an advance what it sends and registers."""
        life = self.life
        done.taken, life.taken = tuple(life.taken), []
        done.traces, life.traces = life.traces, ()
        if done.retrying is not None:
            # Its next try asks for what is open anew, by other ids: what runs by these is called off.
            life.cancels += [child.new.id for child in life.children.values() if child.is_ours]
            # A hook's token is out, if only with this turn: whoever resumes it meanwhile is heard.
            others = [wait for wait in life.waits.values() if wait.kind != "hook"]
            life.closed += [wait.number for wait in others if wait.is_registered]
            for wait in others:
                del life.waits[wait.number]
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
        """Whether the body's end is one: raises what blocks the run instead."""
        error = failure_of(main)
        if isinstance(error, IOInBody):
            # A call to a client, say. Its code is to be mended, and then it goes on.
            self.fail_with(error)
            raise error
        if self.ended_main is not None:
            # What compensates comes to its end however the body has failed, which has its own error.
            error = failure_of(self.ended_main)
        if isinstance(error, Continued | None):
            self._check_everything_was_awaited()

    def _check_everything_was_awaited(self) -> None:
        # A coroutine that was handed to a task has given its ticket back, or a cancel has closed it: it was looked at.
        # A task that was cancelled, failed or lost a race never came to the line where it would have looked.
        forgotten = [
            (code, line)
            for work, task, code, line in self._tickets.values()
            if inspect.getcoroutinestate(work) != inspect.CORO_CLOSED and came_to_its_end(task)
        ]
        forgotten += [(code, line) for _, task, code, line in self._open_pendings.values() if came_to_its_end(task)]
        forgotten += [(code, line) for task, code, line in self.loop.dropped if came_to_its_end(task)]
        if not forgotten:
            return
        lines = ", ".join(dict.fromkeys(line_of(code, line) for code, line in forgotten))
        self.fail_with(
            NeverAwaited(
                f"{self.run!r} ended, but the result of a call was never looked at: {lines}. "
                "Await it (or call .result() in a def body); the run is intact and goes on when the code is fixed"
            )
        )
        assert self.fault is not None
        raise self.fault
