"""Holdfast: durable execution for Python. Write a long-running process as a plain function; it survives crashes.

The house, from the street to the cellar; imports point down only:

    cli  testing        what people run
    script              holdfast.run: client and worker in one call
    worker  client      take turns / start, watch and manage runs; they meet only in the store
    engine              one run, one turn: sans-IO
    store               where runs live: one contract, SQLite behind it
    blocking  discovery the durable functions, typed for `def` bodies / finding workflows in modules and folders
    define              @workflow, @step, and what a body may call
    codec  settings     values and exceptions as stored bytes / where settings come from
    model               frozen records and pure rules
    extras              optional packages, loaded when something needs them
    errors              every error a user can meet
"""

from holdfast import blocking
from holdfast.client import AsyncClient, AsyncRun, Client, Run
from holdfast.codec import AesGcm, Codec, Zstd
from holdfast.define import (
    Pending,
    RunInfo,
    StepInfo,
    call,
    current_run,
    current_step,
    logger,
    now,
    resource,
    rng,
    sleep,
    sleep_until,
    step,
    uuid4,
    workflow,
)
from holdfast.errors import (
    BadArguments,
    BadDuration,
    ClientClosed,
    CodecError,
    DeadlineExceeded,
    DefinitionError,
    DuplicateWorkflow,
    FatalError,
    HoldfastError,
    IOInBody,
    JournalDiverged,
    JournalLimitReached,
    KeyTaken,
    LeaseLost,
    MisplacedCall,
    NeverAwaited,
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
    "AsyncClient",
    "AsyncRun",
    "BadArguments",
    "BadDuration",
    "Client",
    "ClientClosed",
    "Codec",
    "CodecError",
    "DeadlineExceeded",
    "DefinitionError",
    "DuplicateWorkflow",
    "FatalError",
    "HoldfastError",
    "IOInBody",
    "JournalDiverged",
    "JournalLimitReached",
    "KeyTaken",
    "LeaseLost",
    "MisplacedCall",
    "NeverAwaited",
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
    "StoreError",
    "StoreTooNew",
    "UnknownWorkflow",
    "WaitTimeout",
    "Worker",
    "Zstd",
    "blocking",
    "call",
    "current_run",
    "current_step",
    "logger",
    "now",
    "resource",
    "rng",
    "run",
    "sleep",
    "sleep_until",
    "step",
    "uuid4",
    "workflow",
]
