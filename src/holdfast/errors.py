"""Every error a user can meet. Each names the thing, says what was expected and ends with what to do.

Exception
└─ HoldfastError
   ├─ DefinitionError                     a declaration that can't work; raised where it is written
   │  ├─ DuplicateWorkflow
   │  └─ BadDuration (also ValueError)
   ├─ MisplacedCall                       a call in the wrong place
   │  ├─ NotInRun                         a workflow or a durable function outside any run
   │  ├─ NotInBody                        a durable wait inside a step
   │  ├─ IOInBody                         I/O, a thread or a client call inside a body
   │  └─ NeverAwaited                     a durable call whose result nobody looked at
   ├─ CodecError
   │  ├─ BadArguments (also TypeError)    refused at start or at the call, never in the worker
   │  ├─ NotEncodable (also TypeError)
   │  ├─ NotDecodable (also ValueError)
   │  ├─ PayloadTooLarge (also ValueError)
   │  └─ BadPayload (also ValueError)
   ├─ StoreError
   │  ├─ StoreAway                        the database can't be reached: work pauses, nothing is lost
   │  ├─ StoreTooNew                      its schema was written by a newer version
   │  └─ LeaseLost
   ├─ UnknownWorkflow, RunNotFound, KeyTaken, RunEnded
   ├─ NotRetryable, ClientClosed
   ├─ RunFailed, RunCancelled             what `result()` raises; RunFailed's __cause__ is the body's own exception
   ├─ JournalDiverged, JournalLimitReached
   ├─ DeadlineExceeded (also TimeoutError), RunCrashed
   ├─ StepFailed                          a step's failure whose own class can't be rebuilt
   ├─ StepTimeout (also TimeoutError), WaitTimeout (also TimeoutError)
   ├─ NotCompensated, AlreadyCompensated
   ├─ HookNotFound, HookUsed, HookExpired
   └─ FatalError, RetryAfter              raised by steps: never retried, retried after a delay of their own
BaseException
├─ Continued                              continue_as_new ends the body; not for user code to catch
└─ Suspended                              a run is being put away; not for user code to catch
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any


class HoldfastError(Exception):
    """The root of everything Holdfast raises on purpose."""


class DefinitionError(HoldfastError):
    """A workflow, step, retry policy or option was declared in a way that can't work."""


class DuplicateWorkflow(DefinitionError):
    """Two different workflows were given under one name and version."""


class BadDuration(DefinitionError, ValueError):
    """A duration that is none: not "1h30m", not seconds, not a timedelta."""


class MisplacedCall(HoldfastError):
    """A call was made where it can't work."""


class NotInRun(MisplacedCall):
    """A workflow or durable function was called outside any run."""


class NotInBody(MisplacedCall):
    """A durable wait was called from inside a step, where only the body may wait."""


class IOInBody(MisplacedCall):
    """A workflow body tried to do I/O or to leave its deterministic loop. Move that into a step."""


class NeverAwaited(MisplacedCall):
    """A durable call was made and nobody ever looked at its result."""


class CodecError(HoldfastError):
    """A value could not be turned into stored bytes or back."""


class BadArguments(CodecError, TypeError):
    """Arguments that don't fit the function's signature or annotations."""


class NotEncodable(CodecError, TypeError):
    """A value that can't be stored; the message holds its type and its path."""


class NotDecodable(CodecError, ValueError):
    """Stored bytes that don't fit the annotation they are read by."""


class PayloadTooLarge(CodecError, ValueError):
    """A value whose encoding is larger than the limit."""


class StoreError(HoldfastError):
    """Something about the database."""


class StoreAway(StoreError):
    """The database can't be reached or is read-only or full. Work pauses and goes on when it is back."""


class StoreTooNew(StoreError):
    """The schema in the database is newer than this version of Holdfast understands."""


class LeaseLost(StoreError):
    """This worker no longer holds what it works on: another one has taken it over, or may do so at any time."""


class UnknownWorkflow(HoldfastError):
    """No worker has ever registered a workflow of that name."""


class RunNotFound(HoldfastError):
    """There is no run with that id or key in this namespace."""


class KeyTaken(HoldfastError):
    """`on_conflict="raise"`: a run with that key exists already."""

    def __init__(self, message: str, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class RunEnded(HoldfastError):
    """The run has ended already, so there is nobody to tell."""


class NotRetryable(HoldfastError):
    """Only a run that failed or was cancelled can be retried."""

    def __init__(self, message: str, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class ClientClosed(HoldfastError):
    """The client was closed, and can't be used any more."""


class RunFailed(HoldfastError):
    """The run ended as failed. `__cause__` is the exception that left its body."""

    def __init__(self, message: str, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class RunCancelled(HoldfastError):
    """The run ended as cancelled."""

    def __init__(self, message: str, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class JournalDiverged(HoldfastError):
    """The code no longer matches the run's journal. The run is intact; a fixed deploy lets it go on."""


class JournalLimitReached(HoldfastError):
    """The run's journal has reached its limit; `continue_as_new` begins a fresh one."""


class DeadlineExceeded(HoldfastError, TimeoutError):
    """The run did not end before its deadline."""


class RunCrashed(HoldfastError):
    """The run took its worker down again and again without progress, and was stopped."""


class StepFailed(HoldfastError):
    """A step failed with an exception whose own class can't be rebuilt here."""

    def __init__(self, message: str, type: str = "", traceback: str = "") -> None:
        super().__init__(message)
        self.type = type
        self.traceback = traceback


class StepTimeout(HoldfastError, TimeoutError):
    """One attempt of a step took longer than its timeout."""


class WaitTimeout(HoldfastError, TimeoutError):
    """What a wait waited for did not come in time."""


class NotCompensated(HoldfastError):
    """Something that a run has done could not be undone after it failed or was cancelled."""


class AlreadyCompensated(HoldfastError):
    """The run has undone what it had done, so it can't go on where it stopped."""


class HookNotFound(HoldfastError):
    """There is no hook with that token."""


class HookUsed(HoldfastError):
    """The hook was resumed before; it is delivered once."""


class HookExpired(HoldfastError):
    """The hook's time is over."""


class BadPayload(CodecError, ValueError):
    """A message's payload does not fit what its receiver expects."""


class FatalError(HoldfastError):
    """Raise it (or a subclass) in a step to fail at once, whatever the retry policy says."""


class RetryAfter(HoldfastError):
    """Raise it in a step to be tried again after `delay` instead of the policy's own delay.

    It counts as an attempt like any other error.
    """

    def __init__(self, delay: str | float | timedelta, message: str = "") -> None:
        super().__init__(message or f"retry after {delay}")
        self.delay = delay


class Continued(BaseException):
    """The body ends here and another run goes on: thrown by `continue_as_new`. Never catch it."""

    def __init__(self, workflow: Any, plain: bytes) -> None:
        super().__init__("continue_as_new() ends this run; let it pass")
        self.workflow = workflow
        self.plain = plain


class Suspended(BaseException):
    """The run is being put away: thrown into its body so that it ends. Never catch it."""


def blocking_error(report: str) -> HoldfastError:
    """The error that blocks a run, from the report in its row: "JournalDiverged: …"."""
    name, _, message = report.partition(": ")
    found = globals().get(name)
    if isinstance(found, type) and issubclass(found, HoldfastError):
        return found(message)
    return HoldfastError(report)
