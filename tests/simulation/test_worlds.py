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


@pytest.mark.parametrize("seed", [1269, 1499])
def test_a_cancel_that_comes_unseen_with_a_failure_is_known(seed):
    """A child's, from its parent; and one behind which what the run did is undone."""
    report = run_seed(seed)
    assert report.law is None, str(report)


@pytest.mark.parametrize("seed", [20154, 1198])
def test_a_clock_that_is_set_back_when_a_retry_was_found_due_breaks_no_law(seed):
    """Just before it begins, or while a lapsed lease holds it up."""
    report = run_seed(seed)
    assert report.law is None, str(report)


def test_an_item_of_a_step_that_was_called_off_comes_too_late_when_its_run_was_claimed_again():
    report = run_seed(2434)
    assert report.law is None, str(report)


def test_a_machine_that_is_forked_at_the_step_behind_its_checkpoint_asks_for_that_step_anew():
    report = run_seed(20055)
    assert report.law is None, str(report)


def test_a_chunk_that_takes_longer_than_most_drives_ends_where_there_are_only_drives():
    report = run_seed(21315)
    assert report.law is None, str(report)


def test_a_child_that_is_called_off_while_another_has_its_key_is_claimed_to_be_ended():
    report = run_seed(50328)
    assert report.law is None, str(report)


def test_a_start_that_was_given_up_does_not_arrive_when_its_run_has_come_and_gone():
    report = run_seed(51611)
    assert report.law is None, str(report)


def test_a_retry_of_a_run_that_is_deleted_before_it_begins_keeps_the_seed_of_its_history():
    report = run_seed(70390)
    assert report.law is None, str(report)


def test_a_transactional_step_that_ends_in_a_pause_beside_others_is_recorded_with_what_it_wrote():
    report = run_seed(70155)
    assert report.law is None, str(report)
