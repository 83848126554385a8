"""The record of one check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing is broken."""
    MEND = "mend"
    """Something doesn't work, or won't."""


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked, what was found, and what to do about it."""

    name: str
    state: State
    told: str
    advice: str | None = None


def fine(name: str, told: str) -> Check:
    return Check(name, State.OK, told)


def note(name: str, told: str, advice: str | None = None) -> Check:
    return Check(name, State.NOTE, told, advice)


def mend(name: str, told: str, advice: str | None = None) -> Check:
    return Check(name, State.MEND, told, advice)
