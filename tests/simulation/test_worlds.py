"""Hundreds of seeds, each a world of its own: every promise is kept in all of them, and a lot happens there."""

import re

import pytest

from holdfast.testing.simulation import run_seed
from tests.simulation.features import FEATURES

SEEDS = 450
CHUNK = 90
"""So many worlds that the rarest of things happens in one of them."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_promise_is_kept_in_every_world_and_each_thing_happens_in_some(first):
    """A simulation in which nothing happens would keep every promise."""
    broken: list[str] = []
    worlds: dict[str, int] = dict.fromkeys(FEATURES, 0)
    for seed in range(first, first + CHUNK):
        lines: list[str] = []
        report = run_seed(seed, lines.append)
        if report.law is not None:
            broken.append(str(report))
        text = "\n".join(lines)
        for what, (pattern, _) in FEATURES.items():
            worlds[what] += re.search(pattern, text, re.MULTILINE) is not None
    assert not broken, "\n\n".join(broken)
    rare = {what: f"{worlds[what]} of {CHUNK} worlds" for what, (_, least) in FEATURES.items() if worlds[what] < least}
    assert not rare


ONCE_BROKEN = {
    1269: "a child's cancel that comes unseen with its failure is known",
    1499: "so is one behind which what the run did is undone",
    20154: "a clock is set back just before a retry begins that was found due",
    1198: "a clock is set back while a lapsed lease holds up a retry that was found due",
    2434: "an item of a step that was called off comes too late when its run was claimed again",
    20055: "a machine that is forked at the step behind its checkpoint asks for that step anew",
    21315: "a chunk that takes longer than most drives ends where there are only drives",
    50328: "a child that is called off while another has its key is claimed to be ended",
    51611: "a start that was given up does not arrive when its run has come and gone",
    70390: "a retry of a run that is deleted before it begins keeps the seed of its history",
    70155: "a transactional step that ends in a pause beside others is recorded with what it wrote",
    80562: "a timer that a fork takes over has not fired before it was due, though a clock was set back in between",
    91541: "what a run had not read goes with it when it is deleted before its retry begins",
    82534: "two events that one try publishes in a row are told apart",
    230352: "a timeout behind which a run is forked fires in the fork, though it would have begun anew there",
    111715: "a fork that shares a cancel from before its run began undoes things in its first turn",
    32917: "a start whose answer was lost is not asked for again when its run has been swept",
    9100174: "a claim that is answered when its worker has given everything back begins nothing there",
    96973: "a step that the next try asks for again has its items replaced, also if it never ends there",
}
"""Worlds in which a promise was broken, or taken to be, and what is true of them now."""


@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_a_world_in_which_a_promise_was_broken_keeps_them_all(seed):
    report = run_seed(seed)
    assert report.law is None, f"{ONCE_BROKEN[seed]}: {report}"
