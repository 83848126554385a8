"""Stubs, which replace steps in a test, and the record of every call.

A stub replaces only the execution of a step's function. Arguments and results still pass through the codec by the
step's annotations, and errors are retried by its policy, as in production.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from holdfast.define import State, Step, async_chunk, blocking_chunk, caught, chunked, covered, current_step, state_of
from holdfast.errors import DefinitionError
from holdfast.model import Duration, microseconds
from holdfast.worker import Threads

from .clock import ManualClock
from .pacing import ItemPace

StepOrName: TypeAlias = Step[..., Any] | str
_Sleep: TypeAlias = Callable[[int], Awaitable[None]]
_NONE = object()


@dataclass(frozen=True, slots=True)
class Call:
    """One execution of a step, stubbed or not, with the arguments that the step got."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    key: str = field(compare=False)
    """The step's key in its run: `charge`, then `charge:1`."""
    attempt: int = field(compare=False)
    run_id: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Takes:
    """A stub that takes time; made by `takes`."""

    duration: int
    outcome: Any


def takes(duration: Duration, outcome: Any = None) -> Takes:
    """A stub that takes `duration` by the environment's clock, and then does what `outcome`, itself a stub, says.

        stubs={charge: takes("40s", "receipt")}

    All other executions take no time by that clock. With this a step can run into its timeout, or lose a race.
    """
    return Takes(microseconds(duration, what="takes"), outcome)


class Stubs:
    """The stubs of one environment, and the calls of all steps."""

    def __init__(self, given: Mapping[Any, Any], clock: ManualClock, sleep: _Sleep) -> None:
        if not isinstance(given, Mapping):
            raise DefinitionError(
                f"stubs={given!r}: expected a mapping of steps to what they come to, such as {{charge: 'receipt-1'}}"
            )
        self._clock = clock
        self._sleep = sleep
        self._by_function: dict[int, Any] = {}
        self._by_name: dict[str, Any] = {}
        self._steps = list(given)
        self._calls: list[tuple[Step[..., Any], Call]] = []
        self.on_call: Callable[[Call], None] | None = None
        """Called with each call before the step executes."""
        for key, stub in given.items():
            if isinstance(key, Step):
                self._by_function[id(key.fn)] = stub
            elif isinstance(key, str) and key:
                self._by_name[key] = stub
            else:
                raise DefinitionError(
                    f"stubs: {key!r} is not a step; expected a function decorated with @step, or an inline step's name"
                    f"{covered(key, Step)}"
                )

    def perform(self, step: Step[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Awaitable[Any] | None:
        """The awaitable that replaces the step's function; None to execute the function."""
        state = state_of(step)
        if state is not None:
            return self._state(step, state, *args)
        self._note(step, args, kwargs)
        stub = self._stub_of(step)
        if stub is not _NONE:
            return self._outcome(stub, args, kwargs)
        chunk = chunked(step)
        return None if chunk is None else self._items(*chunk, *args)

    def _state(self, step: Step[..., Any], state: State, input: Any, pad: dict[str, Any]) -> Awaitable[Any] | None:
        """As `perform` for a machine's state: a stub gets the context, as the state itself does."""
        self._note(step, (state.context(input, pad),), {})
        stub = self._stub_of(step)
        return None if stub is _NONE else self._state_outcome(state, stub, input, pad)

    async def _state_outcome(self, state: State, stub: Any, input: Any, pad: dict[str, Any]) -> Any:
        return state.outcome(await self._outcome(stub, (state.context(input, pad),), {}), pad)

    def _note(self, step: Step[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        info = current_step()
        # A copy: a step may change its arguments, and a state its context, and neither is what it got.
        call = Call(*copy.deepcopy((args, kwargs)), info.key, info.attempt, info.run_id)
        self._calls.append((step, call))
        if self.on_call is not None:
            self.on_call(call)

    def _stub_of(self, step: Step[..., Any]) -> Any:
        return self._by_function.get(id(_function_of(step)), self._by_name.get(step.name, _NONE))

    async def _items(self, target: Step[..., Any], collects: bool, items: Any) -> Any:
        """Perform a chunk of a map: each item is a call of the step."""
        stub = self._stub_of(target)
        pace = ItemPace(self._clock, self._sleep)
        if stub is _NONE and not target.is_async:

            def blocking(item: Any) -> Any:
                self._note(target, (item,), {})
                return target.fn(item)

            # A thread of its own, not one of the loop's: those are few. If all of them waited for time to move, time
            # would wait for the chunk that has no thread.
            thread = Threads()
            try:
                # The error is returned, not raised: a coroutine can't raise StopIteration.
                chunk = blocking_chunk(target, collects, blocking, pace)
                value, error = await thread.call(caught, (chunk, items), {})
            finally:
                pace.leave()
                thread.close()
            if error is not None:
                raise error
            return value

        async def perform_item(item: Any) -> Any:
            self._note(target, (item,), {})
            return await (target.fn(item) if stub is _NONE else self._outcome(stub, (item,), {}))

        return await async_chunk(target, collects, perform_item, pace)(items)

    def calls(self, step: StepOrName) -> list[Call]:
        """Every call of the step so far, in the order of execution."""
        if isinstance(step, str):
            return [call for called, call in self._calls if called.name == step]
        if not isinstance(step, Step):
            raise DefinitionError(f"calls({step!r}): expected a step, or a step's name")
        return [call for called, call in self._calls if _function_of(called) is step.fn]

    async def _outcome(self, stub: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(stub, Takes):
            await self._sleep(stub.duration)
            return await self._outcome(stub.outcome, args, kwargs)
        if isinstance(stub, BaseException):
            # Without the traceback of an earlier raise: one instance may be raised many times.
            raise stub.with_traceback(None)
        if isinstance(stub, type) and issubclass(stub, BaseException):
            raise stub
        if not callable(stub):
            return stub
        found = stub(*args, **kwargs)
        if inspect.isawaitable(found):
            found = await found
        # A function may return `takes(...)`, so that the time depends on its arguments.
        return await self._outcome(found, args, kwargs) if isinstance(found, Takes) else found


def _function_of(step: Step[..., Any]) -> Callable[..., Any]:
    """The decorated function; for a state, the function that the machine was given."""
    state = state_of(step)
    return step.fn if state is None else state.fn
