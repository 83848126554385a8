"""Waiting for the outside: signals, events and hooks.

A wait takes at most one message; a wait that timed out or was cancelled has taken none.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from types import FrameType, GenericAlias, UnionType
from typing import Any, Generic, TypeAlias, TypeVar, _SpecialForm, cast, overload

from holdfast.errors import WaitTimeout
from holdfast.model import NOT_GIVEN, Duration, microseconds

from .pending import Pending
from .scope import Body, body_for
from .steps import checked_name

T = TypeVar("T")
D = TypeVar("D")
NoClass: TypeAlias = UnionType | _SpecialForm | GenericAlias
"""The types under which a type checker knows `int | None`, `Literal["a"]` and the like: it can infer nothing from them.

Anything wider would let `x: str = await wait_for_signal("s", type=int)` pass.
"""


@overload
def wait_for_signal(
    name: str, *, match: Any = None, timeout: Duration | None = None, type: type[T]
) -> Coroutine[object, None, T]: ...
@overload
def wait_for_signal(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: D, type: type[T]
) -> Coroutine[object, None, T | D]: ...
@overload
def wait_for_signal(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: Any = NOT_GIVEN, type: NoClass
) -> Coroutine[object, None, Any]: ...
@overload
def wait_for_signal(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: Any = NOT_GIVEN
) -> Coroutine[object, None, Any]: ...
def wait_for_signal(
    name: str,
    *,
    match: Any = None,
    timeout: Duration | None = None,
    default: Any = NOT_GIVEN,
    type: Any = Any,
) -> Coroutine[object, None, Any]:
    """The payload of the next signal of that name sent to this run.

        approval = await holdfast.wait_for_signal("approved", match={"by": "manager"}, timeout="7d", default=None)

    Signals wait in the run's inbox, first in, first out for each name: one that came early is not lost. `match` is a
    JSON-subset test: only a payload that holds it is taken, others wait on. A payload that does not fit `type` is
    refused where it is sent if the run waits for it by then; one that was sent before is set aside, and the wait goes
    on. `type` is any annotation that a step may have; without one the payload is plain data. After `timeout` it raises
    WaitTimeout, or returns `default`; `timeout=0` takes what has come already.

    On replay a wait that is over ends in the same way, whatever has come since. Only in a body: NotInRun outside any
    run, NotInBody in a step.
    """
    return _wait("signal", name, match, timeout, default, type, sys._getframe(1))


@overload
def wait_for_event(
    name: str, *, match: Any = None, timeout: Duration | None = None, type: type[T]
) -> Coroutine[object, None, T]: ...
@overload
def wait_for_event(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: D, type: type[T]
) -> Coroutine[object, None, T | D]: ...
@overload
def wait_for_event(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: Any = NOT_GIVEN, type: NoClass
) -> Coroutine[object, None, Any]: ...
@overload
def wait_for_event(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: Any = NOT_GIVEN
) -> Coroutine[object, None, Any]: ...
def wait_for_event(
    name: str,
    *,
    match: Any = None,
    timeout: Duration | None = None,
    default: Any = NOT_GIVEN,
    type: Any = Any,
) -> Coroutine[object, None, Any]:
    """The payload of a published event of that name. Any number of runs may take the same event.

        paid = await holdfast.wait_for_event("paid", match={"order": order.id}, type=Payment, timeout="3d")

    An event published after this run was created is not missed, even if the wait comes later; within a run, and the
    runs that continue it, each event is taken by one wait. `match`, `timeout`, `default` and `type` mean the same as
    for `wait_for_signal`, and so do the rules about replay and about where to call it.
    """
    return _wait("event", name, match, timeout, default, type, sys._getframe(1))


def _wait(
    kind: str, name: str, match: Any, timeout: Duration | None, default: Any, type: Any, frame: FrameType
) -> Coroutine[object, None, Any]:
    body = body_for(f"holdfast.wait_for_{kind}()")
    delay = checked_wait(kind, name, timeout)
    if body.is_blocking:
        return cast("Coroutine[object, None, Any]", body.block(body.ask_wait(kind, name, match, type, delay, default)))
    ticket = body.new_ticket()
    return body.track(_awaited(body, ticket, kind, name, match, type, delay, default), ticket, frame)


def checked_wait(kind: str, name: str, timeout: Duration | None) -> int | None:
    """The checked timeout of a wait in microseconds, or None. A name or a duration that can't be one is refused."""
    checked_name(name)
    return None if timeout is None else microseconds(timeout, what=f"wait_for_{kind}({name!r}): timeout")


async def _awaited(
    body: Body, ticket: int, kind: str, name: str, match: Any, type: Any, delay: int | None, default: Any
) -> Any:
    body.redeem(ticket)
    return await body.ask_wait(kind, name, match, type, delay, default)


class Hook(Generic[T]):
    """A one-time token that the outside resumes this run with: `client.resume_hook(hook.token, payload)`.

    Hand the token to whoever is to answer (a link in a mail, a webhook's address) and `await hook.wait()`. It is
    resumed at most once; a payload that does not fit its type is refused where it is sent, and the hook stays open.
    """

    __slots__ = ("_body", "_reply", "name")

    def __init__(self, body: Body, name: str, reply: Pending[T]) -> None:
        self._body = body
        self._reply = reply
        self.name = name

    @property
    def token(self) -> str:
        """What `client.resume_hook` takes: the same on every replay. In a fork it is another one from the cut on."""
        return self._reply.key

    def wait(self) -> Coroutine[object, None, T]:
        """The payload. Raises WaitTimeout when the hook has expired; a wait that is cancelled leaves the hook open."""
        body = self._body
        if body.is_blocking:
            return cast("Coroutine[object, None, T]", self.block())
        ticket = body.new_ticket()
        return body.track(_hooked(body, ticket, self._reply), ticket, sys._getframe(1))

    def block(self) -> T:
        """The payload, for a `def` body, which blocks until it comes."""
        try:
            payload = self._body.block(asyncio.shield(self._reply))
        except WaitTimeout as expired:
            raise _again(expired) from None
        self._reply.wait = None
        return payload

    def __repr__(self) -> str:
        return f"<hook {self.name}>"


async def _hooked(body: Body, ticket: int, reply: Pending[T]) -> T:
    body.redeem(ticket)
    # The token is out, so a wait that times out or is cancelled leaves the hook open for the next one.
    try:
        payload = await asyncio.shield(reply)
    except WaitTimeout as expired:
        raise _again(expired) from None
    reply.wait = None
    return payload


def _again(expired: WaitTimeout) -> WaitTimeout:
    """A copy of the error. The hook keeps the original; if that were raised, it would keep the frames that it passes,
    and these the hook: only the collector could free them."""
    expired.__traceback__ = None
    return WaitTimeout(*expired.args)


@overload
def hook(*, name: str = "hook", type: type[T], expires: Duration | None = "30d") -> Hook[T]: ...
@overload
def hook(*, name: str = "hook", type: NoClass, expires: Duration | None = "30d") -> Hook[Any]: ...
@overload
def hook(*, name: str = "hook", expires: Duration | None = "30d") -> Hook[Any]: ...
def hook(*, name: str = "hook", type: Any = Any, expires: Duration | None = "30d") -> Hook[Any]:
    """A one-time token that resumes this run.

        link = holdfast.hook(name="confirm", type=Answer, expires="3d")
        await send_mail(f"https://example.com/confirm/{link.token}")
        answer = await link.wait()

    The token is the same on every replay and can't be guessed. After `expires`, a duration, it can't be resumed any
    more, and `wait()` raises WaitTimeout; None is never. `type` is any annotation that a step may have: a payload that
    does not fit is refused where it is sent. Only in a body: NotInRun outside any run, NotInBody in a step.
    """
    body = body_for("holdfast.hook()")
    checked_name(name)
    delay = None if expires is None else microseconds(expires, what=f"hook({name!r}): expires")
    return Hook(body, name, body.ask_hook(name, type, delay))
