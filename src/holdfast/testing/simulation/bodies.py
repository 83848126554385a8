"""The two bodies, async and def, that interpret a program and tell the oracle what they see.

The argument of every step depends on everything that the body has seen before. So a replay that takes another branch,
or gets the same results in another order, asks for something else and is caught.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any, Protocol

import holdfast
from holdfast import blocking
from holdfast.define import Workflow, current_scope, workflow

from . import lives, stills
from .nodes import (
    POLICIES,
    Beside,
    Code,
    Do,
    Errand,
    Guard,
    Look,
    Mapped,
    Node,
    Series,
    Sleep,
    Together,
    Within,
)
from .programs import Program
from .steps import Flaky, machine_of, step_of

VERSIONS: dict[Code, str] = {"first": "1", "patched": "1", "second": "2"}


class Trace(Protocol):
    """Records what one body sees."""

    def see(self, *what: object) -> None: ...

    def stumbles(self) -> bool:
        """Whether the body is to do something forbidden here, such as I/O."""

    def went_on(self, what: str) -> None:
        """A durable call has returned to a body that is being put away."""


class Witness(lives.Witness, Protocol):
    """Is told what bodies see."""

    def body_begins(self, version: str) -> Trace: ...

    def marks(self) -> frozenset[str] | None:
        """The changes whose new way the run goes, if this body is one of our own replays; else None."""


@dataclass(frozen=True, slots=True)
class Change:
    """A deploy that no longer matches the journals of these runs."""

    how: str
    runs: frozenset[str]


def workflow_of(
    program: Program, witness: Witness, change: Change | None = None, *, code: Code = "first"
) -> Workflow[Any, Any]:
    """The program as a workflow whose body tells the witness what it sees."""
    if program.states:
        return machine_of(program)
    steps = {number: step_of(errand) for number, errand in program.errands.items()}

    def again(body: _Sight, generation: int) -> int:
        if generation < program.again:
            body.trace.see("goes on", body.value)
            holdfast.continue_as_new(body.value, generation + 1)
        body.trace.see("returned", body.value)
        return body.value

    async def in_tasks(salt: int | str, generation: int = 0) -> int:
        body = _AsyncBody(steps, witness, salt, change, code)
        await body.run(program.root)
        return again(body, generation)

    def in_greenlet(salt: int | str, generation: int = 0) -> int:
        body = _DefBody(steps, witness, salt, change, code)
        body.run(program.root)
        return again(body, generation)

    decorate = workflow(
        name=program.name,
        version=VERSIONS[code],
        retry=None if program.retry is None else POLICIES[program.retry],
        max_crashes=program.max_crashes,
        on_event=program.on_event,
        retention="30d" if program.retention is None else program.retention,
    )
    return decorate(in_tasks) if program.is_async else decorate(in_greenlet)


class _Sight:
    """What both bodies share: the number into which everything seen is mixed, and its trace."""

    def __init__(
        self, steps: dict[int, Any], witness: Witness, salt: int | str, change: Change | None, code: Code
    ) -> None:
        # A run that an event has begun gets the payload, which is text.
        self.value = salt if isinstance(salt, int) else sum(salt.encode())
        self.code = code
        self.witness = witness
        self.trace = witness.body_begins(VERSIONS[code])
        self.marks = witness.marks()
        self.said: Counter[str] = Counter()
        if code == "second":
            # This keeps it from matching a journal of the first version.
            self.mix("version", VERSIONS[code])
        self._steps = steps
        is_changed = change is not None and holdfast.current_run().own_id in change.runs
        self._change = change.how if is_changed and change is not None else ""

    def mix(self, *what: object) -> None:
        self.trace.see(*what)
        for part in what:
            number = part if isinstance(part, int) else sum(str(part).encode())
            self.value = (self.value * 31 + number) % 1_000_003

    def step(self, errand: Errand) -> Any:
        found = self._steps[errand.number]
        if self._change == "renamed":
            return found.options(name=f"{errand.name}-renamed")
        return found

    def own(self, errand: Errand) -> Any:
        return self._steps[errand.number]

    def item(self, node: Mapped) -> Any:
        return self._steps[node.errand.number] if node.program is None else self.witness.child(node.program, self.code)

    def argument(self) -> int:
        return self.value + 1_000_003 if self._change == "arguments" else self.value

    def skips(self) -> bool:
        """Whether the changed code leaves this step out, which it does once."""
        if self._change != "dropped":
            return False
        self._change = "did"
        return True

    def did(self, errand: Errand, result: int) -> None:
        if current_scope.get().is_dead:
            self.trace.went_on(f"step {errand.name!r}")
        self._stumble()
        self.mix("did", errand.number, result)

    def failed(self, what: str, error: BaseException) -> None:
        self._stumble()
        self.mix(what, type(error).__name__, str(error) if isinstance(error, (Flaky, ValueError)) else "")

    def _stumble(self) -> None:
        if self.trace.stumbles():
            asyncio.get_running_loop().run_in_executor(None, print)

    def look(self, node: Look) -> None:
        if node.what == "now":
            self.mix("now", holdfast.now().isoformat())
        elif node.what == "rng":
            self.mix("rng", holdfast.rng().randrange(1_000_000))
        else:
            self.mix("uuid4", str(holdfast.uuid4()))


class _AsyncBody(_Sight):
    async def run(self, node: Node) -> None:
        if isinstance(node, Do):
            await self._do(node)
        elif isinstance(node, Beside):
            await self._beside(node)
        elif isinstance(node, Sleep):
            await (asyncio.sleep if node.is_asyncio else holdfast.sleep)(node.seconds)
            self.mix("slept", round(node.seconds * 1000))
        elif isinstance(node, Look):
            self.look(node)
        elif isinstance(node, Series):
            for part in node.parts:
                await self.run(part)
        elif isinstance(node, Together):
            await self._together(node)
        elif isinstance(node, Within):
            await self._within(node)
        elif isinstance(node, Guard):
            await self._guard(node)
        else:
            await lives.live(self, node)

    async def _do(self, node: Do) -> None:
        if self.skips():
            return
        step = self.step(node.errand)
        try:
            if node.is_pending:
                result = await step.start(node.errand.number, self.argument())
            else:
                result = await step(node.errand.number, self.argument())
        except Exception as error:
            self.failed(f"{node.errand.number} failed", error)
            raise
        self.did(node.errand, result)

    async def _beside(self, node: Beside) -> None:
        if self.skips():
            await self.run(node.part)
            return
        pending = self.step(node.errand).start(node.errand.number, self.argument())
        try:
            await self.run(node.part)
        except BaseException:
            pending.cancel()
            raise
        self.mix("beside", node.errand.number, await pending)

    async def _together(self, node: Together) -> None:
        if node.how == "group":
            async with asyncio.TaskGroup() as group:
                for part in node.parts:
                    group.create_task(self.run(part))
            self.mix(node.how)
            return
        tasks = [asyncio.create_task(self.run(part)) for part in node.parts]
        if node.how == "gather":
            await asyncio.gather(*tasks)
        else:
            try:
                done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                for task in tasks:
                    task.cancel()
                raise
            self.mix("won", *(number for number, task in enumerate(tasks) if task in done))
            for task in late:
                task.cancel()
            await asyncio.wait(tasks)
            for task in tasks:
                if task in done and not task.cancelled():
                    task.result()
        self.mix(node.how)

    async def _within(self, node: Within) -> None:
        try:
            async with asyncio.timeout(node.seconds):
                await self.run(node.part)
            self.mix("in time")
        except TimeoutError as error:
            self.failed("late", error)

    async def _guard(self, node: Guard) -> None:
        if node.how == "finally":
            try:
                await self.run(node.part)
            finally:
                await self.run(node.after)
            return
        caught = BaseException if node.how == "swallow" else Exception
        try:
            await self.run(node.part)
        except caught as error:
            self.failed("caught", error)
            await self.run(node.after)


class _DefBody(_Sight):
    def run(self, node: Node) -> None:
        if isinstance(node, Do):
            self._do(node)
        elif isinstance(node, Beside):
            self._beside(node)
        elif isinstance(node, Sleep):
            blocking.sleep(node.seconds)
            self.mix("slept", round(node.seconds * 1000))
        elif isinstance(node, Look):
            self.look(node)
        elif isinstance(node, Series):
            for part in node.parts:
                self.run(part)
        elif isinstance(node, Together):
            self._together(node)
        elif isinstance(node, Within):
            self._within(node)
        elif isinstance(node, Guard):
            self._guard(node)
        else:
            stills.live(self, node)

    def _do(self, node: Do) -> None:
        if self.skips():
            return
        step = self.step(node.errand)
        try:
            if node.is_pending:
                result = step.start(node.errand.number, self.argument()).result()
            else:
                result = step(node.errand.number, self.argument())
        except Exception as error:
            self.failed(f"{node.errand.number} failed", error)
            raise
        self.did(node.errand, result)

    def _beside(self, node: Beside) -> None:
        if self.skips():
            self.run(node.part)
            return
        pending = self.step(node.errand).start(node.errand.number, self.argument())
        try:
            self.run(node.part)
        except BaseException:
            pending.cancel()
            raise
        self.mix("beside", node.errand.number, pending.result())

    def _start(self, parts: tuple[Node, ...]) -> list[Any]:
        errands = [part.errand for part in parts if isinstance(part, Do)]
        return [self.step(errand).start(errand.number, self.argument()) for errand in errands]

    def _together(self, node: Together) -> None:
        if self.skips():
            return
        pendings = self._start(node.parts)
        if node.how == "gather":
            self.mix("all", *blocking.gather(*pendings))
        elif node.how == "group":
            blocking.wait(pendings)
            for pending in pendings:
                self.mix("one", pending.result())
        else:
            done, late = blocking.wait(pendings, return_when=asyncio.FIRST_COMPLETED)
            self.mix("won", *(number for number, pending in enumerate(pendings) if pending in done))
            for pending in late:
                pending.cancel()
            for pending in pendings:
                if pending in done:
                    self.mix("winner", pending.result())

    def _within(self, node: Within) -> None:
        if not isinstance(node.part, Do):
            self.run(node.part)
            return
        if self.skips():
            return
        [pending] = self._start((node.part,))
        done, _ = blocking.wait([pending], timeout=node.seconds)
        if done:
            self.mix("in time", pending.result())
        else:
            pending.cancel()
            self.mix("late")

    def _guard(self, node: Guard) -> None:
        if node.how == "finally":
            try:
                self.run(node.part)
            finally:
                self.run(node.after)
            return
        caught = BaseException if node.how == "swallow" else Exception
        try:
            self.run(node.part)
        except caught as error:
            self.failed("caught", error)
            self.run(node.after)
