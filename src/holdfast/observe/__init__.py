"""Observe: typed facts about what happens, and the metrics, traces and log records made from them.

Workers and clients hand facts to the observers they were given, and know nothing else of them. Only this room knows
Prometheus and OpenTelemetry, and it loads them only when they are asked for.
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
