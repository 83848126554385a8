"""What a body asks for beside steps and timers: waits, hooks and children.

As with steps, what is asked follows from the entries delivered alone. Waits are numbered in the order of asking and
need no entry of their own, but what a wait has taken is an entry. Which message a wait takes is decided once, live, by
name and match, oldest first, and is in the journal from then on.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from hashlib import blake2b, sha256
from typing import Any

import msgspec

from holdfast.codec import from_text
from holdfast.define import ChildRun, ChunkRuns, Pending, Reply, Unseen, Workflow, asked_of
from holdfast.errors import DefinitionError, MissingCode, NotDecodable, WaitTimeout
from holdfast.model import (
    NOT_GIVEN,
    ChildAsked,
    Instant,
    MadeHook,
    Message,
    NewRun,
    NewWait,
    bounded_id,
    microseconds,
    probe_of,
    spoken,
)

from .calls import Earlier, is_digest_of
from .compensations import Compensations
from .divergence import calling_line
from .life import Child, deadline_of_child, instant_from, seed_of_child
from .loop import Timer
from .marks import marks_of
from .waits import Wait

_json = msgspec.json.Decoder()


class Requests(Compensations):
    """The upper part of the interface that an execution offers to its body."""

    __slots__ = ()

    def ask_wait(
        self, kind: str, name: str, match: Any, type: Any, timeout: int | None, default: Any
    ) -> asyncio.Future[Any]:
        if self.is_dead:
            self.refuse()
        self.check_limit()
        reply: Reply[Any] = Reply(self, self.loop, "")
        wait = self._wait(kind, name, match, type, reply)
        if timeout is not None:
            # A timer even for a timeout of zero, so that messages sent before are found before it fires.
            reply.timer = self.loop.call_after(
                timeout,
                self._time_out,
                wait,
                default,
                timeout,
                context=self.runners.context,
                may_be_soon=False,
                is_timeout=default is NOT_GIVEN,
            )
        return reply

    def ask_hook(self, name: str, type: Any, expires: int | None) -> Pending[Any]:
        if self.is_dead:
            self.refuse()
        self.check_limit()
        # A fork's hooks use its own seed at once, even where it still draws what the original run drew: the original's
        # tokens are out.
        made = self.life.next_hook(name, self._seed if self._reseed is None else self._reseed.seed)
        token = _token(made)
        reply: Pending[Any] = Pending(self, self.loop, token)
        # A body need not wait for its hook.
        reply._is_seen = True
        until = None if expires is None else self.time + expires
        made = msgspec.structs.replace(made, expires_at=until)
        wait = self._wait("hook", name, None, type, reply, made=made, token=_digest(token))
        if expires is not None:
            reply.timer = self.loop.call_after(
                expires, self._time_out, wait, NOT_GIVEN, expires, context=self.runners.context, is_timeout=True
            )
        return reply

    def begin_timeouts_anew(self, now: Instant) -> None:
        """The run goes on from a cut: timeouts that are open there start again from zero. Sleeps go on."""
        self.loop.begin_timeouts_anew(now)
        for wait in () if self._life is None else self._life.waits.values():
            made, timer = wait.made, wait.reply.timer
            if made is not None and isinstance(timer, Timer):
                wait.made = msgspec.structs.replace(made, expires_at=timer.due_at)
                if wait.row is not None:
                    wait.row = msgspec.structs.replace(wait.row, expires_at=timer.due_at)

    def renew(self, seed: bytes) -> None:
        """A fork goes on from here. Give its open hooks other tokens, for the old ones resume the original run, and its
        open children other ids."""
        if self._life is None:
            return
        for wait in self._life.waits.values():
            if wait.made is not None and wait.row is not None:
                wait.made = msgspec.structs.replace(wait.made, seed=seed, place=wait.number, is_renewed=True)
                token = wait.reply.key = _token(wait.made)
                wait.row = msgspec.structs.replace(wait.row, token=_digest(token))
        # Hooks that earlier runs of the original's chain left open are resumed there.
        self._life.left_hooks = ()
        for child in self._life.children.values():
            child.replace_run(child.first)

    def _wait(
        self,
        kind: str,
        name: str,
        match: Any,
        type: Any,
        reply: Reply[Any],
        *,
        made: MadeHook | None = None,
        token: str | None = None,
    ) -> Wait:
        life = self.life
        life.numbers += 1
        shape = self._codec.value(type)
        wanted = None if match is None else self._codec.plain_json(match)
        schema = self._codec.schema(type)
        row = None
        if kind != "signal" or schema is not None:
            row = NewWait(
                number=life.numbers if made is None else made.number,
                kind=kind,
                name=name,
                match=None if match is None else msgspec.json.encode(wanted),
                probe=probe_of(name, wanted) if kind == "event" else None,
                schema=schema,
                token=token,
                expires_at=None if made is None else made.expires_at,
            )
        wait = life.waits[life.numbers] = Wait(life.numbers, kind, name, wanted, shape, reply, row)
        if made is not None:
            wait.hook, wait.made = life.hook, made
        wait.marks = marks_of(wait)
        reply.wait = wait.number
        return wait

    def _time_out(self, wait: Wait, default: Any, after: int) -> None:
        # The timer has fired: break the reference cycle, which only the collector would free.
        wait.reply.timer = None
        if wait.reply.done():
            return
        self.life.close_wait(wait)
        if default is not NOT_GIVEN:
            wait.reply.set_result(default)
        elif wait.kind == "hook":
            wait.reply.set_exception(WaitTimeout(f"the hook {wait.name!r} expired after {spoken(after)}"))
            # Mark the exception as retrieved: if no body waits for the hook, asyncio would report it.
            wait.reply.exception()
        else:
            wait.reply.set_exception(WaitTimeout(f"no {wait.kind} {wait.name!r} came within {spoken(after)}"))

    def next_mail(self) -> tuple[Message, Wait, Any] | None:
        """The oldest message that an open wait takes, that wait, and the value, or why it doesn't fit.

        None if there is no such message, or if this worker can't read the first one: that blocks the run.
        """
        life = self._life
        if life is None or not life.mailbox:
            return None
        found = life.mailbox.take(life.waits)
        if found is None:
            return None
        message, wait = found
        try:
            return message, wait, wait.shape.decode_message(message.payload)
        except NotDecodable as error:
            if self._may_set_aside(message, wait, error):
                return message, wait, error
            # The message stays in the inbox, for a worker with the right codec or code.
            self.fail_with(error)
            return None

    def _may_set_aside(self, message: Message, wait: Wait, error: NotDecodable) -> bool:
        """Whether to set aside a message that doesn't fit, so that the wait goes on without it.

        Not if this worker's codec can't open it: another worker's may. Not if its code lacks what the message or the
        wait's type needs, for the same reason. Not if it came by a hook's own token: it fitted when it was sent, so the
        type has changed since, and the token is used up.
        """
        if isinstance(error, MissingCode):
            return False
        if wait.kind == "hook" and (message.hook or message.wait is not None):
            return False
        try:
            _json.decode(self._codec.open(message.payload))
        except (msgspec.DecodeError, NotDecodable):
            return False
        return True

    def withdraw(self, reply: Reply[Any]) -> None:
        super().withdraw(reply)
        life = self._life
        if life is None:
            return
        wait = None if reply.wait is None else life.waits.get(reply.wait)
        if wait is not None:
            life.close_wait(wait)
        child = life.children.get(reply.key)
        if child is None or child.reply is not reply:
            return
        # Nobody waits for the child any more, so call it off.
        del life.children[reply.key]
        is_unsent = life.new_children.pop(reply.key, None) is not None
        if not is_unsent and not self.is_replaying and child.new.on_parent_end == "cancel":
            life.cancels.append(child.new.id)

    def cancel_child(self, child: Reply[Any]) -> None:
        if self.is_dead:
            self.refuse()
        found = self.life.children.get(child.key)
        if found is not None and found.reply is child and not found.is_cancelled:
            found.is_cancelled = True
            if not self.is_replaying:
                self.life.cancels.append(found.new.id)

    def ask_child(
        self, workflow: Workflow[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> asyncio.Future[Any]:
        return self._ask_child(workflow, args, kwargs, Reply)

    def ask_child_run(
        self, workflow: Workflow[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ChildRun[Any]:
        child = self._ask_child(workflow, args, kwargs, ChildRun)
        assert isinstance(child, ChildRun)
        if workflow.start_options.on_parent_end == "abandon":
            child._is_seen = True
        else:
            self.expect_look(child)
        return child

    def _ask_child(
        self, workflow: Workflow[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any], cls: type[Reply[Any]]
    ) -> Reply[Any]:
        if self.is_dead:
            self.refuse()
        self.check_limit()
        self._check_options(workflow)
        earlier: Earlier = _no_earlier
        if isinstance(workflow, Unseen):
            plain = from_text(args[0])
        else:
            arguments = self._codec.arguments(workflow.fn)
            plain, earlier = arguments.check(args, kwargs), arguments.earlier
        asked = plain
        if isinstance(workflow, ChunkRuns):
            asked, earlier = asked_of(*args), self._codec.arguments(workflow.items.fn).earlier
        key = self._new_key(workflow.name)
        digest = blake2b(asked, digest_size=8).digest()
        first = workflow.start_options.id or self._child_id(key)
        held = self._match_child(key, digest, earlier, asked) if self.is_replaying else None
        # The end of the retried run may have called off the run that has this id or key: don't wait for that one.
        is_called_off = held is None and self._is_called_off(key, workflow)
        # The body saw the id in the journal, even if it names a child of the run that this one repeats.
        run_id = held.run_id if held is not None else self._child_id(key) if is_called_off else first
        new = self._new_run(workflow, key, plain, run_id)
        if held is None:
            if is_called_off and new.key is not None:
                new = msgspec.structs.replace(new, on_conflict="restart")
            self._entries.append(ChildAsked(key, new.id, workflow.name, digest))
            self.life.new_children[key] = new
        elif held.run_id.startswith(f"{self.run.own_id}.{key}"):
            # This run has made the id, maybe by an older version's rules.
            first = held.run_id
        reply = cls(self, self.loop, key)
        if isinstance(reply, ChildRun):
            reply.id = new.id
        self.life.children[key] = Child(key, workflow, new, reply, first)
        self.life.has_keys = self.life.has_keys or new.key is not None
        return reply

    def _is_called_off(self, key: str, workflow: Workflow[Any, Any]) -> bool:
        """Whether the end of the run that this one retries has called off this child."""
        return key in self.life.called_off and workflow.start_options.on_parent_end in (None, "cancel")

    def _check_options(self, workflow: Workflow[Any, Any]) -> None:
        options, run = workflow.start_options, self.run
        if options.on_conflict not in (None, "return"):
            raise DefinitionError(
                f"{workflow.name}.options(on_conflict={options.on_conflict!r}) in a body: a child joins "
                "the run that has its key; leave on_conflict= out, or start the run by a client in a step"
            )
        if options.key is not None and (workflow.name, options.key) == (run.workflow, run.key):
            raise _would_join_itself(workflow, "key", options.key)
        if options.id is not None and options.id in (run.id, run.chain_id):
            raise _would_join_itself(workflow, "id", options.id)

    def _new_run(self, workflow: Workflow[Any, Any], key: str, plain: bytes, run_id: str) -> NewRun:
        options = workflow.start_options
        run = self.run
        retention = workflow.retention
        if options.retention is None:
            retention = None
        elif options.retention is not NOT_GIVEN:
            retention = microseconds(options.retention, what="retention")
        return NewRun(
            id=run_id,
            workflow=workflow.name,
            version=workflow.version,
            input=self._codec.seal(plain),
            seed=seed_of_child(run_id, self._seed),
            queue=options.queue or workflow.queue,
            key=options.key,
            due_at=None if options.delay is None else instant_from(self.time, options.delay, "delay"),
            deadline_at=deadline_of_child(workflow, self.time, run.deadline_instant),
            priority=run.priority if options.priority is None else options.priority,
            tags=options.tags or {},
            retention=retention,
            has_own_retention=options.retention is not NOT_GIVEN,
            parent_id=run.own_id,
            parent_key=key,
            on_parent_end=options.on_parent_end or "cancel",
            trace=run.own_trace,
        )

    def _child_id(self, key: str) -> str:
        """An id that no other run has; else the child would be taken for that run and never begin.

        Names are not enough: children of a deleted run may still exist when its id is used again, a workflow's name may
        read like that of a child's child, and children that an earlier try began behind the cut are not what this one
        asks for. So the id ends in a draw from the run's own seed.
        """
        place = f"{self.run.attempt} {key}".encode()
        drawn = blake2b(place, key=self._seed, person=b"holdfast kin", digest_size=4)
        return bounded_id(f"{self.run.own_id}.{key}~{drawn.hexdigest()}")

    def _match_child(self, key: str, digest: bytes, earlier: Earlier, asked: bytes) -> ChildAsked:
        held = self._next_held()
        if isinstance(held, ChildAsked) and held.key == key and is_digest_of(held.digest, digest, earlier, asked):
            self._cursor += 1
            return held
        line = calling_line(4) or self._awaited_line
        self.stop_with(
            self.divergence(f"child run {key!r}, arguments {digest.hex()}, at {line}", held, at=self._cursor)
        )


def _token(made: MadeHook) -> str:
    """The token that resumes a hook. Nobody can guess it without the seed."""
    person = b"holdfast renewed" if made.is_renewed else b"holdfast hook"
    drawn = blake2b(made.place.to_bytes(8, "big"), key=made.seed, person=person, digest_size=24)
    return urlsafe_b64encode(drawn.digest()).decode()


def _would_join_itself(workflow: Workflow[Any, Any], option: str, given: str) -> DefinitionError:
    return DefinitionError(
        f"{workflow.name}.options({option}={given!r}) in the run that has this {option}: it would join itself, and "
        f"wait for its own end; give the child another {option}, or go on with continue_as_new"
    )


def _no_earlier(_: bytes) -> tuple[bytes, ...]:
    """A call that comes packed was packed no other way before."""
    return ()


def _digest(token: str) -> str:
    """What the store keeps in place of a token."""
    return sha256(token.encode()).hexdigest()
