"""How options, defaults and arguments of a start become a NewRun. Pure, except that it draws ids and seeds.

Everything that can be wrong with a start is found here, before anything is written.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeAlias

import msgspec

from holdfast.codec import Codec, misfit, plain_call
from holdfast.define import StartOptions, Workflow, covered
from holdfast.errors import BadArguments, DefinitionError, KeyTaken, NotDecodable, UnknownWorkflow
from holdfast.model import (
    Declared,
    Duration,
    Lane,
    NewRun,
    NotGiven,
    Parameter,
    RunRecord,
    WorkflowVersion,
    instant_of,
    is_name,
    microseconds,
    new_id,
    newest_of,
    quoted,
)


class Place(NamedTuple):
    """The version of a workflow that a start takes, its queue, and what that version declares about its runs."""

    version: str
    queue: str
    declared: Declared


Call: TypeAlias = tuple[tuple[Any, ...], Mapping[str, Any]]
"""Positional and keyword arguments."""


def name_of(workflow: Workflow[..., Any] | str) -> str:
    """The workflow's name. Refuses anything but a workflow or a name."""
    if isinstance(workflow, Workflow):
        return workflow.name
    if is_name(workflow, 200):
        return str(workflow)
    hint = covered(workflow, Workflow) or (
        "; decorate the function with @workflow" if inspect.isfunction(workflow) else ""
    )
    raise DefinitionError(f"{workflow!r} is not a workflow: expected a @workflow function or the name of one{hint}")


def merged(workflow: Workflow[..., Any] | str, direct: StartOptions) -> StartOptions:
    """The options of `workflow.options(...)`, replaced by those that were given directly."""
    return direct.over(workflow.start_options) if isinstance(workflow, Workflow) else direct


def check_options(workflow: Workflow[..., Any] | str, given: StartOptions, connection: object) -> None:
    """Refuse an option that could as well be an argument of the workflow: a wrong guess would not be noticed."""
    if not isinstance(workflow, Workflow):
        return
    said = {*given.given()} if connection is None else {*given.given(), "connection"}
    for name in inspect.signature(workflow.fn).parameters:
        if name in said:
            advice = (
                f"give the argument by position and the option by {workflow.name}.options({name}=...)"
                if name != "connection"
                else "rename the parameter"
            )
            raise BadArguments(
                f"{name}= is an option of start() and a parameter of the workflow {workflow.name!r}; {advice}"
            )


def own_place(workflow: Workflow[..., Any]) -> Place:
    """The place of the version that the caller itself has."""
    declared = Declared(queue=workflow.queue, deadline=workflow.deadline, retention=workflow.retention)
    return Place(workflow.version, workflow.queue, declared)


def place_of(versions: Sequence[WorkflowVersion], own: Workflow[..., Any] | None) -> Place | None:
    """The version to start; None if no worker has ever registered one and the caller has none.

    It is the caller's own version if a live worker has it. Otherwise it is the newest version, which is the one
    registered last, that live workers have: so a start during a deploy, or after one was rolled back, finds somebody to
    execute it. If no worker is alive, it is the newest one ever registered.
    """
    found = _chosen(versions, None if own is None else own.version)
    if own is not None and (found is None or found.version == own.version):
        return own_place(own)
    if found is None:
        return None
    declared = found.declared or (Declared() if own is None else own_place(own).declared)
    # Workers may serve other queues than the declared one.
    return Place(found.version, found.served_on(declared.queue), declared)


def next_lane(versions: Sequence[WorkflowVersion], own: str, record: RunRecord) -> Lane:
    """The lane on which a run is retried or forked: in the version `own`, unless live workers have only others.

    If no worker is alive, it waits for `own`: the newest version may be code that does not match the journal. The queue
    stays the run's, unless the version changes and is not served there.
    """
    live = [one for one in versions if one.is_live]
    found = _chosen(live, own) or next((one for one in versions if one.version == own), None)
    if found is None:
        return Lane(record.workflow, own, record.queue)
    queue = record.queue
    if found.version != record.version and queue not in found.queues:
        place = place_of([found], None)
        queue = queue if place is None else place.queue
    return Lane(record.workflow, found.version, queue)


def _chosen(versions: Sequence[WorkflowVersion], own: str | None) -> WorkflowVersion | None:
    return next((one for one in versions if one.is_live and one.version == own), None) or newest_of(versions)


def sealed_input(codec: Codec, workflow: Workflow[..., Any] | str, call: Call, place: Place | None = None) -> bytes:
    """A call's arguments, checked against the workflow's signature, and sealed.

    For a workflow that is given by name, they are checked against the parameters that a worker has declared, and the
    schemas of their types.
    """
    args, kwargs = call
    if isinstance(workflow, Workflow):
        return codec.seal(codec.arguments(workflow.fn).check(args, dict(kwargs)))
    parameters = None if place is None else place.declared.parameters
    plain = codec.arguments(_signed(workflow, parameters)).check(args, dict(kwargs))
    if parameters is not None:
        _refuse_misfits(workflow, parameters, plain)
    return codec.seal(plain)


def _refuse_misfits(workflow: str, parameters: Sequence[Parameter], plain: bytes) -> None:
    """Refuse arguments that the body could not read: better to tell the caller than to block the run."""
    try:
        args, kwargs = plain_call(plain)
    except NotDecodable:
        # A pickle can't be checked without opening it.
        return
    known = {one.name: one for one in parameters}
    for name, value in _signature(parameters).bind(*args, **kwargs).arguments.items():
        one = known[name]
        if one.schema is None or (value is None and not one.is_required):
            continue
        schema = msgspec.json.decode(one.schema)
        # *args is a tuple of them, **kwargs a dict.
        values = (value,) if one.kind not in _VARIADIC else value.values() if isinstance(value, dict) else value
        for given in values:
            reason = misfit(schema, given)
            if reason is not None:
                raise BadArguments(f"{workflow}(): argument {name!r}: {reason.removeprefix('$: ')}")


def check_call(workflow: Workflow[..., Any], place: Place, call: Call) -> None:
    """Refuse arguments that don't fit the version that is started, if that is not the caller's own."""
    if place.version == workflow.version or place.declared.parameters is None:
        return
    try:
        _signature(place.declared.parameters).bind(*call[0], **call[1])
    except TypeError as error:
        raise BadArguments(
            f"{workflow.name}() is started in version {place.version!r}, the newest that workers have registered, and "
            f"that one can't take these arguments: {error}; start a worker that has version {workflow.version!r} first"
        ) from None


def refuse_others(options: StartOptions, others: Mapping[str, object]) -> None:
    """Refuse options that `start_many` does not take."""
    naming = [name for name in ("id", "key", "on_conflict") if name in others or getattr(options, name) is not None]
    if naming:
        raise DefinitionError(
            f"start_many: {naming[0]}= is about one run; leave it out, or start the runs one by one, each with its own"
        )
    for name in others:
        raise DefinitionError(
            f"start_many has no option {name!r}; expected delay, deadline, priority, tags, queue, retention or "
            "connection. Arguments go into the tuples"
        )


def call_of(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Call:
    """The call of `start_call`, checked, for its arguments came as data."""
    # Text is a sequence, too: each letter would become an argument.
    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise BadArguments(f"start_call: args={quoted(args)}: expected a list of arguments, such as [1]")
    if kwargs is not None and not (isinstance(kwargs, Mapping) and all(isinstance(name, str) for name in kwargs)):
        raise BadArguments(f'start_call: kwargs={quoted(kwargs)}: expected a mapping by name, such as {{"order": 1}}')
    return tuple(args), dict(kwargs or {})


def calls_of(items: Iterable[Sequence[Any]]) -> list[Call]:
    """The calls of `start_many`, one for each tuple of arguments."""
    calls: list[Call] = []
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise BadArguments(
            f"start_many: the calls are {type(items).__name__}; expected a list of tuples of arguments, such as [(1,)]"
        )
    for index, item in enumerate(items):
        if not isinstance(item, (tuple, list)):
            raise BadArguments(
                f"start_many: item {index} is {type(item).__name__}; expected a tuple of arguments, such as ({item!r},)"
            )
        calls.append((tuple(item), {}))
    return calls


def new_run(name: str, place: Place, input: bytes, options: StartOptions) -> NewRun:
    """The run to create."""
    delay, due_at = _when(options.delay, "delay")
    deadline, deadline_at = _when(options.deadline, "deadline")
    if options.deadline is None:
        deadline = place.declared.deadline
    retention = place.declared.retention
    if options.retention is None:
        retention = None
    elif not isinstance(options.retention, NotGiven):
        retention = microseconds(options.retention, what="retention")
    return NewRun(
        id=options.id or new_id(),
        workflow=name,
        version=place.version,
        input=input,
        seed=secrets.token_bytes(16),
        queue=options.queue or place.queue,
        key=options.key,
        on_conflict=options.on_conflict or "return",
        delay=delay or 0,
        due_at=due_at,
        deadline=deadline,
        deadline_at=deadline_at,
        priority=options.priority or 0,
        tags=dict(options.tags or {}),
        retention=retention,
        has_own_retention=not isinstance(options.retention, NotGiven),
    )


def unknown(name: str, known: Sequence[str]) -> UnknownWorkflow:
    """The error for a name that no worker has registered."""
    # The name itself may be listed, if runs were started by the function.
    known = [other for other in known if other != name]
    close = get_close_matches(name, known, n=3)
    listed = [*close, *(other for other in sorted(known) if other not in close)][:20]
    there = f"known are: {', '.join(listed)}" if listed else "no worker has registered any"
    return UnknownWorkflow(
        f"no worker has ever registered a workflow {name!r} here ({there}); start a worker that has it, "
        "or start it by the @workflow function instead of its name"
    )


def unknown_version(name: str, version: str, versions: Sequence[WorkflowVersion]) -> UnknownWorkflow:
    """The error for a version that no worker has registered."""
    known = ", ".join(repr(one.version) for one in sorted(versions, key=lambda one: one.age)[-20:])
    return UnknownWorkflow(
        f"no worker has ever registered version {version!r} of the workflow {name!r} here (registered are: {known}); "
        "start a worker that has it, or leave the version out to take the newest"
    )


def taken(new: NewRun, record: RunRecord) -> KeyTaken:
    """The error for a start that had to create a run, and found one with that key or id."""
    if record.workflow != new.workflow:
        return KeyTaken(
            f"the id {new.id!r} belongs to a run of the workflow {record.workflow!r}, not of {new.workflow!r}; "
            "take another id, or none to get one",
            record.id,
        )
    if record.id == new.id:
        # The id stays with that run for as long as it is kept: it can only be returned.
        what, choice = "id", 'let on_conflict="return" give that run'
    else:
        what = f"key {new.key!r}"
        choice = 'choose what should happen: on_conflict="return", "replace", "restart" or "retry"'
    return KeyTaken(
        f"the workflow {new.workflow!r} has a run with that {what} already: {record.id}, {record.status}; "
        f"take another one, or {choice}",
        record.id,
    )


def _when(given: Duration | datetime | None, what: str) -> tuple[int | None, int | None]:
    """A given time as (relative, absolute), of which at most one is not None."""
    if given is None:
        return None, None
    if isinstance(given, datetime):
        return None, instant_of(given, what=what)
    return microseconds(given, what=what), None


def _signed(name: str, parameters: Sequence[Parameter] | None) -> Callable[..., None]:
    """A function that has a workflow's name and parameters, and does nothing."""

    def anything(*args: Any, **kwargs: Any) -> None:
        pass

    anything.__qualname__ = name
    if parameters is not None:
        anything.__signature__ = _signature(parameters)  # type: ignore[attr-defined]  # what inspect looks for
    return anything


def _signature(parameters: Sequence[Parameter]) -> inspect.Signature:
    return inspect.Signature(
        [
            inspect.Parameter(
                one.name,
                _KINDS[one.kind],
                # Any value will do: it only says that the parameter has a default.
                default=inspect.Parameter.empty if one.is_required or one.kind in _VARIADIC else ...,
            )
            for one in parameters
        ]
    )


_KINDS = {
    int(kind): kind
    for kind in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.VAR_KEYWORD,
    )
}
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
