"""Checks of what a worker is given: workflows and the lanes that follow from them, resources, middleware, observers.

A worker and the test kit's environment take the same things, so they refuse the same things in the same words. `giver`
names the one whose argument is refused: "Worker", "Environment".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from holdfast.define import CHUNK_RUNS, Resource, Step, StepInfo, Workflow, named_in, wrong_workflow
from holdfast.errors import DefinitionError, DuplicateWorkflow
from holdfast.model import Duration, Lane, microseconds, spoken
from holdfast.observe import Observer, Observers, checked_observers, observers_of
from holdfast.settings import Settings
from holdfast.store import Lender

from .inside import check_colour

AnyWorkflow = Workflow[Any, Any]
T = TypeVar("T")
_LEAST_STALL = 2_000_000


def known_workflows(
    workflows: AnyWorkflow | Iterable[AnyWorkflow], *, giver: str
) -> dict[tuple[str, str], AnyWorkflow]:
    """The workflows by name and version. Two functions under one name and version are refused; one that is given twice
    is not."""
    known: dict[tuple[str, str], AnyWorkflow] = {}
    several = [workflows] if isinstance(workflows, Workflow) else workflows
    for one in listed(several, what=f"{giver}(workflows=)"):
        if not isinstance(one, Workflow):
            raise DefinitionError(f"{giver}(workflows=[{one!r}]): {wrong_workflow(one)}")
        other = known.setdefault((one.name, one.version), one)
        if other.fn is not one.fn:
            raise DuplicateWorkflow(
                f"two workflows are named {one.name!r} in version {one.version!r}: {other.fn.__module__}."
                f"{other.fn.__qualname__} and {one.fn.__module__}.{one.fn.__qualname__}; give one of them another "
                "name= or version="
            )
    if not known:
        raise DefinitionError(
            f"{giver}(workflows=[]): expected at least one workflow, a function decorated with @workflow"
        )
    if known.setdefault((CHUNK_RUNS.name, CHUNK_RUNS.version), CHUNK_RUNS).fn is not CHUNK_RUNS.fn:
        raise DuplicateWorkflow(
            f"a workflow is named {CHUNK_RUNS.name!r}, the name of the runs that holdfast.map begins; give it another "
            "name="
        )
    return known


def check_transactions(workflows: Iterable[AnyWorkflow], lender: Lender) -> None:
    """Refuse the transactional steps that a workflow refers to by name and that the store can't lend a connection to.

    Other such steps are refused when a body asks for them.
    """
    for one in workflows:
        for step in named_in(one.fn):
            if isinstance(step, Step) and step.is_transactional:
                check_colour(step, lender)


def lanes_of(workflows: Iterable[AnyWorkflow], queues: Sequence[str] | None = None) -> tuple[Lane, ...]:
    """The lanes that claims ask for: each workflow on `queues`, or on its own queue and the default one.

    A chunk run of holdfast.map is on the queue of its items, so chunk runs are asked for on all of these queues.
    """
    lanes: dict[Lane, None] = {}
    for one in workflows:
        for queue in queues if queues is not None else (one.queue, "default"):
            lanes[Lane(one.name, one.version, queue)] = None
    for queue in {lane.queue: None for lane in lanes}:
        lanes[Lane(CHUNK_RUNS.name, CHUNK_RUNS.version, queue)] = None
    return tuple(lanes)


def checked_resources(resources: Iterable[Resource[Any]], *, giver: str) -> tuple[Resource[Any], ...]:
    """The resources, if that is what they all are."""
    found = listed(resources, what=f"{giver}(resources=)")
    for one in found:
        if not isinstance(one, Resource):
            raise DefinitionError(f"{giver}(resources=[{one!r}]): expected functions decorated with @resource")
    return found


def checked_middleware(
    middleware: Sequence[Callable[[StepInfo], Any]], *, giver: str
) -> tuple[Callable[[StepInfo], Any], ...]:
    """The middleware, if all of it can be called."""
    found = listed(middleware, what=f"{giver}(middleware=)")
    for one in found:
        if not callable(one):
            raise DefinitionError(
                f"{giver}(middleware=[{one!r}]): expected functions that take a step and return a context manager"
            )
    return found


def no_manager(middleware: Callable[..., Any], returned: object) -> DefinitionError:
    """The error for a middleware that returned something other than a context manager."""
    name = getattr(middleware, "__qualname__", repr(middleware))
    return DefinitionError(
        f"the middleware {name} returned {returned!r}; expected a context manager, which the attempt executes in: "
        "decorate a function that yields with contextlib.contextmanager or asynccontextmanager"
    )


def listed(given: Iterable[T], *, what: str) -> tuple[T, ...]:
    """The things in a tuple. A single thing that is no iterable is refused."""
    if not isinstance(given, Iterable):
        raise DefinitionError(f"{what}: {given!r} is no list; expected [{given!r}]")
    return tuple(given)


def checked_count(number: object, *, what: str) -> int:
    """The number, if it is a whole number from 0."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise DefinitionError(f"{what}: expected a whole number from 0, not {number!r}")
    return number


def checked_stall(given: Duration) -> int:
    """The checked `stall`: how long a worker's loop may be blocked."""
    stall = microseconds(given, what="Worker(stall=)")
    if stall < _LEAST_STALL:
        raise DefinitionError(
            f"Worker(stall={given!r}): expected at least {spoken(_LEAST_STALL)}; whether its loop turns is asked once "
            "a second, so with less a worker in good health would lose its lease"
        )
    return stall


async def open_resources(
    stack: contextlib.AsyncExitStack, resources: Sequence[Resource[Any]] | Mapping[Resource[Any], Any]
) -> dict[object, Any]:
    """Open resources in order, each once; `stack` closes them, last first. A mapping holds stand-ins, which are not
    opened. What a resource raises gets a note that names it."""
    if isinstance(resources, Mapping):
        return dict(resources.items())
    opened: dict[object, Any] = {}
    for one in dict.fromkeys(resources):
        make: Callable[..., Any] = contextlib.asynccontextmanager if one.is_async else contextlib.contextmanager
        manager = make(one.fn)()
        with _noting(one, "opened"):
            opened[one] = await manager.__aenter__() if one.is_async else manager.__enter__()
        stack.push_async_exit(partial(_close, one, manager))
    return opened


async def _close(one: Resource[Any], manager: Any, *raised: Any) -> Any:
    with _noting(one, "closed"):
        return await manager.__aexit__(*raised) if one.is_async else manager.__exit__(*raised)


@contextlib.contextmanager
def _noting(one: Resource[Any], deed: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"while the worker {deed} its resource {one.name!r}, a generator that yields once")
        raise


def observers_given(url: object, settings: Settings, given: Sequence[Observer] | None) -> Observers | None:
    """The observers given to the worker, or else to its client; else those that the settings ask for."""
    if given is None:
        given = getattr(url, "observers", None)
    if given is None:
        given = observers_of(settings, is_worker=True)
    return Observers.of(checked_observers(given, giver="Worker"))
