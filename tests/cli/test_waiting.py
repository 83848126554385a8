"""What `start --wait` says while the run that it waits for can't end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import holdfast
from holdfast.cli import main, waiting
from holdfast.client import Explanation, Reason
from tests.cli.halving import halve

PATIENCE = 60


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is told; nobody waits for seconds between two looks."""
    told: list[str] = []
    monkeypatch.setattr(waiting, "LOOK", 0.01)
    monkeypatch.setattr(waiting, "print_note", told.append)
    return told


def waits_for(monkeypatch: pytest.MonkeyPatch, notes: list[str], *deeds: Any) -> None:
    """Let the wait go on until something was told, do what is to be done, and so on."""

    def wait(run: holdfast.Run[Any], timeout: float | None = None) -> Any:
        for count, deed in enumerate(deeds, 1):
            for _ in range(PATIENCE * 100):
                if len(notes) >= count:
                    break
                threading.Event().wait(0.01)
            deed(run)
        raise TimeoutError("it has not ended")

    monkeypatch.setattr(holdfast.Run, "wait", wait)


def test_a_wait_without_a_worker_says_so_and_goes_on(client, notes, monkeypatch, capsys):
    holdfast.run(halve, 4, url=client.url)
    waits_for(monkeypatch, notes, lambda run: None)
    assert main(["start", "halve", "--input", "2", "--id", "this-one", "--wait"]) == 1
    assert len(notes) == 1
    assert notes[0].startswith("holdfast: still waiting: run this-one")
    assert "no worker" in notes[0]
    assert notes[0].endswith("`holdfast why this-one` says more")


def test_a_wait_reports_when_its_reason_changes(client, notes, monkeypatch, capsys):
    holdfast.run(halve, 4, url=client.url)
    waits_for(monkeypatch, notes, lambda run: client.pause(run.id), lambda run: None)
    assert main(["start", "halve", "--input", "2", "--wait"]) == 1
    assert ["no worker" in notes[0], "paused" in notes[1]] == [True, True]


@pytest.mark.parametrize("reason", [Reason.NO_WORKER, Reason.BLOCKED, Reason.PAUSED])
def test_a_wait_reports_the_same_reason_once(reason):
    told = waiting.Notes()
    found = Explanation("r", reason, "run r is stopped.\nAll about it.")
    assert told.news(found) == "holdfast: still waiting: run r is stopped; `holdfast why r` says more"
    assert told.news(found) is None
    assert told.news(Explanation("r", Reason.STEP, "run r waits for a step.")) is None
    assert told.news(found) is not None
