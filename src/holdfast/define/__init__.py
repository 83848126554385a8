"""@workflow, @step, and the functions that a body may call.

They reach the engine through one contextvar, never by import.
"""

from .changes import continue_as_new, patched
from .children import ChildRun
from .chunk_runs import CHUNK_RUNS, ChunkRuns, Unseen, asked_of
from .chunks import Pace, async_chunk, blocking_chunk, caught, chunked
from .covered import covered, wrong_workflow
from .defaults import filled
from .failures import pause_after
from .logs import HouseLogger, logger
from .machines import Context, Done, Machine, Next, State, said_by, state_of
from .maps import Failure, OfOne, map, mapped
from .messages import emit, publish, set_value, signal
from .pending import Pending, Reply
from .resources import Resource, resource
from .scope import (
    Body,
    RunInfo,
    StepInfo,
    body_for,
    current_run,
    current_scope,
    current_step,
    is_body,
)
from .shields import compensate, rollback, shield
from .steps import AsyncStep, BlockingStep, Step, call, inline_step, make_step, named_in, step
from .timers import now, rng, sleep, sleep_until, uuid4
from .waits import Hook, NoClass, checked_wait, hook, wait_for_event, wait_for_signal
from .workflows import AsyncWorkflow, BlockingWorkflow, StartOptions, Workflow, refuse_in_body, workflow

__all__ = [
    "CHUNK_RUNS",
    "AsyncStep",
    "AsyncWorkflow",
    "BlockingStep",
    "BlockingWorkflow",
    "Body",
    "ChildRun",
    "ChunkRuns",
    "Context",
    "Done",
    "Failure",
    "Hook",
    "HouseLogger",
    "Machine",
    "Next",
    "NoClass",
    "OfOne",
    "Pace",
    "Pending",
    "Reply",
    "Resource",
    "RunInfo",
    "StartOptions",
    "State",
    "Step",
    "StepInfo",
    "Unseen",
    "Workflow",
    "asked_of",
    "async_chunk",
    "blocking_chunk",
    "body_for",
    "call",
    "caught",
    "checked_wait",
    "chunked",
    "compensate",
    "continue_as_new",
    "covered",
    "current_run",
    "current_scope",
    "current_step",
    "emit",
    "filled",
    "hook",
    "inline_step",
    "is_body",
    "logger",
    "make_step",
    "map",
    "mapped",
    "named_in",
    "now",
    "patched",
    "pause_after",
    "publish",
    "refuse_in_body",
    "resource",
    "rng",
    "rollback",
    "said_by",
    "set_value",
    "shield",
    "signal",
    "sleep",
    "sleep_until",
    "state_of",
    "step",
    "uuid4",
    "wait_for_event",
    "wait_for_signal",
    "workflow",
    "wrong_workflow",
]
