"""Durable timers and the run's own clock, random numbers and ids: the same on every replay."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from datetime import datetime
from random import Random
from typing import cast
from uuid import UUID

from holdfast.model import Duration, Instant, instant_of, microseconds, moment_of

from .scope import Body, body_for


def sleep(duration: Duration) -> Coroutine[object, None, None]:
    """Wait durably: `await holdfast.sleep("1d")`. The timer runs through restarts and downtime.

    A duration is text such as "1h30m", seconds, or a timedelta; BadDuration for anything else. The timer begins at the
    run's own time (`now`) and is never shortened; if it fell due while no worker was alive, it fires when one is. On
    replay a timer that has fired is over at once. In a `def` body it blocks only this run, and no thread is held.
    NotInRun outside any run, NotInBody in a step.
    """
    body = body_for("holdfast.sleep()")
    delay = microseconds(duration, what="sleep")
    if body.is_blocking:
        return cast("Coroutine[object, None, None]", body.block(body.ask_timer(delay)))
    ticket = body.new_ticket()
    return body.track(_slept(body, ticket, delay), ticket, sys._getframe(1))


def sleep_until(moment: datetime) -> Coroutine[object, None, None]:
    """Wait durably until an aware datetime; one in the past is no wait at all.

    Otherwise the same as `sleep`. A datetime without a zone raises BadDuration: it would mean another time elsewhere.
    """
    body = body_for("holdfast.sleep_until()")
    until = instant_of(moment, what="sleep_until")
    if body.is_blocking:
        return cast("Coroutine[object, None, None]", body.block(body.ask_timer(max(until - body.now(), 0))))
    ticket = body.new_ticket()
    return body.track(_slept_until(body, ticket, until), ticket, sys._getframe(1))


async def _slept(body: Body, ticket: int, delay: int) -> None:
    body.redeem(ticket)
    await body.ask_timer(delay)


async def _slept_until(body: Body, ticket: int, until: Instant) -> None:
    body.redeem(ticket)
    # Computed only here, for the coroutine may have been made long before it is awaited.
    await body.ask_timer(max(until - body.now(), 0))


def now() -> datetime:
    """The run's time, an aware datetime in UTC: when the last thing was delivered to it. The same on every replay.

    It stands still while the body computes, and moves with what it waits for. Only in a body: NotInRun outside any run,
    NotInBody in a step, where `datetime.now` is fine.
    """
    return moment_of(body_for("holdfast.now()").now())


def rng() -> Random:
    """The run's own random numbers, a `random.Random`: seeded once, in secret, so every replay draws the same.

    The body must draw in the same order each time, as with everything that it asks for. Only in a body: NotInRun
    outside any run, NotInBody in a step, which has no need of it, because its result is recorded.
    """
    return body_for("holdfast.rng()").rng()


def uuid4() -> UUID:
    """A random UUID that is the same on every replay: an id for what a step is going to make.

    Only in a body: NotInRun outside any run, NotInBody in a step.
    """
    return body_for("holdfast.uuid4()").uuid4()
