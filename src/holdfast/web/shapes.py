"""What goes over the wire: request bodies and answers. OpenAPI is made from these.

Requests are strict: an unknown field, or a number given as text, is refused by its name. In answers, what a key may not
see is null, and `hidden` says so.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from holdfast.errors import DefinitionError
from holdfast.model import Duration, instant_of, is_name, is_text, microseconds

Status: TypeAlias = Literal["pending", "running", "waiting", "completed", "failed", "cancelled", "continued"]
_LENGTH = r"^\s*(\d+(\.\d+)?\s*(us|ms|s|m|h|d|w)\s*)+$"
_MOMENT = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})$"


def _check_text(text: str) -> str:
    if not is_text(text):
        raise ValueError("expected text without a NUL")
    return text


def _check_name(text: str) -> str:
    if not is_name(text, 500):
        raise ValueError("expected text of 1 to 500 characters, without a NUL")
    return text


def _check_length(given: str | float) -> str | float:
    try:
        microseconds(given, what="")
    except DefinitionError as error:
        raise ValueError(str(error).removeprefix(": ")) from None
    return given


def _check_when(given: str | float) -> str | float:
    if isinstance(given, str) and re.match(_MOMENT, given):
        try:
            instant_of(datetime.fromisoformat(given), what="")
        except (ValueError, DefinitionError) as error:
            raise ValueError(f"expected a time that exists: {error}") from None
        return given
    return _check_length(given)


def moment_or_duration(given: str | float | None) -> Duration | datetime | None:
    """A time as a datetime; a duration unchanged."""
    if isinstance(given, str) and re.match(_MOMENT, given):
        return datetime.fromisoformat(given).astimezone(UTC)
    return given


def _check_moment(given: Any) -> Any:
    # A number would be read as seconds since 1970, which nobody means here.
    if isinstance(given, str) and not re.match(_MOMENT, given):
        raise ValueError("expected a time with its zone, as 2026-01-31T12:00:00Z")
    return given


def expected(what: str) -> WrapValidator:
    """Makes an error say what was expected, in words, instead of how each branch of a union did not fit."""

    def validate(given: Any, inner: ValidatorFunctionWrapHandler) -> Any:
        try:
            return inner(given)
        except ValidationError:
            raise ValueError(f"expected {what}") from None

    return WrapValidator(validate)


Moment: TypeAlias = Annotated[AwareDatetime, BeforeValidator(_check_moment)]
Text: TypeAlias = Annotated[str, AfterValidator(_check_text)]
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_check_name)]
Seconds: TypeAlias = Annotated[float, Field(ge=0, le=31_622_400_000)]
Length: TypeAlias = Annotated[
    Annotated[str, StringConstraints(pattern=_LENGTH, max_length=100)] | Seconds,
    expected("a duration, as 1h30m, or seconds as a number"),
    AfterValidator(_check_length),
]
"""A duration: "1h30m", or seconds."""
When: TypeAlias = Annotated[
    Annotated[str, StringConstraints(pattern=f"{_LENGTH}|{_MOMENT}", max_length=100)] | Seconds,
    expected("a duration, as 1h30m, seconds as a number, or a time with its zone, as 2026-01-31T12:00:00Z"),
    AfterValidator(_check_when),
]
"""A duration from now, or a time with its zone, as 2026-01-31T12:00:00Z."""


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class StartRun(_Request):
    """How a run is started."""

    input: list[Any] | dict[str, Any] = Field(
        default_factory=list, description="Arguments: an array by position, an object by name."
    )
    version: Name | None = Field(None, description="A version that workers have registered; by default the newest.")
    key: Name | None = Field(
        None, description="Idempotency key: there is one run for each workflow and key, however often it is started."
    )
    on_conflict: Literal["return", "raise", "replace", "restart", "retry"] | None = Field(
        None, description="What happens if the key is taken."
    )
    id: Name | None = Field(None, description="The run's own id.")
    delay: When | None = Field(None, description="When the run begins: a duration from now, or a time.")
    deadline: When | None = Field(
        None, description="When the run fails if it has not ended: a duration from now, or a time."
    )
    retention: Length | None = Field(None, description="How long to keep the run after its end; null means for ever.")
    priority: int | None = Field(None, ge=0, le=9, description="0 to 9; larger goes first.")
    tags: dict[Text, Text] | None = None
    queue: Annotated[Name, StringConstraints(max_length=200)] | None = None


class CancelRun(_Request):
    """How a run is cancelled."""

    reason: Text | None = Field(None, description="Why; kept in the journal.")
    force: bool = Field(False, description="End at once, without cleanup.")


class RetryRun(_Request):
    """How a run is retried."""

    id: Name | None = Field(None, description="The new run's id, which makes the request safe to repeat.")


class ForkRun(_Request):
    """Where a fork leaves the original, and how."""

    at: Text | None = Field(
        None, description="The key of the step at which to fork, as the journal shows it; by default the start."
    )
    input: list[Any] | None = Field(None, description="New arguments, by position.")
    result: Any = Field(None, description="A new result for the step at `at`, if given.")


class RunSummary(BaseModel):
    """A run without its input and result."""

    id: str
    workflow: str
    version: str
    status: Status
    paused: bool
    key: str | None
    tags: dict[str, str]
    queue: str
    priority: int
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    due_at: AwareDatetime | None = Field(
        description="When the run is due; null: only a message wakes it, or nothing does."
    )
    deadline_at: AwareDatetime | None
    chain_id: str
    origin_id: str = Field(
        description="The run that its retries go back to, or itself: steps' idempotency keys are made of this id."
    )
    parent_id: str | None
    forked_from: str | None
    successor_id: str | None
    after_run_id: str | None
    owner: str | None
    crashes: int
    is_blocked: bool = Field(description="The run is stopped, but intact and not ended; explain says why.")


class Fault(BaseModel):
    """An error."""

    type: str = Field(description="The name of the error's class.")
    message: str | None = Field(description="null if it is hidden.")


class Failure(Fault):
    """An error that ended a run."""

    traceback: str | None = Field(description="The traceback as text; null if it is hidden or not known.")


class CallShown(BaseModel):
    """Arguments as they are stored: positional ones, and those given by name only."""

    args: list[Any]
    kwargs: dict[str, Any]


class RunShown(RunSummary):
    """A run, with its input and its result or error."""

    hidden: bool = Field(description="Whether payloads are left out because the key lacks the right to see them.")
    input: CallShown | None
    input_size: int = Field(description="Bytes, as stored.")
    result: Any = None
    result_size: int | None
    unreadable: str | None = Field(description="Why the result can't be read here; null if it can, or if it is hidden.")
    error: Failure | None
    blocked: str | None = Field(description="Why the run is blocked; null if it is not.")


class RunStarted(RunSummary):
    """A run, and whether this request created it."""

    created: bool


class RunPage(BaseModel):
    """Some of many runs, newest first."""

    runs: list[RunSummary]
    next: str | None = Field(description="The cursor of the following page; null on the last.")


class Outcome(BaseModel):
    """How a run has ended, if it has."""

    id: str
    status: Status
    done: bool
    hidden: bool
    result: Any = None
    unreadable: str | None = Field(description="Why the result can't be read here; null if it can, or if it is hidden.")
    error: Failure | None


class Cancelled(BaseModel):
    """The effect of a cancel."""

    id: str
    sent: bool = Field(description="False if the run had already ended.")
    was: Status = Field(description="Its status when the cancel came.")
    skipped: list[str] = Field(description="What a forced end left undone.")


class EntryShown(BaseModel):
    """One entry of a journal."""

    number: int
    seq: int
    epoch: int
    at: AwareDatetime
    kind: str
    key: str | None
    attempt: int | None
    value: Any = None
    error: Fault | None
    note: str | None


class JournalPage(BaseModel):
    """Some of a journal's entries, in order."""

    hidden: bool
    entries: list[EntryShown]
    next: str | None = Field(description="The cursor of the following page; null on the last.")


class StepShown(BaseModel):
    """A step of a run."""

    key: str
    status: Literal["asked", "retrying", "completed", "failed"]
    attempt: int
    asked_at: AwareDatetime
    ended_at: AwareDatetime | None
    value: Any = None
    error: Fault | None


class StepList(BaseModel):
    """The steps of a run, in the order in which they were asked for."""

    hidden: bool
    steps: list[StepShown]


class Explained(BaseModel):
    """Why a run is where it is."""

    id: str
    reason: str
    hidden: bool
    text: str | None
    details: dict[str, Any] | None


class ValueShown(BaseModel):
    """A value that a run has set."""

    name: str
    hidden: bool
    value: Any = None


class ValueNamed(BaseModel):
    """A value that a run has set, without the value."""

    name: str
    size: int = Field(description="Bytes, as stored.")
    set_at: AwareDatetime


class ValuePage(BaseModel):
    """Some of the values that a run has set, by name."""

    values: list[ValueNamed]
    next: str | None = Field(description="The cursor of the following page; null on the last.")


class StreamNamed(BaseModel):
    """A stream of a run's, without its items."""

    name: str
    last: int = Field(description="The offset of the last item, which is also the number of items.")


class StreamPage(BaseModel):
    """Some of the streams that a run has sent items to, by name."""

    streams: list[StreamNamed]
    next: str | None = Field(description="The cursor of the following page; null on the last.")


class Accepted(BaseModel):
    """The message was accepted. Its receiver decides whether and when to take it."""

    accepted: Literal[True] = True


class WorkflowShown(BaseModel):
    """A workflow, and how many runs it has in each status."""

    name: str
    versions: list[str] = Field(description="The newest is last.")
    counts: dict[Status, int]


class WorkflowList(BaseModel):
    workflows: list[WorkflowShown]


class LaneShown(BaseModel):
    """A workflow in one version on one queue."""

    workflow: str
    version: str
    queue: str


class WorkerShown(BaseModel):
    """A live worker."""

    id: str
    host: str
    pid: int
    started_at: AwareDatetime
    renewed_at: AwareDatetime
    lease_until: AwareDatetime
    lanes: list[LaneShown]


class WorkerList(BaseModel):
    workers: list[WorkerShown]


class Health(BaseModel):
    status: Literal["ok"] = "ok"
