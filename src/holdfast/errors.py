"""Every error a user can meet. Each names the thing, says what was expected and ends with what to do.

Exception
└─ HoldfastError
   ├─ DefinitionError                     a declaration that can't work; raised where it is written
   │  ├─ DuplicateWorkflow
   │  ├─ BadDuration (also ValueError)
   │  ├─ BadCursor (also ValueError)
   │  └─ NoSuchStep                       a fork at a step that the run has not asked for
   ├─ MisplacedCall                       a call in the wrong place
   │  ├─ NotInRun                         a workflow or a durable function outside any run
   │  ├─ NotInBody                        what only a body may call, such as a wait, inside a step
   │  ├─ IOInBody                         I/O, a thread or a client call inside a body
   │  └─ NeverAwaited                     a durable call whose result nobody looked at
   ├─ CodecError                          a value that can't be stored or read back
   │  ├─ BadArguments (also TypeError)    refused at start or at the call, never in the worker
   │  ├─ NotEncodable (also TypeError)
   │  ├─ NotDecodable (also ValueError)
   │  │  └─ MissingCode                   the code here lacks a class that the value or its annotation names
   │  ├─ PayloadTooLarge (also ValueError)
   │  └─ BadPayload (also ValueError)
   ├─ StoreError                          something about the database
   │  ├─ StoreAway                        it can't be reached: work pauses, nothing is lost
   │  ├─ StoreTooNew                      its schema was written by a newer version
   │  ├─ StoreClosed (also ClientClosed)  the store is not open, or was closed
   │  └─ LeaseLost
   ├─ UnknownWorkflow, RunNotFound, KeyTaken, RunEnded, NotRetryable, ClientClosed
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

from typing import Any

from holdfast.durations import EXPECTED, Duration, read_duration


class HoldfastError(Exception):
    """The root of everything Holdfast raises on purpose.

    Its message names the thing, says what was expected and ends with what to do. Errors of your own code, and of a
    driver whose connection you passed in, are not translated.
    """


class _AboutRun(HoldfastError):
    """An error about a certain run, with its id."""

    def __init__(self, message: str, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class DefinitionError(HoldfastError):
    """A workflow, step, retry policy or option was declared in a way that can't work.

    Raised where it is written, before anything has happened: at import, or when a worker or client is made.
    """


class DuplicateWorkflow(DefinitionError):
    """Two different workflows were given under one name and version.

    Rename one, or give it another `version=`: a journal knows its workflow by these two.
    """


class BadDuration(DefinitionError, ValueError):
    """A value is not a duration: expected text such as "1h30m", seconds, or a timedelta.

    Also raised where a moment is expected, for a datetime without a zone or out of range.
    """


class BadCursor(DefinitionError, ValueError):
    """A value is not a cursor: expected the `next` of an earlier page."""


class NoSuchStep(DefinitionError):
    """The run never asked for the step at which it is to be forked, or ended in the very turn that asked for it.

    `client.journal(run_id)` and `holdfast journal` show the keys of the steps that it has asked for.
    """


class MisplacedCall(HoldfastError):
    """A call was made where it can't work, such as a blocking call inside a running event loop.

    The classes derived from this one say more.
    """


class NotInRun(MisplacedCall):
    """A workflow or durable function was called outside any run.

    Start a workflow with `client.start` or `holdfast.run`, or call the function inside a body. A step may be called
    anywhere: outside a run it is just the function.
    """


class NotInBody(MisplacedCall):
    """A call that only a workflow body may make, such as a durable wait, was made from inside a step.

    Make it in the body, before or after the step.
    """


class IOInBody(MisplacedCall):
    """A workflow body tried to do I/O or to leave its deterministic loop. Move that into a step.

    It blocks the run and can't be caught by the body: nothing is lost, and the run goes on with fixed code. I/O through
    asyncio is always refused; files, sockets, threads, subprocesses and `time.sleep` are refused in tests and under
    `holdfast dev`.
    """


class NeverAwaited(MisplacedCall):
    """A durable call was made and nobody ever looked at its result.

    It blocks the run when its body ends, and names the line: write `await`, or look at the Pending. The run goes on
    with fixed code.
    """


class CodecError(HoldfastError):
    """A value could not be turned into stored bytes or back."""


class BadArguments(CodecError, TypeError):
    """Arguments that don't fit the function's signature or annotations.

    `client.start` raises it before anything is written. In a body the call raises it.
    """


class NotEncodable(CodecError, TypeError):
    """A value that can't be stored. The message says where it is and of which type, or what it raised when it was read.

    Annotate it with a type that can be stored (dataclasses, pydantic, msgspec, attrs, plain data), or return something
    simpler. A step whose result can't be stored fails and is not retried: it would do its work a second time.
    """


class NotDecodable(CodecError, ValueError):
    """Stored bytes that don't fit the annotation by which they are read. It blocks a run whose types have changed: give
    new fields a default, or deploy types that fit."""


class MissingCode(NotDecodable):
    """Stored bytes that need a class which the code here lacks: import or define it where the worker starts."""


class PayloadTooLarge(CodecError, ValueError):
    """A value whose encoding is larger than the limit: 4 MiB unless `max_payload` says otherwise. Store large data
    elsewhere and pass its address."""


class StoreError(HoldfastError):
    """Something about the database. The message says what to check: a password, a right, a schema to migrate."""


class StoreAway(StoreError):
    """The database can't be reached, is read-only or is full. Work pauses and goes on when it is back.

    Workers wait by themselves. A client's call may have taken effect or not. It may be made again: that is safe for a
    start with a `key` and for a message with a `message_id`.
    """


class StoreTooNew(StoreError):
    """The database's schema is newer than this version of Holdfast can work with. Nothing was changed.

    Deploy the newer version here, too.
    """


class LeaseLost(StoreError):
    """This worker no longer owns the runs that it works on: others have taken them over, or may do so at any time.

    The worker drops them at once. Nothing of a refused turn was written.
    """


class UnknownWorkflow(HoldfastError):
    """No worker has ever registered a workflow of that name; or the worker that is to drive a run does not serve it.

    If a start by name raises it, start a worker that has the workflow, or give the function instead of its name. If a
    drive raises it, give its worker the run's workflow, in the run's version, and the run's queue.
    """


class RunNotFound(HoldfastError):
    """There is no run with that id or key in this namespace.

    It was never started, or was removed after its retention, or is in another namespace or database.
    """


class KeyTaken(_AboutRun):
    """A run with that key exists already, and the start said `on_conflict="raise"`.

    `run_id` is that run. Also raised by a retry whose key another run has taken, and where an id belongs to another
    run.
    """


class RunEnded(HoldfastError):
    """The run has ended already, so it can't be sent a message or paused. Nothing was changed."""


class NotRetryable(_AboutRun):
    """Only a run that failed or was cancelled can be retried.

    A live run goes on by itself. From a completed run, `client.fork` makes another one.
    """


class ClientClosed(HoldfastError):
    """The client was closed, and can't be used any more."""


class StoreClosed(StoreError, ClientClosed):
    """The store is not open: it was never opened, or was closed, perhaps by the client that had opened it. Nothing was
    done."""


class RunFailed(_AboutRun):
    """The run ended as failed. `__cause__` is the exception that left its body.

    Raised by `run.result()`. When the reason is mended, `client.retry(run_id)` goes on from the failed step.
    """


class RunCancelled(_AboutRun):
    """The run ended as cancelled.

    Raised by `run.result()`, and in a body that waits for a child that was cancelled. It is an Exception, unlike
    CancelledError, which cancels the run in which it is raised. `__cause__` says what could not be compensated, if
    anything.
    """


class JournalDiverged(HoldfastError):
    """The code no longer matches the run's journal. The run is intact; a fixed deploy lets it go on.

    The message says what the journal holds, what the code asked for, and where. Nothing was executed or written. Use
    `holdfast.patched` or a new version to change code under live runs, and `holdfast replay` to try it beforehand.
    """


class JournalLimitReached(HoldfastError):
    """The run's journal has reached its limit: 50,000 inputs unless `@workflow(journal_limit=)` says otherwise.

    There was a warning at 10,000. `continue_as_new` begins a fresh journal; for many items use `holdfast.map`.
    """


class DeadlineExceeded(HoldfastError, TimeoutError):
    """The run did not end before its deadline.

    It was cancelled, its cleanup and its compensations have run, and it ended as failed with this error.
    """


class RunCrashed(HoldfastError):
    """The run took its worker down again and again without progress, and was stopped.

    After `@workflow(max_crashes=)` claims without progress, five by default, none of its steps begins again. Its body
    is advanced once more, because a run that turns out only to wait is innocent. From their second crash on, runs are
    executed one at a time. So a number below three may also stop a run that was merely claimed together with the guilty
    one. Look for what kills the process, such as memory or a native crash; then `client.retry` goes on where it was.
    """


class StepFailed(HoldfastError):
    """A step failed with an exception whose own class can't be rebuilt here.

    `type` is the name of that class, and `traceback` the text of its traceback, which is also added as a note, so that
    printing this error shows both. The body gets it in place of the original exception, on every replay, too.
    """

    def __init__(self, message: str, type: str = "", traceback: str = "") -> None:
        super().__init__(message)
        self.type = type
        self.traceback = traceback


class StepTimeout(HoldfastError, TimeoutError):
    """One attempt of a step took longer than its timeout.

    The step is retried as after any other error. A step in a thread can't be stopped: it goes on, and its result is
    dropped.
    """


class WaitTimeout(HoldfastError, TimeoutError):
    """What a wait waited for did not come in time.

    Not raised if `default=` was given. The wait has taken nothing: a message that comes later is there for the next
    wait.
    """


class NotCompensated(HoldfastError):
    """Something that a run has done could not be undone after it failed or was cancelled.

    All other compensations have run. This error is the cause of the run's error, or a note on it, and names the step:
    somebody has to look.
    """


class AlreadyCompensated(HoldfastError):
    """The run has undone what it had done, so it can't go on where it stopped. Nothing was changed.

    Raised by `client.retry`. Start another run instead.
    """


class HookNotFound(HoldfastError):
    """There is no hook with that token.

    The token is wrong, or its run was removed. Compare the token with the one that was handed out.
    """


class HookUsed(HoldfastError):
    """The hook was resumed before, and can be resumed only once.

    To resume it again with the same `message_id` is no error.
    """


class HookExpired(HoldfastError):
    """The hook has expired.

    The run knows: its `wait()` has raised WaitTimeout.
    """


class BadPayload(CodecError, ValueError):
    """A message's payload does not fit what its receiver expects.

    Raised where it is sent. Nothing was delivered, and the wait or hook is still open for a payload that fits.
    """


class FatalError(HoldfastError):
    """Raise it, or a subclass, in a step to make the step fail at once, whatever its retry policy says."""


class RetryAfter(HoldfastError):
    """Raise it in a step to have the step tried again after `delay`, instead of the delay of its retry policy.

    The attempt counts as after any other error. Raises BadDuration where it is made if `delay` is not a duration.
    """

    def __init__(self, delay: Duration, message: str = "") -> None:
        try:
            read_duration(delay)
        except ValueError as refused:
            raise BadDuration(f"RetryAfter: {delay!r} {refused}; {EXPECTED}") from None
        super().__init__(message or f"retry after {delay}")
        self.delay = delay

    def __reduce__(self) -> tuple[Any, ...]:
        # A process pool pickles it. Unpickling calls the class, by default with `args`, which lack the delay.
        return type(self), (self.delay, *self.args), self.__dict__


class Continued(BaseException):
    """Raised by `continue_as_new` to end the body; another run goes on. Never catch it."""

    def __init__(self, workflow: Any, plain: bytes) -> None:
        super().__init__("continue_as_new() ends this run; let it pass")
        self.workflow = workflow
        self.plain = plain


class Suspended(BaseException):
    """Raised in a body that is being put away, so that it ends. Never catch it."""


def blocking_error(report: str) -> HoldfastError:
    """The error that blocks a run, from the report in its row: "JournalDiverged: …"."""
    name, _, message = report.partition(": ")
    found = globals().get(name)
    if isinstance(found, type) and issubclass(found, HoldfastError):
        return found(message)
    return HoldfastError(report)
