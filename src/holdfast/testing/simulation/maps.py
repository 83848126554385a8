"""Maps: a result for each item, in the order of the items.

- Over a step: the items of one chunk were executed together, since an interrupted chunk executes again whole.
- Over a workflow: each result is the output of a run with that item as its input.
"""

from __future__ import annotations

from typing import Any, Protocol

import holdfast
from holdfast.codec import Codec
from holdfast.define import Workflow

from .mail import Mail
from .nodes import Mapped
from .oracle import Oracle


class Judged(Protocol):
    mail: Mail


class Mapping(Protocol):
    """What checking a map needs of the world."""

    @property
    def laws(self) -> Judged: ...

    oracle: Oracle
    codec: Codec
    old: dict[str, Workflow[Any, Any]]


def check_map(world: Mapping, node: Mapped, items: list[int], results: list[Any]) -> None:
    """Check what a body got for its items."""
    name = f"a map of {world.oracle.label(holdfast.current_run().id)}"
    world.oracle.note(f"{name} has {len(results)} results{'' if node.program is None else ', of children'}")
    if len(items) != len(results):
        world.oracle.report("maps", f"{name} has {len(results)} results for {len(items)} items")
        return
    if not node.collects and not all(isinstance(one, int) for one in results):
        world.oracle.report("maps", f"{name} gives {results}")
    for place, (item, result) in enumerate(zip(items, results, strict=True)):
        if not isinstance(result, int):
            continue
        if node.program is not None:
            if result not in _outputs(world, node.program, item):
                world.oracle.report("maps", f"{name} gives {result} for {item}, to which no child came")
        elif result // 100_000 != item:
            world.oracle.report("maps", f"{name} gives {result} for {item}")
        elif place % node.chunk:
            first = results[place - place % node.chunk]
            if isinstance(first, int) and first % 100_000 != result % 100_000:
                world.oracle.report("maps", f"{name} has a chunk of two executions: {first}, {result}")


def _outputs(world: Mapping, program: str, item: int) -> set[int]:
    """The outputs of the runs of a program with this input, each of the last run of its chain."""
    workflow = world.old[program]
    asked = world.codec.arguments(workflow.fn)
    given = world.codec.seal(asked.check((item,), {}))
    chains = {run.id for run in world.oracle.runs.values() if run.workflow == program and run.input == given}
    found = set()
    for record in world.oracle.ended.values():
        if record.chain_id in chains and record.output is not None:
            found.add(world.codec.value(Any).decode(record.output))
    return found
