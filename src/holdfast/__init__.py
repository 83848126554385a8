"""Holdfast: durable execution for Python. Write a long-running process as a plain function; it survives crashes.

    @holdfast.step                      # real work: its result is recorded once
    async def charge(card: str) -> str: ...

    @holdfast.workflow                  # decides which steps to take; goes on where it was after a crash
    async def checkout(card: str) -> str:
        return await charge(card)

    holdfast.run(checkout, "4242", key="order-1")

`run` is all that a script needs. Otherwise a `Worker` executes runs, and a `Client` or `AsyncClient` starts and watches
them. `holdfast.testing` is for tests, `holdfast.observe` for metrics and traces, `holdfast.web` for HTTP.

The parts of the package, from the top layer to the bottom; each imports only from those below it:

    cli                 the command
    testing             the test kit, which the command uses, too: replay, and the guards of `holdfast dev`
    web  script         runs over HTTP: REST, and driving them / holdfast.run: client and worker in one call
    worker  client      take turns / start, watch and manage runs; they meet only in the store
    engine              one run, one turn: sans-IO
    observe             what happens, told to metrics, traces and logs
    store               where runs live: one contract, SQLite and Postgres behind it
    blocking  discovery the durable functions, typed for `def` bodies / finding workflows in modules and folders
    define              @workflow, @step, and what a body may call
    codec  settings     values and exceptions as stored bytes / where settings come from
    model               frozen records and pure rules
    extras              optional packages, loaded when something needs them
    errors              every error a user can meet
    durations           what a user may write for a duration
"""

from holdfast import blocking
from holdfast.client import AsyncClient, AsyncRun, Client, Run, StreamItem
from holdfast.codec import AesGcm, Codec, Zstd
from holdfast.define import (
    ChildRun,
    Done,
    Failure,
    Hook,
    Machine,
    Next,
    Pending,
    RunInfo,
    StepInfo,
    call,
    compensate,
    continue_as_new,
    current_run,
    current_step,
    emit,
    hook,
    logger,
    map,
    now,
    patched,
    publish,
    resource,
    rng,
    rollback,
    set_value,
    shield,
    signal,
    sleep,
    sleep_until,
    step,
    uuid4,
    wait_for_event,
    wait_for_signal,
    workflow,
)
from holdfast.errors import (
    AlreadyCompensated,
    BadArguments,
    BadCursor,
    BadDuration,
    BadPayload,
    ClientClosed,
    CodecError,
    DeadlineExceeded,
    DefinitionError,
    DuplicateWorkflow,
    FatalError,
    HoldfastError,
    HookExpired,
    HookNotFound,
    HookUsed,
    IOInBody,
    JournalDiverged,
    JournalLimitReached,
    KeyTaken,
    LeaseLost,
    MisplacedCall,
    MissingCode,
    NeverAwaited,
    NoSuchStep,
    NotCompensated,
    NotDecodable,
    NotEncodable,
    NotInBody,
    NotInRun,
    NotRetryable,
    PayloadTooLarge,
    RetryAfter,
    RunCancelled,
    RunCrashed,
    RunEnded,
    RunFailed,
    RunNotFound,
    StepFailed,
    StepTimeout,
    StoreAway,
    StoreClosed,
    StoreError,
    StoreTooNew,
    UnknownWorkflow,
    WaitTimeout,
)
from holdfast.model import Page, Retry, RunFilter, RunStatus
from holdfast.script import run
from holdfast.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "AesGcm",
    "AlreadyCompensated",
    "AsyncClient",
    "AsyncRun",
    "BadArguments",
    "BadCursor",
    "BadDuration",
    "BadPayload",
    "ChildRun",
    "Client",
    "ClientClosed",
    "Codec",
    "CodecError",
    "DeadlineExceeded",
    "DefinitionError",
    "Done",
    "DuplicateWorkflow",
    "Failure",
    "FatalError",
    "HoldfastError",
    "Hook",
    "HookExpired",
    "HookNotFound",
    "HookUsed",
    "IOInBody",
    "JournalDiverged",
    "JournalLimitReached",
    "KeyTaken",
    "LeaseLost",
    "Machine",
    "MisplacedCall",
    "MissingCode",
    "NeverAwaited",
    "Next",
    "NoSuchStep",
    "NotCompensated",
    "NotDecodable",
    "NotEncodable",
    "NotInBody",
    "NotInRun",
    "NotRetryable",
    "Page",
    "PayloadTooLarge",
    "Pending",
    "Retry",
    "RetryAfter",
    "Run",
    "RunCancelled",
    "RunCrashed",
    "RunEnded",
    "RunFailed",
    "RunFilter",
    "RunInfo",
    "RunNotFound",
    "RunStatus",
    "StepFailed",
    "StepInfo",
    "StepTimeout",
    "StoreAway",
    "StoreClosed",
    "StoreError",
    "StoreTooNew",
    "StreamItem",
    "UnknownWorkflow",
    "WaitTimeout",
    "Worker",
    "Zstd",
    "blocking",
    "call",
    "compensate",
    "continue_as_new",
    "current_run",
    "current_step",
    "emit",
    "hook",
    "logger",
    "map",
    "now",
    "patched",
    "publish",
    "resource",
    "rng",
    "rollback",
    "run",
    "set_value",
    "shield",
    "signal",
    "sleep",
    "sleep_until",
    "step",
    "uuid4",
    "wait_for_event",
    "wait_for_signal",
    "workflow",
]
