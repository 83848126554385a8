"""What a program may do beside steps and timers: hear messages, have children, shield, register what undoes it, send.

As everywhere, what a body sees goes into its trace and into the number that its steps get, so that a replay which takes
another branch is found out.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import holdfast
from holdfast.define import Workflow

from .programs import Hear, Hooked, Node, Offspring, Post, Shielded, Undoable


class Witness(Protocol):
    """Whoever a body tells about its tokens, and where it finds the workflows of its children."""

    def child(self, name: str) -> Workflow[Any, Any]: ...

    def has_token(self, token: str) -> None: ...

    def label(self, run_id: str) -> str: ...


class Living(Protocol):
    """The body that lives through it."""

    value: int
    witness: Any

    def mix(self, *what: object) -> None: ...

    def failed(self, what: str, error: BaseException) -> None: ...

    def undoing(self, node: Undoable) -> Any: ...

    async def run(self, node: Node) -> None: ...


async def live(body: Living, node: Node) -> None:
    """One node of these kinds."""
    if isinstance(node, Hear):
        await _hear(body, node)
    elif isinstance(node, Hooked):
        await _hooked(body, node)
    elif isinstance(node, Offspring):
        await _offspring(body, node)
    elif isinstance(node, Shielded):
        with holdfast.shield():
            await body.run(node.part)
    elif isinstance(node, Undoable):
        holdfast.compensate(body.undoing(node), node.errand.number, body.value)
        body.mix("registers", node.errand.number)
    else:
        assert isinstance(node, Post)
        _post(body, node)


async def _hear(body: Living, node: Hear) -> None:
    wait = holdfast.wait_for_signal if node.what == "signal" else holdfast.wait_for_event
    heard = await wait(node.name, timeout=node.seconds, default="nothing")
    body.mix("heard", node.name, heard)


async def _hooked(body: Living, node: Hooked) -> None:
    hook = holdfast.hook(expires=node.seconds)
    body.witness.has_token(hook.token)
    try:
        body.mix("resumed", await hook.wait())
    except holdfast.WaitTimeout as error:
        body.failed("expired", error)


async def _offspring(body: Living, node: Offspring) -> None:
    child = body.witness.child(node.program)
    if node.key is not None:
        child = child.options(key=node.key)
    try:
        if node.how == "await":
            body.mix("child", await child(body.value))
            return
        if node.how == "abandon":
            left = child.options(on_parent_end="abandon").start(body.value)
            body.mix("left", left.key)
            return
        pending = child.start(body.value)
        if node.tells:
            pending.signal("a", _message(body))
        try:
            await body.run(node.part)
        except BaseException:
            pending.cancel()
            raise
        if node.how == "cancel":
            pending.cancel()
            body.mix("called off", pending.key)
        else:
            body.mix("child", await pending)
    except asyncio.CancelledError:
        raise
    except Exception as error:
        body.failed("child failed", error)


def _message(body: Living) -> str:
    """One that nobody else sends, nor this run in another try."""
    run = holdfast.current_run()
    return f"{body.value} of {body.witness.label(run.id)}, try {run.attempt}"


def _post(body: Living, node: Post) -> None:
    if node.what == "event":
        holdfast.publish(node.name, _message(body))
    elif node.what == "value":
        holdfast.set_value(node.name, body.value)
    else:
        holdfast.emit(node.name, body.value)
