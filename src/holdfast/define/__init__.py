"""@workflow, @step, and the functions a body may call.

They reach the engine through one contextvar, never by import.
"""

from .logs import logger
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
from .steps import AsyncStep, BlockingStep, Step, call, make_step, step
from .timers import now, rng, sleep, sleep_until, uuid4
from .workflows import AsyncWorkflow, BlockingWorkflow, StartOptions, Workflow, refuse_in_body, workflow

__all__ = [
    "AsyncStep",
    "AsyncWorkflow",
    "BlockingStep",
    "BlockingWorkflow",
    "Body",
    "Pending",
    "Reply",
    "Resource",
    "RunInfo",
    "StartOptions",
    "Step",
    "StepInfo",
    "Workflow",
    "body_for",
    "call",
    "current_run",
    "current_scope",
    "current_step",
    "is_body",
    "logger",
    "make_step",
    "now",
    "refuse_in_body",
    "resource",
    "rng",
    "sleep",
    "sleep_until",
    "step",
    "uuid4",
    "workflow",
]
