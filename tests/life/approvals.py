"""A type and what it was renamed to: payloads that fit the one don't fit the other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Approval:
    manager: str


@dataclass
class Renamed:
    by: str
