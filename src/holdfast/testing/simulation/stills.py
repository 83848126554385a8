"""The nodes of lives.py in a `def` body: every call blocks the run, holds no thread, and returns its value."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import holdfast
from holdfast import blocking

from . import lives
from .nodes import Booked, Hear, Hooked, Mapped, Node, Offspring, Patch, Post, Shielded, Undoable


class Living(lives.Still, Protocol):
    """A `def` body."""

    def run(self, node: Node) -> None: ...


def live(body: Living, node: Node) -> None:
    """Interpret one node of these kinds."""
    if isinstance(node, Hear):
        _hear(body, node)
    elif isinstance(node, Hooked):
        _hooked(body, node)
    elif isinstance(node, Offspring):
        _offspring(body, node)
    elif isinstance(node, Shielded):
        with holdfast.shield():
            body.run(node.part)
    elif isinstance(node, Undoable):
        lives.register(body, node)
    elif isinstance(node, Mapped):
        _mapped(body, node)
    elif isinstance(node, Booked):
        lives.book(body, node)
    elif isinstance(node, Patch):
        body.run(lives.way(body, node))
    else:
        assert isinstance(node, Post)
        lives.post(body, node)


def _hear(body: Living, node: Hear) -> None:
    wait: Any = blocking.wait_for_signal if node.what == "signal" else blocking.wait_for_event
    body.mix("heard", node.name, wait(node.name, timeout=node.seconds, default="nothing"))


def _hooked(body: Living, node: Hooked) -> None:
    hook = blocking.hook(expires=node.seconds)
    body.witness.has_hook(hook)
    try:
        body.mix("resumed", hook.wait())
    except holdfast.WaitTimeout as error:
        body.failed("expired", error)


def _mapped(body: Living, node: Mapped) -> None:
    items = lives.items_of(body, node)
    on_error: Any = "collect" if node.collects else "stop"
    try:
        results = blocking.map(
            body.item(node), items, concurrency=node.concurrency, on_error=on_error, chunk=node.chunk
        )
    except asyncio.CancelledError:
        raise
    except Exception as error:
        body.failed("map failed", error)
        return
    lives.mapped(body, node, items, results)


def _offspring(body: Living, node: Offspring) -> None:
    child = body.witness.child(node.program, body.code)
    if node.key is not None:
        child = child.options(key=node.key)
    try:
        if node.how == "await":
            body.mix("child", child(body.value))
            return
        if node.how == "abandon":
            left = child.options(on_parent_end="abandon").start(body.value)
            body.mix("left", left.key)
            return
        pending = child.start(body.value)
        if node.tells:
            pending.signal("a", lives.message(body))
        try:
            body.run(node.part)
        except BaseException:
            pending.cancel()
            raise
        if node.how == "cancel":
            pending.cancel()
            body.mix("called off", pending.key)
        else:
            body.mix("child", pending.result())
    except asyncio.CancelledError:
        raise
    except Exception as error:
        body.failed("child failed", error)
