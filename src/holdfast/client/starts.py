"""What a start writes: options, defaults and arguments become a NewRun. Pure, but for ids and seeds.

Everything that can be wrong with a start is found here, before anything is written.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any, TypeAlias

from holdfast.codec import Codec
from holdfast.define import StartOptions, Workflow
from holdfast.errors import BadArguments, CodecError, DefinitionError, KeyTaken, UnknownWorkflow
from holdfast.model import Duration, NewRun, RunRecord, WorkerRecord, instant_of, microseconds, new_id

Call: TypeAlias = tuple[tuple[Any, ...], Mapping[str, Any]]
"""Positional and keyword arguments."""

KEPT = microseconds("30d")
"""How long a run is kept after its end if nothing says otherwise."""
OPTIONS = frozenset(StartOptions.__slots__)


def name_of(workflow: Workflow[..., Any] | str) -> str:
    """The workflow's name; anything but a workflow or a name is refused."""
    if isinstance(workflow, Workflow):
        return workflow.name
    if isinstance(workflow, str) and workflow:
        return workflow
    hint = "; decorate the function with @workflow" if inspect.isfunction(workflow) else ""
    raise DefinitionError(f"{workflow!r} is not a workflow: expected a @workflow function or the name of one{hint}")


def merged(workflow: Workflow[..., Any] | str, direct: StartOptions) -> StartOptions:
    """Options given directly, over those of `workflow.options(...)`."""
    return direct.over(workflow.start_options) if isinstance(workflow, Workflow) else direct


def check_options(workflow: Workflow[..., Any] | str, given: StartOptions) -> None:
    """Refuse an option that could as well be an argument: guessing wrong would be silent."""
    if not isinstance(workflow, Workflow):
        return
    for name in OPTIONS.intersection(inspect.signature(workflow.fn).parameters):
        if getattr(given, name) is not None:
            raise BadArguments(
                f"{name}= is an option of start() and a parameter of the workflow {workflow.name!r}; give the argument "
                f"by position and the option by {workflow.name}.options({name}=...)"
            )


def inputs(
    codec: Codec, workflow: Workflow[..., Any] | str, calls: Iterable[Call], *, many: bool = False
) -> list[bytes]:
    """Each call's arguments, checked against the workflow's signature, and sealed.

    Of a workflow known by name there is no signature here: then only the worker can check them.
    """
    shape = codec.arguments(workflow.fn if isinstance(workflow, Workflow) else _anything)
    sealed = []
    for index, (args, kwargs) in enumerate(calls):
        try:
            sealed.append(codec.seal(shape.check(args, dict(kwargs))))
        except CodecError as error:
            if many:
                error.add_note(f"this is item {index} of start_many; nothing was started")
            raise
    return sealed


def calls_of(items: Iterable[Sequence[Any]]) -> list[Call]:
    """The calls of `start_many`, one for each tuple of arguments."""
    calls: list[Call] = []
    for index, item in enumerate(items):
        if not isinstance(item, (tuple, list)):
            raise BadArguments(
                f"start_many: item {index} is {type(item).__name__}; expected a tuple of arguments, such as ({item!r},)"
            )
        calls.append((tuple(item), {}))
    return calls


def new_run(
    workflow: Workflow[..., Any] | str, version: str, input: bytes, options: StartOptions, *, queue: str = "default"
) -> NewRun:
    """The run to create. `queue` is for a workflow known by name only."""
    known = workflow if isinstance(workflow, Workflow) else None
    delay, due_at = _when(options.delay, "delay")
    deadline, deadline_at = _when(options.deadline, "deadline")
    if options.deadline is None and known is not None:
        deadline = known.deadline
    if options.retention is not None:
        retention: int | None = microseconds(options.retention, what="retention")
    else:
        retention = KEPT if known is None else known.retention
    return NewRun(
        id=options.id or new_id(),
        workflow=name_of(workflow),
        version=version,
        input=input,
        seed=secrets.token_bytes(16),
        queue=options.queue or (queue if known is None else known.queue),
        key=options.key,
        on_conflict=options.on_conflict or "return",
        delay=delay or 0,
        due_at=due_at,
        deadline=deadline,
        deadline_at=deadline_at,
        priority=options.priority or 0,
        tags=dict(options.tags or {}),
        retention=retention,
    )


def queue_of(workflow: str, version: str, workers: Iterable[WorkerRecord]) -> str:
    """Where a workflow known by name only is served: "default", unless workers serve it elsewhere only."""
    lanes = {lane for worker in workers for lane in worker.lanes}
    queues = sorted(lane.queue for lane in lanes if (lane.workflow, lane.version) == (workflow, version))
    return queues[0] if queues and "default" not in queues else "default"


def unknown(name: str, known: Sequence[str]) -> UnknownWorkflow:
    """The error for a name that no worker has registered."""
    close = get_close_matches(name, known, n=3)
    listed = [*close, *(other for other in sorted(known) if other not in close)][:20]
    there = f"known are: {', '.join(listed)}" if listed else "no worker has registered any"
    return UnknownWorkflow(
        f"no worker has ever registered a workflow {name!r} here ({there}); start a worker that has it, "
        "or start it by the @workflow function instead of its name"
    )


def taken(new: NewRun, record: RunRecord) -> KeyTaken:
    """The error for a start that would have had to create a run, and found one."""
    if record.workflow != new.workflow:
        return KeyTaken(
            f"the id {new.id!r} belongs to a run of the workflow {record.workflow!r}, not of {new.workflow!r}; "
            "take another id, or none to get one",
            record.id,
        )
    what = f"key {new.key!r}" if record.id != new.id else "id"
    return KeyTaken(
        f"the workflow {new.workflow!r} has a run with that {what} already: {record.id}, {record.status}; "
        f'take another one, or choose what should happen: on_conflict="return", "replace", "restart" or "retry"',
        record.id,
    )


def _when(given: Duration | datetime | None, what: str) -> tuple[int | None, int | None]:
    """(relative, absolute): one of them, or none."""
    if given is None:
        return None, None
    if isinstance(given, datetime):
        return None, instant_of(given, what=what)
    return microseconds(given, what=what), None


def _anything(*args: Any, **kwargs: Any) -> None:
    """The signature of a workflow that is known by name only."""
