"""The blocking handles: `Run` and `Runs`. Each method is one line, which goes through the client's portal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from holdfast.define import NoClass
from holdfast.model import Duration, Page, RunRecord, RunStatus

from .listings import PAGE, AsyncRuns
from .portal import Portal
from .runs import AsyncRun, Cancellation
from .streams import StreamInfo, StreamItem, ValueInfo

T = TypeVar("T")
D = TypeVar("D")
R_co = TypeVar("R_co", covariant=True)


class _Client(Protocol):
    """The parts of a client that a handle uses."""

    _portal: Portal

    def _inside(self, connection: Any, work: Coroutine[Any, Any, T]) -> T: ...


class Run(Generic[R_co]):
    """One run, as `client.start`, `client.get_run` and `client.runs` of a blocking client give it.

    `status` and `record` are what was last seen; `refresh` looks again. As AsyncRun in everything else.
    """

    __slots__ = ("_client", "_run")

    def __init__(self, client: _Client, run: AsyncRun[R_co]) -> None:
        # The client stays alive as long as one of its handles does.
        self._client = client
        self._run = run

    @property
    def id(self) -> str:
        """The run's id."""
        return self._run.id

    @property
    def created(self) -> bool | None:
        """Whether the start that gave this handle created the run; None if the handle did not come from a start."""
        return self._run.created

    @property
    def workflow(self) -> str:
        """The workflow's name."""
        return self._run.workflow

    @property
    def key(self) -> str | None:
        """The key that the run was started with."""
        return self._run.key

    @property
    def status(self) -> RunStatus:
        """As last seen."""
        return self._run.status

    @property
    def record(self) -> RunRecord | None:
        """Everything the store knew about the run when it was last read; None if only its start is known."""
        return self._run.record

    def refresh(self) -> Self:
        """As AsyncRun.refresh."""
        self._client._portal.call(self._run.refresh())
        return self

    def wait(self, timeout: Duration | None = None) -> RunStatus:
        """As AsyncRun.wait. Ctrl-C interrupts it and leaves the run alone."""
        return self._client._portal.call(self._run.wait(timeout))

    def result(self, timeout: Duration | None = None) -> R_co:
        """As AsyncRun.result. Ctrl-C interrupts it and leaves the run alone."""
        return self._client._portal.call(self._run.result(timeout))

    def cancel(self, *, reason: str | None = None, force: bool = False) -> Cancellation:
        """As AsyncRun.cancel."""
        return self._client._portal.call(self._run.cancel(reason=reason, force=force))

    def signal(self, name: str, payload: Any = None, *, message_id: str | None = None, connection: Any = None) -> None:
        """As AsyncRun.signal."""
        work = self._run.signal(name, payload, message_id=message_id, connection=connection)
        self._client._inside(connection, work)

    @overload
    def value(self, name: str, *, type: type[T]) -> T | None: ...
    @overload
    def value(self, name: str, *, default: D, type: type[T]) -> T | D: ...
    @overload
    def value(self, name: str, *, default: Any = None, type: NoClass = ...) -> Any: ...
    def value(self, name: str, *, default: Any = None, type: Any = Any) -> Any:
        """As AsyncRun.value."""
        return self._client._portal.call(self._run.value(name, default=default, type=type))

    def values(self, *, after: str = "", limit: int | None = None) -> list[ValueInfo]:
        """As AsyncRun.values."""
        return self._client._portal.call(self._run.values(after=after, limit=limit))

    def streams(self, *, after: str = "", limit: int | None = None) -> list[StreamInfo]:
        """As AsyncRun.streams."""
        return self._client._portal.call(self._run.streams(after=after, limit=limit))

    @overload
    def stream(self, name: str, *, after: int = 0, type: type[T]) -> Iterator[StreamItem[T]]: ...
    @overload
    def stream(self, name: str, *, after: int = 0, type: NoClass = ...) -> Iterator[StreamItem[Any]]: ...
    def stream(self, name: str, *, after: int = 0, type: Any = Any) -> Iterator[StreamItem[Any]]:
        """As AsyncRun.stream."""
        return self._following(self._run.stream(name, after=after, type=type))

    def changes(self) -> Iterator[RunStatus]:
        """As AsyncRun.changes."""
        return self._following(self._run.changes())

    def _following(self, items: AsyncIterator[T]) -> Iterator[T]:
        # It refers to `self`, so that the client stays alive while anybody iterates, even without the handle.
        end = object()

        async def following() -> T | object:
            return await anext(items, end)

        while (item := self._client._portal.call(following())) is not end:
            yield item  # type: ignore[misc]  # it is not the end

    def __repr__(self) -> str:
        return repr(self._run)


class Runs:
    """The runs that a filter lets through: `for run in client.runs(...)`, or one page at a time."""

    def __init__(self, client: _Client, runs: AsyncRuns) -> None:
        self._client = client
        self._runs = runs

    def page(self, *, cursor: str | None = None, limit: int = PAGE) -> Page[Run[Any]]:
        """One page; `page.next` is the cursor of the one that follows."""
        page = self._client._portal.call(self._runs.page(cursor=cursor, limit=limit))
        return Page(tuple(Run(self._client, run) for run in page.items), page.next)

    def __iter__(self) -> Iterator[Run[Any]]:
        cursor: str | None = None
        while True:
            page = self.page(cursor=cursor)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return
