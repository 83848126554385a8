"""`holdfast.run`: a client and a worker in one call, for scripts. Kill the script, run it again: it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any, ParamSpec, TypeAlias, TypeVar, overload

from holdfast.client import AsyncClient, AsyncRun
from holdfast.define import Resource, StartOptions, Step, StepInfo, Workflow, refuse_in_body, wrong_workflow
from holdfast.errors import BadArguments, DefinitionError, HoldfastError, MisplacedCall, StoreAway, blocking_error
from holdfast.model import Lane
from holdfast.store import family_of, last_of
from holdfast.worker import LoopThreads, Worker

P = ParamSpec("P")
R = TypeVar("R")
Middleware: TypeAlias = Callable[[StepInfo], Any]
_POLL = 0.5
_SELDOM = 64
"""At most so many polls pass before the next check that some worker serves what the run waits for."""
_log = logging.getLogger("holdfast.worker")
_OPTIONS = frozenset(field.name for field in fields(StartOptions))


@overload
def run(workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
@overload
def run(workflow: Workflow[..., R], /, *args: Any, key: str | None, **options: Any) -> R: ...
@overload
def run(workflow: Workflow[..., R], /, *args: Any, url: str | None, **options: Any) -> R: ...
@overload
def run(workflow: Workflow[..., R], /, *args: Any, namespace: str | None, **options: Any) -> R: ...
@overload
def run(workflow: Workflow[..., R], /, *args: Any, resources: Sequence[Resource[Any]], **options: Any) -> R: ...
@overload
def run(workflow: Workflow[..., R], /, *args: Any, middleware: Sequence[Middleware], **options: Any) -> R: ...
def run(  # type: ignore[misc]  # a ParamSpec leaves no room for keywords of our own
    workflow: Workflow[..., Any],
    /,
    *args: Any,
    key: str | None = None,
    url: str | None = None,
    namespace: str | None = None,
    resources: Sequence[Resource[Any]] = (),
    middleware: Sequence[Middleware] = (),
    **kwargs: Any,
) -> Any:
    """Run a workflow to its end in this process, and return its result.

        receipt = holdfast.run(checkout, order, key="order-42")

    This is all that a script needs: it starts the run, executes it, and waits for its end. Without a key, each call is
    another run. With a `key`, a script that was killed and is run again goes on where it was. The journal is replayed,
    recorded steps are not executed again, and steps that were in flight are. If the run failed or was cancelled, it
    goes on from its last failure, as a new run. If it has completed, its result is returned and nothing is executed.

    For more options use `checkout.options(key=..., deadline=...)`. An argument of the workflow that has the name of an
    option here must be given by position. Arguments that don't fit the workflow raise BadArguments.

    `url` and `namespace` say where runs are kept; they default to the settings, and these to `sqlite:///holdfast.db`.
    `resources` and `middleware` are those of a `Worker`. The workflows served are the one given and, transitively,
    those in its globals and closures. Another child, such as one that is imported inside the body, waits for a worker
    that has it; an error in the log names it. Served are the run's queue and those of any worker.

    Raises RunFailed, whose cause is the body's own exception, or RunCancelled. If the run is blocked, for instance
    because the code no longer matches its journal, that error is raised; the run is intact, and goes on with a mended
    script. Ctrl-C waits for steps in flight, leaves the run intact, says how to go on and raises KeyboardInterrupt,
    even if the run has ended by then; a second Ctrl-C exits. Inside a running event loop MisplacedCall is raised: use
    a client there.
    """
    refuse_in_body(
        "holdfast.run()",
        "call the other workflow, or begin it by its .start(...), and it is a child of this run; else "
        "start it in a step, with a client",
    )
    if not isinstance(workflow, Workflow):
        raise DefinitionError(f"holdfast.run({workflow!r}): {wrong_workflow(workflow)}")
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise MisplacedCall(
            "holdfast.run() was called inside a running event loop, which it would block; use "
            "`async with AsyncClient(...) as client, Worker(client, workflows=[...]): ...` there"
        )
    own = {"key": key, "url": url, "namespace": namespace, "resources": resources, "middleware": middleware}
    _check_names(workflow, args, [name for name, value in own.items() if value], kwargs)
    if key is not None:
        workflow = workflow.options(key=key)
    if workflow.start_options.on_conflict is None:
        workflow = workflow.options(on_conflict="retry")
    return asyncio.run(_run(workflow, args, kwargs, url, namespace, resources, middleware))


def _check_names(
    workflow: Workflow[..., Any], args: tuple[Any, ...], own: Collection[str], kwargs: Mapping[str, Any]
) -> None:
    """Refuse an option that may be meant as an argument, or is no option here: guessing wrong would go unnoticed."""
    parameters = inspect.signature(workflow.fn).parameters
    for name in [*parameters][len(args) :]:
        if name in own:
            raise BadArguments(
                f"{name}= is an option of holdfast.run() and a parameter of the workflow {workflow.name!r}; give the "
                "argument by position"
            )
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    for name in kwargs:
        if name in _OPTIONS and name not in parameters:
            raise BadArguments(
                f"{workflow.name}() has no parameter {name!r}; if the option is meant, give it by "
                f"{workflow.name}.options({name}=...)"
            )


async def _run(
    workflow: Workflow[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    url: str | None,
    namespace: str | None,
    resources: Sequence[Resource[Any]],
    middleware: Sequence[Middleware],
) -> Any:
    asyncio.get_running_loop().set_default_executor(LoopThreads())
    async with AsyncClient(url, namespace=namespace) as client:
        # It is executed here, so in this version, whichever versions others have.
        started = await client._start(workflow, (args, kwargs), StartOptions(), is_served=True)
        served = workflows_of(workflow)
        _refuse_stranger(started, served)
        worker = Worker(client, workflows=served, resources=resources, middleware=middleware)
        await _serve(worker, started)
        working = asyncio.ensure_future(worker.run())
        waiting = asyncio.ensure_future(_end_of(client, started, worker))
        try:
            await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
            if waiting.done() and not _is_told_to_stop(worker, working):
                return await waiting
            await working
            # The Ctrl-C is meant for the script, even if the run ended while its steps in flight were waited for.
            raise KeyboardInterrupt from await _say_how_to_go_on(started, workflow)
        finally:
            worker.stop()
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working


def _is_told_to_stop(worker: Worker, working: asyncio.Future[None]) -> bool:
    """Whether a signal came, or a step raised KeyboardInterrupt."""
    if not working.done():
        return worker._stopping.is_set()
    return working.exception() is None


async def _say_how_to_go_on(started: AsyncRun[Any], workflow: Workflow[..., Any]) -> HoldfastError | None:
    """Print how to go on. If the run has failed or was cancelled, return that error instead, which says it."""
    has_key = workflow.start_options.key is not None
    way = "call holdfast.run with the same key to go on" if has_key else "a worker that knows it goes on with it"
    said = f"is intact; {way}."
    try:
        await started.result(timeout=0)
        said = f"has completed; client.get_run({started.id!r}).result() is what it came to."
    except (TimeoutError, StoreAway):
        pass
    except HoldfastError as error:
        return error
    print(f"The run {started.id} of {workflow.name!r} {said}", file=sys.stderr)
    return None


def _refuse_stranger(started: AsyncRun[Any], served: list[Workflow[Any, Any]]) -> None:
    """Refuse a live run of a version that this script does not have: it would wait for ever."""
    record = started.record
    if record is None or record.status.is_final:
        return
    known = [one.version for one in served if one.name == record.workflow]
    if record.version not in known:
        raise DefinitionError(
            f"the run {record.id} that has the key {record.key!r} is of version {record.version!r} of "
            f"{record.workflow!r}, and this script has version {', '.join(known)}; run the old version to let it end, "
            "cancel it, or take another key"
        )


async def _serve(worker: Worker, started: AsyncRun[Any]) -> None:
    """Make the worker serve the run's own queue, too, whichever queues the settings say."""
    record = started.record or (await started.refresh()).record
    assert record is not None
    lane = Lane(record.workflow, record.version, record.queue)
    worker._plan = replace(worker._plan, lanes=tuple(dict.fromkeys((*worker._plan.lanes, lane))))


async def _end_of(client: AsyncClient, started: AsyncRun[Any], worker: Worker) -> Any:
    run_id = started.id
    polls = 0
    told: set[Lane] = set()
    while True:
        try:
            return await started.result(timeout=_POLL)
        except TimeoutError:
            polls += 1
            # While the store is away this can't be known, and the worker waits for it, too.
            with contextlib.suppress(StoreAway):
                run_id = await _raise_if_blocked(client, run_id, worker)
                # Often at first, then more and more seldom: a run may wait for days.
                if polls & (polls - 1) == 0 or polls % _SELDOM == 0:
                    await _tell_unserved(client, run_id, worker, told)


async def _raise_if_blocked(client: AsyncClient, run_id: str, worker: Worker) -> str:
    """Raise what blocks the run, or the last run that continues it; returns the id of that one."""
    known = [one.renewed_at for one in await client.workers() if one.id == worker.id]
    record = await last_of(client.store, run_id)
    if record is None:
        return run_id
    if record.blocked is None or record.due_at is None:
        return record.id
    # Registering this worker, which may have the fix, made blocked runs due at once. One that was blocked again is due
    # later.
    if known and record.owner is None and record.due_at > known[0]:
        raise blocking_error(client.codec.opened_text(record.blocked))
    return record.id


async def _tell_unserved(client: AsyncClient, run_id: str, worker: Worker, told: set[Lane]) -> None:
    """Log, once each, which workflows the run needs and no live worker has: otherwise the script would hang in
    silence."""
    workers = await client.workers()
    if all(one.id != worker.id for one in workers):
        return  # this worker has yet to register
    served = {lane for one in workers for lane in one.lanes}
    async for record in family_of(client.store, run_id):
        lane = Lane(record.workflow, record.version, record.queue)
        if lane in served or lane in told or record.owner is not None:
            continue
        told.add(lane)
        _log.error(
            "the run %s waits for a worker that has the workflow %r in version %r on queue %r, and none is alive: "
            "holdfast.run serves the workflows that a body names among its globals and closures; import this one at "
            "the top of the module and call it by that name, or run a worker that has it",
            record.id, record.workflow, record.version, record.queue,
        )  # fmt: skip  # a name a line would be a page


def workflows_of(workflow: Workflow[..., Any]) -> list[Workflow[Any, Any]]:
    """The workflow and all others that its body can name, transitively, through globals, closures and defaults.

    That includes attributes of modules and classes, and the contents of collections and partial calls.
    """
    found: dict[int, Workflow[Any, Any]] = {}
    seen: set[int] = set()
    todo: list[Any] = [workflow]
    while todo:
        one = todo.pop()
        if isinstance(one, (Workflow, Step)):
            if isinstance(one, Workflow):
                found.setdefault(id(one.fn), one)
            one = one.fn
        code = getattr(one, "__code__", None)
        if code is None or id(one) in seen:
            continue
        seen.add(id(one))
        names = set(_names(code))
        defaults = [*(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values()]
        for reached in _within([*defaults, *(one.__globals__.get(name) for name in names)], names):
            if _may_name_workflows(reached, one.__module__):
                todo.append(reached)
        for cell in one.__closure__ or ():
            with contextlib.suppress(ValueError):
                todo.extend(_within([cell.cell_contents], names))
    return list(found.values())


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)


def _within(things: list[Any], names: set[str]) -> Iterator[Any]:
    """These things, and everything that code with these names can reach through them."""
    seen: set[int] = set()
    while things:
        one = things.pop()
        if isinstance(one, (ModuleType, type)):
            if id(one) not in seen:
                seen.add(id(one))
                things.extend(vars(one)[name] for name in names & vars(one).keys())
        elif isinstance(one, partial):
            things.extend((one.func, *one.args, *one.keywords.values()))
        elif isinstance(one, (Mapping, list, tuple, set, frozenset)):
            yield from (each for each in (one.values() if isinstance(one, Mapping) else one) if _is_defined(each))
        else:
            yield one


def _may_name_workflows(thing: Any, module: str) -> bool:
    """Whether code is followed: workflows and steps are, and functions in modules that have some. All other code is too
    much."""
    if _is_defined(thing) or getattr(thing, "__module__", None) == module:
        return True
    is_own = isinstance(thing, FunctionType) and not thing.__module__.startswith("holdfast.")
    return is_own and any(map(_is_defined, thing.__globals__.values()))


def _is_defined(thing: object) -> bool:
    return isinstance(thing, (Workflow, Step))
