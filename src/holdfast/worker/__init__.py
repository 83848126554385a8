"""Claim runs, take their turns, execute steps, keep the lease, stop in good order."""

from .clock import Alarm, Clock, SystemClock
from .session import Plan, Session
from .workers import Worker

__all__ = ["Alarm", "Clock", "Plan", "Session", "SystemClock", "Worker"]
