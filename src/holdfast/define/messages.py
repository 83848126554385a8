"""What bodies and steps send: signals to other runs, events to everybody, values and streams for whoever watches.

What a body sends goes with its turn: nothing is sent if the turn is refused, and a replay sends nothing.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import DefinitionError, NotInRun
from holdfast.model import is_text

from .scope import IN_THREADS, StepInfo, body_for, current_scope
from .steps import checked_name


def signal(run_id: str, name: str, payload: Any = None) -> None:
    """Send a signal to another run, with this turn; `wait_for_signal` takes it there.

        holdfast.signal(buyer_run_id, "shipped", {"parcel": parcel})

    It is sent once, when the turn is committed: not if the turn is refused, and not again on replay. A signal to a run
    that has ended or does not exist is dropped without an error; `client.signal`, which does the same from outside,
    raises one. The payload is anything that can be stored, else NotEncodable. Only in a body: in a step use a client.
    """
    body = body_for("holdfast.signal()")
    if not is_text(run_id):
        raise DefinitionError(f"signal to {run_id!r}: expected the id of a run, as text")
    body.send_signal(run_id, checked_name(name), payload)


def publish(event: str, payload: Any = None) -> None:
    """Publish an event, with this turn: every run that waits for it may take it, and `on_event` begins runs for it.

        holdfast.publish("order_paid", {"order": order.id})

    It is sent once, when the turn is committed: not if the turn is refused, and not again on replay. Events are kept
    for a week (the setting `event_retention`), for waits that come later. The payload is anything that can be stored,
    else NotEncodable. Only in a body: in a step use a client, whose `publish` is the same from outside.
    """
    body_for("holdfast.publish()").send_event(checked_name(event), payload)


def set_value(name: str, value: Any) -> None:
    """Set live state that a client can read with `run.value(name)`: the last value of each name counts.

        holdfast.set_value("progress", {"done": 3, "of": 10})

    A value set by a body is visible with the turn, one set by a step at once. A replay sets nothing again. Values stay
    readable when the run has ended, and are deleted with the last run of its chain. Raises NotInRun outside any run,
    NotEncodable and PayloadTooLarge.
    """
    scope = _scope("holdfast.set_value()")
    scope.send_value(checked_name(name), value)


def emit(name: str, item: Any) -> None:
    """Add an item to a stream that a client can follow with `run.stream(name)`.

        for row in rows:
            holdfast.emit("rows", row)

    An item sent by a body is visible with the turn, one sent by a step at once. When another attempt of a step begins
    to send, its first item has `reset` set: the items of earlier attempts no longer count. Raises NotInRun outside any
    run, NotEncodable and PayloadTooLarge.
    """
    scope = _scope("holdfast.emit()")
    scope.send_item(checked_name(name), item)


def _scope(what: str) -> Any:
    scope = current_scope.get()
    if scope is None:
        raise NotInRun(
            f"{what} was called outside a run; call it in a workflow body or in a step that a worker executes: "
            f"{IN_THREADS}"
        )
    if isinstance(scope, StepInfo):
        return scope
    return body_for(what)
