"""Compensations that pass from one run of a chain to the next: stored by the name of their function, and found by it.

A step that was registered in one run is called in another, perhaps in another process, whose body never reached the
line that registered it. So its function must be found by name: in its module, or among what the workflow refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec import structs

from holdfast.codec import Codec, find_all, find_class
from holdfast.define import Step, Workflow, make_step, named_in
from holdfast.errors import DefinitionError
from holdfast.model import Undo, restored_retry, stored_retry

from .life import Compensation
from .shapes import shapes_of


def bequeathed(found: Sequence[Compensation | Undo], codec: Codec, heir: Workflow[Any, Any]) -> tuple[Undo, ...]:
    """What the next run of the chain has to undo. Raises DefinitionError if it could not find one of the functions."""
    return tuple(one if isinstance(one, Undo) else _named(one, codec, heir) for one in found)


def _named(one: Compensation, codec: Codec, heir: Workflow[Any, Any]) -> Undo:
    step, args, kwargs = one
    fn = step.fn
    plain = shapes_of(step, codec).arguments.pack(args, kwargs)
    undo = Undo(getattr(fn, "__module__", ""), getattr(fn, "__qualname__", ""), step.name, codec.seal(plain))
    found = inherited(undo, heir)
    # Another function may have that name: the one of a bound method, say, is its class's.
    if found is None or found.fn is not fn:
        raise DefinitionError(
            f"continue_as_new(): the compensation {step.name!r} can't go along: its function {fn!r} can't be found "
            "again by its name; define it at the top of a module, or call rollback() first"
        )
    # Options that the step itself declares are found with it, as they are then; those given by `.options` go along.
    retry = None if step.retry == found.retry else stored_retry(step.retry)
    undo = structs.replace(undo, retry=retry, timeout=None if step.timeout == found.timeout else step.timeout)
    if inherited(undo, heir) is None:
        raise DefinitionError(
            f"continue_as_new(): the compensation {step.name!r} can't go along: its {step.retry} names an exception "
            "class that can't be found again by its name; define it at the top of a module, or call rollback() first"
        )
    return undo


def inherited(undo: Undo, workflow: Workflow[Any, Any]) -> Step[..., Any] | None:
    """The step that was registered, with its name and options; None if a part of that can't be found."""
    step = _found(undo, workflow)
    if step is None or (undo.retry is None and undo.timeout is None):
        return step
    retry = None
    if undo.retry is not None:
        retry = restored_retry(undo.retry, partial(find_class, home=workflow.fn.__module__))
        if retry is None:
            return None
    return step.options(retry=retry, timeout=None if undo.timeout is None else timedelta(microseconds=undo.timeout))


def _found(undo: Undo, workflow: Workflow[Any, Any]) -> Step[..., Any] | None:
    for one in (*_referred(workflow.fn), *find_all(undo.module, undo.qualname, workflow.fn.__module__)):
        fn = one.fn if isinstance(one, Step) else one
        if getattr(fn, "__qualname__", None) != undo.qualname or not callable(fn):
            continue
        if isinstance(one, Step):
            return one if one.name == undo.name else one.options(name=undo.name)
        return make_step(fn, name=undo.name)
    return None


def _referred(fn: Callable[..., Any]) -> Iterator[object]:
    """The objects that a function refers to by name, and the compensations of the steps among them."""
    for value in named_in(fn):
        yield value
        if isinstance(value, Step) and value.compensate is not None:
            yield value.compensate
