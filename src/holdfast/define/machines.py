"""Machines: workflows as explicit continuations. Each state is real work, executed and recorded like a step.

A machine needs no deterministic body: the next state's name and the context say what it is about to do, and both are in
the journal. Now and then the whole context is written as a checkpoint. A replay starts there, and entries before it may
be deleted, so a machine may run for ever.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from holdfast.errors import DefinitionError
from holdfast.model import Duration, Retry, microseconds, spoken

from .coroutines import is_coroutine_callable
from .scope import body_for
from .steps import AsyncStep, BlockingStep, Step, checked_name
from .workflows import AsyncWorkflow, Workflow

R = TypeVar("R")
_START = "start"
_CHECKPOINT_EVERY = 100


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Next:
    """What a state returns to go on with another state: at once, or `after` a duration, which is waited for durably."""

    state: str
    after: int

    def __init__(self, state: str, *, after: Duration | None = None) -> None:
        if not isinstance(state, str):
            raise DefinitionError(f"Next({state!r}): expected the name of a state, as text")
        object.__setattr__(self, "state", state)
        object.__setattr__(self, "after", 0 if after is None else microseconds(after, what=f"Next({state!r}): after"))

    def __repr__(self) -> str:
        return f"Next({self.state!r}, after={spoken(self.after)!r})" if self.after else f"Next({self.state!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Done(Generic[R]):
    """What a state returns to end the machine, with its result."""

    result: R | None = None

    def __repr__(self) -> str:
        return f"Done({self.result!r})"


class Context(MutableMapping[str, Any]):
    """What a state is called with: the machine's `input`, and a scratchpad with everything that was committed.

    What a state writes into it is committed with the state: if the state fails or its process dies, nothing of that is
    kept.
    """

    __slots__ = ("_pad", "input", "state")

    def __init__(self, input: Any, state: str, pad: dict[str, Any]) -> None:
        self.input = input
        self.state = state
        self._pad = pad

    def __getitem__(self, name: str) -> Any:
        return self._pad[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} can't be a name in a machine's context; expected text")
        self._pad[name] = value

    def __delitem__(self, name: str) -> None:
        del self._pad[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._pad)

    def __len__(self) -> int:
        return len(self._pad)

    def __repr__(self) -> str:
        return f"<context of {self.state!r}: {self._pad!r}>"


@dataclass(frozen=True, slots=True)
class State:
    """The function that a state's step executes: it gets the context and says what follows."""

    machine: str
    name: str
    fn: Callable[..., Any]

    def context(self, input: Any, pad: dict[str, Any]) -> Context:
        return Context(input, self.name, pad)

    def outcome(self, returned: Any, pad: dict[str, Any]) -> tuple[Any, ...]:
        """The step's result: the next state, after how long, the machine's result, and the scratchpad."""
        if isinstance(returned, (Next, Done)):
            return *said_by(returned), pad
        raise DefinitionError(
            f"machine {self.machine!r}: the state {self.name!r} returned {returned!r}; expected Next('state') or "
            "Done(result)"
        )


def said_by(returned: Any) -> Any:
    """What a state has returned, in the form in which its step records it, without the scratchpad. Anything else is
    returned unchanged."""
    if isinstance(returned, Next):
        return returned.state, returned.after, None
    if isinstance(returned, Done):
        return None, 0, returned.result
    return returned


class _AsyncState(AsyncStep[..., Any]):
    state: State


class _BlockingState(BlockingStep[..., Any]):
    state: State


def state_of(step: Step[..., Any]) -> State | None:
    """The state that a step executes; None if the step is no machine's."""
    return step.state if isinstance(step, (_AsyncState, _BlockingState)) else None


class Machine(AsyncWorkflow[[Any], Any]):
    """A workflow made of states: `Machine("checkout", {"start": start, "charge": charge})`.

        async def start(ctx):
            ctx["order"] = await create(ctx.input)
            return Next("charge", after="5m")

        def charge(ctx):
            return Done({"order": ctx["order"]})

        checkout = Machine("checkout", {"start": start, "charge": charge}, retry=Retry(attempts=3), timeout="30s")

    Use a machine wherever you would use a workflow: started by clients, served by workers, called as a child. It begins
    with the state "start"; without one, DefinitionError is raised here.

    A state is a function of one argument, `ctx`, a mapping (`holdfast.define.Context`) with the machine's `input`. It
    returns Next or Done. Anything else, or an unknown state, fails the run with a DefinitionError.

    `retry` and `timeout` hold for every state; a state that is a @step brings its own. The other options are those of
    @workflow.
    """

    def __init__(
        self,
        name: str,
        states: Mapping[str, Callable[..., Any]],
        *,
        version: str = "1",
        retry: Retry | None = None,
        timeout: Duration | None = None,
        deadline: Duration | None = None,
        retention: Duration | None = "30d",
        queue: str = "default",
        max_crashes: int = 5,
    ) -> None:
        checked_name(name)
        if not isinstance(states, Mapping):
            raise DefinitionError(f"machine {name!r}: states={states!r}: expected a mapping of names to functions")
        if retry is not None and not isinstance(retry, Retry):
            raise DefinitionError(f"machine {name!r}: retry={retry!r}: expected holdfast.Retry(...)")
        if not states:
            raise DefinitionError(f"machine {name!r} has no states; expected at least {_START!r}")
        if _START not in states:
            raise DefinitionError(f"machine {name!r} has no state {_START!r} to begin with; it has: {_listed(states)}")
        self.states: dict[str, Step[..., Any]] = {}
        for state, fn in states.items():
            if not callable(fn):
                raise DefinitionError(f"machine {name!r}: the state {state!r} is {fn!r}; expected a function")
            self.states[state] = _step_of(name, state, fn, retry, timeout)

        async def body(input: Any = None) -> Any:
            return await _run(self, input)

        body.__name__ = body.__qualname__ = name
        body.__module__ = getattr(states[_START], "__module__", __name__)
        super().__init__(
            body,
            name=name,
            version=version,
            deadline=deadline,
            retention=retention,
            queue=queue,
            max_crashes=max_crashes,
        )

    def next_of(self, state: str) -> Step[..., Any]:
        """The step of a state. An unknown state is an error that names the known ones."""
        found = self.states.get(state)
        if found is None:
            raise DefinitionError(f"machine {self.name!r} has no state {state!r}; it has: {_listed(self.states)}")
        return found


async def _run(machine: Machine, input: Any) -> Any:
    body = body_for(f"the machine {machine.name!r}")
    state, pad, count = body.restored() or (_START, {}, 0)
    while True:
        step = machine.next_of(state)
        came_to = await body.ask_step(step, (input, pad), {})
        if not isinstance(came_to, (tuple, list)) or len(came_to) not in (3, 4):
            raise DefinitionError(
                f"machine {machine.name!r}: the state {state!r} came to {came_to!r}, as a fork says; expected "
                "Next('state') or Done(result)"
            )
        # A result that a fork has given has no scratchpad: that stays as it was before this state.
        following, after, result, *written = came_to
        pad = written[0] if written else pad
        if following is None:
            return result
        machine.next_of(following)
        state = following
        count += 1
        if after:
            await body.ask_timer(after)
        if count % _CHECKPOINT_EVERY == 0:
            body.checkpoint((state, pad, count))


def _step_of(
    machine: str, state: str, fn: Callable[..., Any], retry: Retry | None, timeout: Duration | None
) -> Step[..., Any]:
    """The step that executes a state. It gets the input and the scratchpad, and returns what follows and the
    scratchpad."""
    own = fn if isinstance(fn, Step) else None
    target = own.fn if own is not None else fn
    if isinstance(target, Workflow):
        raise DefinitionError(
            f"machine {machine!r}: the state {state!r} is a workflow; expected a function, which may start it with a "
            "client"
        )
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise DefinitionError(
            f"machine {machine!r}: the state {state!r} is a generator; expected a function that returns Next or Done"
        )
    try:
        inspect.signature(target).bind(None)
    except TypeError as error:
        raise DefinitionError(
            f"machine {machine!r}: the state {state!r} must take one argument, the context"
        ) from error
    if own is not None and own.is_transactional:
        raise DefinitionError(
            f"machine {machine!r}: the state {state!r} is a transactional step, and a state gets the context, not a "
            "connection; take transaction=True away"
        )
    if own is not None and own.compensate is not None:
        raise DefinitionError(
            f"machine {machine!r}: the state {state!r} has compensate=, and no state is ever undone; go on to "
            "one that undoes it"
        )
    of = State(machine, state, target)
    made: _AsyncState | _BlockingState
    if is_coroutine_callable(target):

        async def execute(input: Any, pad: dict[str, Any]) -> Any:
            return of.outcome(await target(of.context(input, pad)), pad)

        made = _AsyncState(execute, name=state, retry=retry, timeout=timeout)
    else:

        def execute_blocking(input: Any, pad: dict[str, Any]) -> Any:
            return of.outcome(target(of.context(input, pad)), pad)

        made = _BlockingState(execute_blocking, name=state, retry=retry, timeout=timeout)
    made.state = of
    # The name that errors give it.
    made.fn.__qualname__ = f"{machine}.{state}"
    if own is not None:
        made.retry, made.record_args = own.retry, own.record_args
        made.timeout = made.timeout if own.timeout is None else own.timeout
    return made


def _listed(states: Mapping[str, Any]) -> str:
    return ", ".join(map(str, states))
