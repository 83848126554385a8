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
   ├─ CodecError
   │  ├─ BadArguments (also TypeError)    refused at start or at the call, never in the worker
   │  ├─ NotEncodable (also TypeError)
   │  ├─ NotDecodable (also ValueError)
   │  ├─ PayloadTooLarge (also ValueError)
   │  └─ BadPayload (also ValueError)
   ├─ StoreError
   │  ├─ StoreAway                        the database can't be reached: work pauses, nothing is lost
   │  ├─ StoreTooNew                      its schema was written by a newer version
   │  ├─ StoreClosed (also ClientClosed)  whoever had opened it has closed it
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

    Its message names the thing, says what was expected and ends with what to do. Errors of your own code and of drivers
    that you brought along come through as they are.
    """


class _AboutRun(HoldfastError):
    """One that is about a certain run, and has its id."""

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
    """What was given is no duration: expected text such as "1h30m", seconds, or a timedelta.

    Also raised for a datetime without a zone, or out of range, where a moment is expected.
    """


class BadCursor(DefinitionError, ValueError):
    """What was given is no cursor: expected the `next` of an earlier page."""


class NoSuchStep(DefinitionError):
    """The run has not asked for the step at which it is to be forked, or has ended in the turn that asked for it.

    `client.journal(run_id)` and `holdfast journal` show the keys that it has asked for.
    """


class MisplacedCall(HoldfastError):
    """A call was made where it can't work.

    A client in a body, a blocking call inside a running event loop, and what stands below.
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

    It blocks the run and never enters the body: nothing is lost, and fixed code goes on. What asyncio would do outside
    is refused always; files, sockets, threads, subprocesses and `time.sleep` in tests and under `holdfast dev`.
    """


class NeverAwaited(MisplacedCall):
    """A durable call was made and nobody ever looked at its result.

    It blocks the run when its body ends, and names the line: write `await`, or look at the Pending. Fixed code goes on.
    """


class CodecError(HoldfastError):
    """A value could not be turned into stored bytes or back."""


class BadArguments(CodecError, TypeError):
    """Arguments that don't fit the function's signature or annotations.

    `client.start` raises it before anything is written; in a body it fails the run where the call stands.
    """


class NotEncodable(CodecError, TypeError):
    """A value that can't be stored; the message holds its type and its path, or what its own code raised when read.

    Annotate it with a type that can (dataclasses, pydantic, msgspec, attrs, plain data), or return something smaller. A
    step whose result can't be stored fails once and is not tried again: it would do its work a second time.
    """


class NotDecodable(CodecError, ValueError):
    """Stored bytes that don't fit the annotation they are read by.

    It blocks a run whose types have changed: give new fields a default, or deploy the types that fit.
    """


class PayloadTooLarge(CodecError, ValueError):
    """A value whose encoding is larger than the limit.

    4 MiB unless `max_payload` says otherwise. Store large data elsewhere and pass its address.
    """


class StoreError(HoldfastError):
    """Something about the database. The message says what to check: a password, a right, a schema to migrate."""


class StoreAway(StoreError):
    """The database can't be reached or is read-only or full. Work pauses and goes on when it is back.

    Workers wait by themselves. A client's call may be made again: what it asked for may have happened or not, so start
    with a `key` and send with a `message_id`.
    """


class StoreTooNew(StoreError):
    """The schema in the database is newer than this version of Holdfast understands.

    Deploy the newer version here, too. Nothing was changed.
    """


class LeaseLost(StoreError):
    """This worker no longer holds what it works on: another one has taken it over, or may do so at any time.

    The worker drops the run at once and goes on with others; nothing of the refused turn was written.
    """


class UnknownWorkflow(HoldfastError):
    """No worker has ever registered a workflow of that name, or the one that is to drive a run does not serve it.

    Raised by starts by name: start a worker that has it, or give the function instead of its name. And by a drive:
    give that worker the run's workflow, in its version, and its queue.
    """


class RunNotFound(HoldfastError):
    """There is no run with that id or key in this namespace.

    It was never started, or is gone after its retention; or the client has another namespace or database.
    """


class KeyTaken(_AboutRun):
    """`on_conflict="raise"`: a run with that key exists already.

    `run_id` is that run. Also raised when a retry's key has gone to another run meanwhile.
    """


class RunEnded(HoldfastError):
    """The run has ended already, so there is nobody to tell.

    Raised by signals, hooks and pauses. Nothing was changed.
    """


class NotRetryable(_AboutRun):
    """Only a run that failed or was cancelled can be retried.

    A live one goes on by itself; of a completed one `client.fork` makes another.
    """


class ClientClosed(HoldfastError):
    """The client was closed, and can't be used any more."""


class StoreClosed(StoreError, ClientClosed):
    """The store is not open: whoever had opened it, such as a client, has closed it. Nothing was done."""


class RunFailed(_AboutRun):
    """The run ended as failed. `__cause__` is the exception that left its body.

    Raised by `run.result()`. `client.retry(run_id)` goes on from the failed step, when its reason is mended.
    """


class RunCancelled(_AboutRun):
    """The run ended as cancelled.

    Raised by `run.result()`, and in a body that waits for a child that was cancelled. It is an Exception, unlike
    CancelledError, which cancels the run that it is raised in. `__cause__` says what could not be undone, if anything.
    """


class JournalDiverged(HoldfastError):
    """The code no longer matches the run's journal. The run is intact; a fixed deploy lets it go on.

    The message says what the journal holds, what the code asked for, and where. Nothing was executed or written. Use
    `holdfast.patched` or another version to change code under live runs, and `holdfast replay` to find out beforehand.
    """


class JournalLimitReached(HoldfastError):
    """The run's journal has reached its limit; `continue_as_new` begins a fresh one.

    50,000 inputs, unless `@workflow(journal_limit=)` says otherwise; there was a warning at 10,000. For many items use
    `holdfast.map`.
    """


class DeadlineExceeded(HoldfastError, TimeoutError):
    """The run did not end before its deadline.

    It was cancelled, its cleanup and its compensations have run, and it ended as failed with this.
    """


class RunCrashed(HoldfastError):
    """The run took its worker down again and again without progress, and was stopped.

    After `@workflow(max_crashes=)` claims from which no progress came, five by default, none of its steps begins again.
    Its body is looked at once more: one that only waits is innocent, and only that tells it from one that kills. Runs
    are executed one at a time from their second crash on, so a number below three may also stop one that was claimed
    together with the guilty one and never came to begin. Look for what kills the process (memory, a native crash); then
    `client.retry` goes on where it was.
    """


class StepFailed(HoldfastError):
    """A step failed with an exception whose own class can't be rebuilt here.

    `type` is the name of that class, `traceback` its text, which is also a note: whoever prints it sees what it was and
    where. It is raised in the body in place of it, on replay, too.
    """

    def __init__(self, message: str, type: str = "", traceback: str = "") -> None:
        super().__init__(message)
        self.type = type
        self.traceback = traceback


class StepTimeout(HoldfastError, TimeoutError):
    """One attempt of a step took longer than its timeout.

    It is retried like any other error. A step in a thread can't be stopped: it goes on, and its result is dropped.
    """


class WaitTimeout(HoldfastError, TimeoutError):
    """What a wait waited for did not come in time.

    Not raised where `default=` was given. The wait has taken nothing: what comes later is there for the next one.
    """


class NotCompensated(HoldfastError):
    """Something that a run has done could not be undone after it failed or was cancelled.

    The others were. It is a cause or a note of the run's error, and names the step: somebody has to look.
    """


class AlreadyCompensated(HoldfastError):
    """The run has undone what it had done, so it can't go on where it stopped.

    Start another one. Raised by `client.retry`; nothing was changed.
    """


class HookNotFound(HoldfastError):
    """There is no hook with that token.

    The token is wrong, or its run is gone. Compare the address that was called with the one handed out.
    """


class HookUsed(HoldfastError):
    """The hook was resumed before; it is delivered once.

    A repeat with the same `message_id` is no error.
    """


class HookExpired(HoldfastError):
    """The hook's time is over.

    The run has been told: its `wait()` raised WaitTimeout.
    """


class BadPayload(CodecError, ValueError):
    """A message's payload does not fit what its receiver expects.

    Raised where it is sent: nothing was delivered, and the wait or the hook is still open for one that fits.
    """


class FatalError(HoldfastError):
    """Raise it (or a subclass) in a step to fail at once, whatever the retry policy says."""


class RetryAfter(HoldfastError):
    """Raise it in a step to be tried again after `delay` instead of the policy's own delay.

    It counts as an attempt like any other error. What is no duration raises BadDuration where it is made.
    """

    def __init__(self, delay: Duration, message: str = "") -> None:
        try:
            read_duration(delay)
        except ValueError as refused:
            raise BadDuration(f"RetryAfter: {delay!r} {refused}; {EXPECTED}") from None
        super().__init__(message or f"retry after {delay}")
        self.delay = delay

    def __reduce__(self) -> tuple[Any, ...]:
        # It may come out of a process pool, which makes it anew by what it is called with.
        return type(self), (self.delay, *self.args), self.__dict__


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
