"""Talking to runs: signals, events and hooks. A sender only inserts; the run decides when it takes the message."""

from __future__ import annotations

from hashlib import sha256
from time import monotonic_ns
from typing import Any

import msgspec

from holdfast.codec import Codec, misfit
from holdfast.define import refuse_in_body
from holdfast.errors import BadPayload, DefinitionError, HookExpired, HookNotFound, HookUsed, RunEnded
from holdfast.model import Sent, WaitRecord, check_id, holds, is_name, is_text, quoted
from holdfast.observe import MessageSent

from .connections import Connected, Connection
from .ids import check_name, not_found

_json = msgspec.json.Decoder()
_PICKLED = object()
"""Stands for a payload that the codec has pickled: no wait can match it, and no schema can check it."""


class Messaging(Connected):
    """The part of a client that sends messages."""

    async def signal(
        self, run_id: str, name: str, payload: Any = None, *, message_id: str | None = None, connection: Any = None
    ) -> None:
        """Send a signal to a run: `wait_for_signal(name)` takes it, now or later.

            await client.signal(run.id, "approved", {"by": "manager"}, message_id=mail.id)

        Signals wait in the run's inbox, first in, first out for each name. If the run has continued as new, the signal
        reaches the run that goes on. The same `message_id` is delivered once, however often it is sent. Raises
        RunNotFound, RunEnded, and BadPayload if the run waits for this signal and the payload does not fit.

        `connection` sends it inside a transaction of your own: it is delivered if you commit, and not if you roll back.
        Your transaction is never ended here, and can go on after any of these errors.
        """
        await send_signal(self._connection, run_id, name, payload, message_id, connection)

    async def publish(
        self, event: str, payload: Any = None, *, message_id: str | None = None, connection: Any = None
    ) -> None:
        """Publish an event. Every run that waits for it, now or later, may take it, once each.

            await client.publish("paid", {"order": 42}, message_id=payment.id)

        It also begins a run of each workflow that was declared with `on_event` for it. The same `message_id` counts
        once. `connection` publishes it inside a transaction of your own, as with `signal`; it counts as published when
        you call, not when you commit, which matters to runs that begin in between.
        """
        refuse_in_body("client.publish()", "use holdfast.publish() in a body")
        check_name("event", event)
        _check_message_id(message_id)
        data = self._connection.codec.message(payload, "publish", event)
        store = await self._connection.opened_for(connection)
        asked_at = monotonic_ns()
        await store.publish_event(event, data, message_id=message_id, trace=self._connection.caller_trace())
        _tell(self._connection, "event", event, None, asked_at)

    async def resume_hook(
        self, token: str, payload: Any = None, *, message_id: str | None = None, connection: Any = None
    ) -> None:
        """Deliver a payload to the run that made this token. A hook is resumed once.

            await client.resume_hook(request.query["token"], {"ok": True})

        Raises HookNotFound, HookUsed, HookExpired, RunEnded, and BadPayload if the payload does not fit the hook's
        type, which leaves the hook open. `connection` resumes it inside a transaction of your own, as with `signal`:
        others who come with this token wait until you commit or roll back.
        """
        refuse_in_body("client.resume_hook()", "do it in a step")
        _check_message_id(message_id)
        if not is_text(token) or not token:
            # It is not shown: whoever has a token may resume the hook.
            raise DefinitionError(
                f"resume_hook() got {type(token).__name__}: expected the token of a hook, as text without a NUL or a "
                "lone surrogate"
            )
        digest = sha256(token.encode()).hexdigest()
        store = await self._connection.opened_for(connection)
        found = await store.find_hook(digest)
        codec = self._connection.codec
        data = codec.message(payload, "resume_hook")
        if found is not None:
            _refuse_misfit(found, data, codec)
        asked_at = monotonic_ns()
        trace = self._connection.caller_trace()
        sent = await store.resume_hook(digest, data, message_id=message_id, trace=trace)
        if sent is Sent.MISSING:
            raise HookNotFound("there is no hook with this token; it may have been deleted with its run")
        if sent is Sent.USED:
            raise HookUsed("this hook was resumed before; it is delivered once")
        if sent is Sent.EXPIRED:
            raise HookExpired("this hook has expired; its run has been told")
        if sent is Sent.ENDED:
            raise RunEnded(
                "the run that made this hook has ended, so nobody waits for this any more; start another run"
            )
        _tell(self._connection, "hook", None if found is None else found.name, None, asked_at)


async def send_signal(
    client: Connection, run_id: str, name: str, payload: Any, message_id: str | None = None, connection: Any = None
) -> None:
    """Send a signal; see Messaging.signal."""
    refuse_in_body("client.signal()", "use holdfast.signal() in a body")
    check_id(run_id)
    check_name("signal", name)
    _check_message_id(message_id)
    codec = client.codec
    data = codec.message(payload, "signal", name)
    store = await client.opened_for(connection)
    waits = [wait for wait in await store.read_waits(run_id) if wait.kind == "signal" and wait.name == name]
    if waits:
        # A wait whose match does not fit waits for other signals of this name.
        plain = _plain(data, codec)
        asking = [wait for wait in waits if wait.match is None or holds(plain, _json.decode(wait.match))]
        for wait in asking[:1]:
            _refuse_misfit(wait, data, codec)
    asked_at = monotonic_ns()
    sent = await store.send_signal(run_id, name, data, message_id=message_id, trace=client.caller_trace())
    if sent is Sent.MISSING:
        raise not_found(run_id, client.store.namespace)
    if sent is Sent.ENDED:
        raise RunEnded(f"run {run_id} has ended, so nobody will take the signal {name!r}; start another run")
    _tell(client, "signal", name, run_id, asked_at)


def _tell(client: Connection, kind: str, name: str | None, run_id: str | None, asked_at: int) -> None:
    if client.observers is not None:
        client.observers.tell(MessageSent(kind, name, run_id, (monotonic_ns() - asked_at) // 1_000))


def _refuse_misfit(wait: WaitRecord, data: bytes, codec: Codec) -> None:
    if wait.schema is None:
        return
    plain = _plain(data, codec)
    reason = None if plain is _PICKLED else misfit(_json.decode(wait.schema), plain)
    if reason is not None:
        raise BadPayload(
            f"the {wait.kind} {wait.name!r} of run {wait.run_id} expects something else: {reason}; nothing was sent"
        )


def _plain(data: bytes, codec: Codec) -> Any:
    try:
        return _json.decode(codec.open(data))
    except msgspec.DecodeError:
        return _PICKLED


def _check_message_id(message_id: object) -> None:
    if message_id is not None and not is_name(message_id, 500):
        raise DefinitionError(f"message_id={quoted(message_id)}: expected text of 1 to 500 characters, without a NUL")
