"""What bodies do beside steps and timers: hear messages, have children, shield, register compensations, send.

As everywhere, what a body sees goes into its trace and into the number that its steps get, so that a replay which takes
another branch is caught.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Protocol

import holdfast
from holdfast.define import Workflow

from .nodes import Booked, Code, Errand, Hear, Hooked, Mapped, Node, Offspring, Patch, Post, Shielded, Undoable


class Witness(Protocol):
    """What these nodes need of the world: it is told of hooks and maps, and knows the workflows of children."""

    def child(self, name: str, code: Code) -> Workflow[Any, Any]: ...

    def has_hook(self, hook: Any) -> None:
        """The hook itself, for its token may change: a fork's does at the cut."""

    def label(self, run_id: str) -> str: ...

    def mapped(self, node: Mapped, items: list[int], results: list[Any]) -> None:
        """The results of a map."""


class Still(Protocol):
    """What both kinds of bodies have in common."""

    value: int
    witness: Any
    code: Code
    marks: frozenset[str] | None
    """In one of our own replays, the changes whose new way the run goes; else None."""
    said: Counter[str]
    """How often it has sent each message text."""

    def mix(self, *what: object) -> None: ...

    def failed(self, what: str, error: BaseException) -> None: ...

    def own(self, errand: Errand) -> Any:
        """The step of an errand, unchanged by any deploy."""

    def item(self, node: Mapped) -> Any:
        """The step or workflow that a map is over."""


class Living(Still, Protocol):
    """An async body."""

    async def run(self, node: Node) -> None: ...


async def live(body: Living, node: Node) -> None:
    """Interpret one node of these kinds."""
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
        register(body, node)
    elif isinstance(node, Mapped):
        await _mapped(body, node)
    elif isinstance(node, Booked):
        # A `def` step, so it blocks only this task of the body.
        book(body, node)
    elif isinstance(node, Patch):
        await body.run(way(body, node))
    else:
        assert isinstance(node, Post)
        post(body, node)


async def _mapped(body: Living, node: Mapped) -> None:
    items = items_of(body, node)
    target = body.item(node)
    on_error: Any = "collect" if node.collects else "stop"
    try:
        results = await holdfast.map(target, items, concurrency=node.concurrency, on_error=on_error, chunk=node.chunk)
    except asyncio.CancelledError:
        raise
    except Exception as error:
        body.failed("map failed", error)
        return
    mapped(body, node, items, results)


async def _hear(body: Living, node: Hear) -> None:
    wait = holdfast.wait_for_signal if node.what == "signal" else holdfast.wait_for_event
    heard = await wait(node.name, timeout=node.seconds, default="nothing")
    body.mix("heard", node.name, heard)


async def _hooked(body: Living, node: Hooked) -> None:
    hook = holdfast.hook(expires=node.seconds)
    body.witness.has_hook(hook)
    try:
        body.mix("resumed", await hook.wait())
    except holdfast.WaitTimeout as error:
        body.failed("expired", error)


async def _offspring(body: Living, node: Offspring) -> None:
    child = body.witness.child(node.program, body.code)
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
            pending.signal("a", message(body))
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


def way(body: Still, node: Patch) -> Node:
    """The part that this version of the code takes."""
    is_new = body.code == "second"
    if body.code == "patched" and (body.marks is None or node.name in body.marks):
        is_new = holdfast.patched(node.name)
    body.mix("way", node.name, "new" if is_new else "old")
    return node.new if is_new else node.old


def register(body: Still, node: Undoable) -> None:
    """Register a compensation."""
    holdfast.compensate(body.own(node.errand), node.errand.number, body.value)
    body.mix("registers", node.errand.number)


def book(body: Still, node: Booked) -> None:
    """Execute a transactional step: its write and its recorded result are one commit."""
    try:
        body.mix("booked", body.own(node.errand)(node.errand.number, body.value))
    except Exception as error:
        body.failed(f"{node.errand.number} failed", error)
        raise


def items_of(body: Still, node: Mapped) -> list[int]:
    """The items of a map: all different, and different from those of any other map."""
    return [body.value * 10 + number for number in range(node.count)]


def mapped(body: Still, node: Mapped, items: list[int], results: list[Any]) -> None:
    """Note the results of a map."""
    body.witness.mapped(node, items, results)
    body.mix("mapped", *(one if isinstance(one, int) else f"{one.type} {one.message}" for one in results))


def message(body: Still) -> str:
    """A message text that nobody else sends, nor this run in another try or a second time."""
    run = holdfast.current_run()
    text = f"{body.value} of {body.witness.label(run.own_id)}, try {run.attempt}"
    body.said[text] += 1
    return text if body.said[text] == 1 else f"{text}, number {body.said[text]}"


def post(body: Still, node: Post) -> None:
    """Send something with the turn."""
    if node.what == "event":
        holdfast.publish(node.name, message(body))
    elif node.what == "value":
        holdfast.set_value(node.name, body.value)
    else:
        holdfast.emit(node.name, message(body))
