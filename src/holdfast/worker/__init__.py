"""Claim runs, take their turns, execute steps, keep the lease, stop in good order."""

from .clock import Alarm, Clock, SystemClock
from .driving import Driven, drive
from .given import checked_middleware, checked_resources, known_workflows, lanes_of, open_resources
from .interrupts import Interrupts
from .plan import Plan
from .session import Session
from .threads import LoopThreads, Threads
from .workers import Worker

__all__ = [
    "Alarm",
    "Clock",
    "Driven",
    "Interrupts",
    "LoopThreads",
    "Plan",
    "Session",
    "SystemClock",
    "Threads",
    "Worker",
    "checked_middleware",
    "checked_resources",
    "drive",
    "known_workflows",
    "lanes_of",
    "open_resources",
]
