"""Observe: what happens, as typed facts, and what is made of them: metrics, traces, log records.

A worker and a client hand facts to the observers they were given, and know nothing of what those do. This is the only
room that knows of Prometheus and OpenTelemetry, and it loads them when somebody asks for them, never before.
"""

from .chosen import observers_of
from .facts import (
    Fact,
    Load,
    MessageSent,
    MessageTaken,
    RowsWritten,
    RunBlocked,
    RunEnded,
    RunLost,
    RunReplayed,
    RunRetrying,
    RunsClaimed,
    RunsStarted,
    RunsSwept,
    StepEnd,
    StepEnded,
    StepStatus,
    TurnsCommitted,
    WorkerBegan,
    WorkerEnded,
    WorkerLost,
)
from .logs import JsonFormatter, LogContext
from .observers import Observer, Observers, checked_observers
from .prometheus import Prometheus
from .tracing import Tracing

__all__ = [
    "Fact",
    "JsonFormatter",
    "Load",
    "LogContext",
    "MessageSent",
    "MessageTaken",
    "Observer",
    "Observers",
    "Prometheus",
    "RowsWritten",
    "RunBlocked",
    "RunEnded",
    "RunLost",
    "RunReplayed",
    "RunRetrying",
    "RunsClaimed",
    "RunsStarted",
    "RunsSwept",
    "StepEnd",
    "StepEnded",
    "StepStatus",
    "Tracing",
    "TurnsCommitted",
    "WorkerBegan",
    "WorkerEnded",
    "WorkerLost",
    "checked_observers",
    "observers_of",
]
