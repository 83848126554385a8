"""The contract's methods that send to runs, for the store itself and for a guest in a caller's own transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from holdfast.model import Instant, Sent, WaitRecord

from . import events, messages, waits
from .transactions import Transaction

T = TypeVar("T")
Deed = Callable[[Transaction], Awaitable[T]]


class Messaging:
    """A part of the store and of its guests, which say how to execute a deed."""

    _is_guest = False
    """Whether it is a guest. A guest locks nothing that a turn needs, for the caller may commit late."""

    async def _read(self, deed: Deed[T]) -> T:
        raise NotImplementedError

    async def _write(self, deed: Deed[T], *, is_one: bool = False) -> T:
        raise NotImplementedError

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
        deed = partial(
            messages.send_signal,
            run_id=run_id, name=name, payload=payload, message_id=message_id, trace=trace, now=now,
            is_guest=self._is_guest,
        )  # fmt: skip
        return await self._write(deed, is_one=True)

    async def publish_event(
        self,
        name: str,
        payload: bytes,
        *,
        message_id: str | None = None,
        trace: str | None = None,
        now: Instant | None = None,
    ) -> Sent:
        deed = partial(events.publish_event, name=name, payload=payload, message_id=message_id, trace=trace, now=now)
        return await self._write(deed, is_one=True)

    async def find_hook(self, token: str) -> WaitRecord | None:
        return await self._read(partial(waits.find_hook, token=token))

    async def resume_hook(
        self,
        token: str,
        payload: bytes,
        *,
        message_id: str | None = None,
        trace: str | None = None,
        now: Instant | None = None,
    ) -> Sent:
        deed = partial(
            waits.resume_hook,
            token=token, payload=payload, message_id=message_id, trace=trace, now=now, is_guest=self._is_guest,
        )  # fmt: skip
        return await self._write(deed)

    async def read_waits(self, run_id: str) -> list[WaitRecord]:
        return await self._read(partial(waits.read_waits, run_id=run_id))
