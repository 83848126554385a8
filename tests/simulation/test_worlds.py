"""Hundreds of seeds, each a world of its own: every promise is kept in all of them."""

import pytest

from holdfast.testing.simulation import run_seed

SEEDS = 450
CHUNK = 30


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_promise_is_kept_in_every_world(first):
    broken = [str(report) for report in map(run_seed, range(first, first + CHUNK)) if report.law is not None]
    assert not broken, "\n\n".join(broken)


def test_worlds_are_full_of_trouble():
    """A simulation in which nothing happens would keep every promise."""
    lines: list[str] = []
    for seed in range(40):
        run_seed(seed, lines.append)
    text = "\n".join(lines)
    for event in (
        "dies before",
        "dies after",
        "dies at an await",
        "dies killed by its step",
        "its answer is lost",
        "sent twice",
        "the store goes away",
        "stalls",
        "has lost its lease",
        "over, epoch",
        "refused",
        "clock jumps",
        "by force",
        "client retries",
        "the bad code is deployed",
        "row: waiting, released, blocked",
        "step_retrying",
        "run_retrying",
        "timer_fired",
        "is cancelled",
        "has stopped",
        "signals",
        ": duplicate",
        "resumes a hook",
        "goes on in",
        "begins its child",
        "child_ended",
        "/undo",
        " pauses ",
        " resumes ",
        " deletes ",
        " books",
        "begins a chunk",
        "/odd attempt",
    ):
        assert event in text, f"nowhere: {event}"
