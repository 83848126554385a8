"""Entries: what is written comes back, and a journal that was cut means what its run may keep."""

from __future__ import annotations

import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import (
    Blocked,
    Cancel,
    Checkpoint,
    Claimed,
    Ended,
    Former,
    RunRetrying,
    Signal,
    Started,
    StepAsked,
    StepCompleted,
    StepFailed,
    StepRetrying,
    Stopped,
    TimerFired,
    decode_entries,
    encode_entries,
    history_of,
    open_steps,
    skipped,
)

at = st.integers(0, 2**62)
key = st.sampled_from(["a", "b", "c", "d", "e:1", "ö\0"])
blob = st.binary(max_size=20)
attempt = st.integers(1, 10_000)

INPUTS = {
    "started": st.builds(Started, at, blob),
    "step_retrying": st.builds(StepRetrying, at, key, attempt, blob, at, at, st.none() | blob),
    "step_completed": st.builds(StepCompleted, at, key, attempt, blob),
    "step_failed": st.builds(StepFailed, at, key, attempt, blob),
    "timer_fired": st.builds(TimerFired, at, st.integers(0, 10_000)),
    "cancel": st.builds(Cancel, at, st.none() | st.text(max_size=5), st.booleans()),
}
OTHERS = {
    "step_asked": st.builds(StepAsked, key, blob, st.none() | blob),
    "blocked": st.builds(Blocked, at, st.integers(0, 3)),
    "claimed": st.builds(Claimed, at, st.text(max_size=5)),
    "run_retrying": st.builds(RunRetrying, at, attempt, blob, at, at),
    "ended": st.builds(Ended, at, st.sampled_from(["completed", "failed", "cancelled"]), st.none() | blob, st.none()),
}
KINDS = INPUTS | OTHERS
entries = st.lists(st.one_of(*KINDS.values()), max_size=30)
plain = st.lists(
    st.one_of(*(KINDS[one] for one in KINDS if one not in ("run_retrying", "blocked", "claimed", "ended"))), max_size=30
)
retrying = KINDS["run_retrying"]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_an_entry_of_every_kind_comes_back_as_it_was(kind, data):
    entry = data.draw(KINDS[kind])
    (back,) = decode_entries(encode_entries([entry]))
    assert back == entry
    assert type(back) is type(entry)
    assert back.kind == kind


@given(entries)
def test_a_turn_comes_back_in_order(some):
    assert decode_entries(encode_entries(some)) == some


@pytest.mark.parametrize(
    ("entry", "stored"),
    [
        (Started(1, b"s"), ["started", 1, b"s"]),
        (StepAsked("k", b"d"), ["step_asked", "k", b"d", None]),
        (StepRetrying(1, "k", 2, b"e", 3, 4), ["step_retrying", 1, "k", 2, b"e", 3, 4, None]),
        (StepCompleted(1, "k", 2, b"r"), ["step_completed", 1, "k", 2, b"r"]),
        (StepFailed(1, "k", 2, b"e"), ["step_failed", 1, "k", 2, b"e", None]),
        (TimerFired(1, 2), ["timer_fired", 1, 2]),
        (Cancel(1), ["cancel", 1, None, False]),
        (Claimed(1, "w"), ["claimed", 1, "w"]),
        (Blocked(1, 2), ["blocked", 1, 2]),
        (RunRetrying(1, 2, b"e", 3, 4), ["run_retrying", 1, 2, b"e", 3, 4, None, [], [], [], False]),
        (
            RunRetrying(1, 0, b"e", 1, 1, Former("r1", 5, 6, None, "t"), ("kid",), ("hook",)),
            ["run_retrying", 1, 0, b"e", 1, 1, ["r1", 5, 6, None, "t"], ["kid"], ["hook"], [], False],
        ),
        (Ended(1, "completed", b"o"), ["ended", 1, "completed", b"o", None, []]),
        (Ended(1, "failed", None, b"e", hooks=("hook",)), ["ended", 1, "failed", None, b"e", ["hook"]]),
        (
            Stopped(1, "cancelled", None, None, "why", ("a step",), True),
            ["stopped", 1, "cancelled", None, None, "why", ["a step"], True, []],
        ),
    ],
    ids=lambda one: one.kind if isinstance(one, msgspec.Struct) else "",
)
def test_the_stored_form_is_this_one(entry, stored):
    """Journals outlive releases: a field may be added at the end with a default, and nothing else may change."""
    assert msgspec.msgpack.decode(encode_entries([entry])) == [stored]


def test_an_entry_with_a_field_that_came_later_can_still_be_read():
    assert decode_entries(msgspec.msgpack.encode([["timer_fired", 1, 2, "new"]])) == [TimerFired(1, 2)]


def test_an_entry_without_the_optional_fields_can_be_read():
    assert decode_entries(msgspec.msgpack.encode([["cancel", 1]])) == [Cancel(1)]
    retrying = RunRetrying(1, 0, b"e", 1, 1, Former("r1", 5, 6, None))
    stored = ["run_retrying", 1, 0, b"e", 1, 1, ["r1", 5, 6, None]]
    assert decode_entries(msgspec.msgpack.encode([stored])) == [retrying]


@pytest.mark.parametrize("data", [b"", b"\xff", msgspec.msgpack.encode([["no_such_kind", 1]])])
def test_bytes_that_are_no_journal_are_refused(data):
    with pytest.raises(msgspec.MsgspecError):
        decode_entries(data)


@given(plain)
def test_without_a_retry_everything_counts(some):
    history = history_of(some)
    assert (history.entries, history.carried, history.retrying) == (some, [], None)


@given(plain, st.lists(KINDS["claimed"] | KINDS["ended"], max_size=5), st.randoms())
def test_claims_and_the_end_do_not_count(some, noise, dice):
    mixed = list(some)
    for one in noise:
        mixed.insert(dice.randint(0, len(mixed)), one)
    assert history_of(mixed).entries == some


@given(plain, retrying)
def test_the_failure_that_caused_a_retry_is_not_kept_after_its_cut(some, again):
    history = history_of([*some, again])
    assert history.retrying == again
    failures = [one for one in some if isinstance(one, StepFailed)]
    if failures and not any(isinstance(one, Cancel) for one in some):
        assert failures[-1] not in history.entries[len(some) :]
        assert [one for one in history.entries if isinstance(one, StepFailed)] == failures[:-1]


@given(plain, retrying)
def test_a_cancel_is_never_kept(some, again):
    assert not any(isinstance(one, Cancel) for one in history_of([*some, again]).entries)


@given(plain, retrying)
def test_a_cut_keeps_the_entries_before_it_in_order_except_attempts_of_the_failed_step(some, again):
    kept = history_of([*some, again]).entries
    rest = iter(some)
    assert all(any(one is other for other in rest) for one in kept)
    left_out = [one for one in some[: len(kept)] if not any(one is other for other in kept)]
    assert all(isinstance(one, StepRetrying | StepFailed | Cancel) or not kept for one in left_out[:1])


@given(plain, retrying)
def test_results_carried_over_the_cut_are_results_of_steps_asked_before_it(some, again):
    history = history_of([*some, again])
    asked = {one.key for one in history.entries if isinstance(one, StepAsked)}
    for one in history.carried:
        assert isinstance(one, TimerFired | StepCompleted)
    if any(isinstance(one, StepFailed | Cancel) for one in some):
        assert all(isinstance(one, StepCompleted) and one.key in asked for one in history.carried)


@given(plain, retrying, plain.filter(bool))
def test_after_the_retry_has_begun_the_journal_goes_on_from_the_cut(some, again, later):
    cut = history_of([*some, again])
    history = history_of([*some, again, *later])
    assert (history.entries, history.retrying) == (cut.entries + later, None)
    assert history.carried == [one for one in cut.carried if not any(ends_the_same(one, other) for other in later)]


@given(plain, retrying, retrying)
def test_a_second_retry_without_anything_between_cuts_what_the_first_left(some, first, second):
    once = history_of([*some, first])
    twice, cut = history_of([*some, first, second]), history_of([*once.entries, second])
    assert twice.entries == cut.entries
    assert all(one in twice.carried or isinstance(one, StepCompleted) for one in cut.carried)


def ends_the_same(one, other):
    if isinstance(one, TimerFired):
        return isinstance(other, TimerFired) and other.timer == one.timer
    return isinstance(other, StepCompleted | StepFailed | StepRetrying) and other.key == one.key


def test_a_run_is_cut_at_its_last_failure():
    some = [
        Started(1, b"s"), StepAsked("a", b""), StepFailed(2, "a", 1, b"x"), StepAsked("b", b""),
        StepRetrying(3, "b", 1, b"y", 4, 3), StepFailed(5, "b", 2, b"y"), RunRetrying(5, 1, b"y", 6, 1),
    ]  # fmt: skip
    assert history_of(some).entries == some[:4]


def test_a_sibling_that_ended_after_the_failure_is_carried():
    result = StepCompleted(3, "b", 1, b"r")
    some = [Started(1, b"s"), StepAsked("a", b""), StepAsked("b", b""), StepFailed(2, "a", 1, b"x"), result]
    assert history_of([*some, RunRetrying(4, 1, b"x", 5, 1)]).carried == [result]


def test_a_new_try_costs_the_same_however_many_there_were():
    def calls(count: int) -> int:
        some = [Started(1, b"s"), StepAsked("a", b"")]
        for number in range(count):
            some += [StepFailed(number, "a", 1, b"x"), RunRetrying(number, number + 1, b"x", number, 1)]
        made: list[int] = []
        sys.setprofile(lambda *_: made.append(1))
        try:
            history = history_of(some)
        finally:
            sys.setprofile(None)
        assert [place for place, _ in history.lives] == [2] * count
        return len(made)

    assert calls(400) < 3 * calls(200)


def test_a_life_begins_where_a_later_cut_left_it():
    some = [
        Started(1, b"s"), StepAsked("a", b""), StepCompleted(2, "a", 1, b"r"), StepAsked("b", b""),
        StepFailed(3, "b", 1, b"x"), RunRetrying(3, 1, b"x", 3, 1), RunRetrying(4, 2, b"x", 4, 1),
    ]  # fmt: skip
    assert [place for place, _ in history_of(some[:-1]).lives] == [4]
    assert [place for place, _ in history_of(some).lives] == [2, 2]


def test_a_message_that_is_put_back_costs_the_same_however_many_there_are():
    def calls(count: int) -> int:
        taken = [Signal(3 + number, number, "s", b"%d" % number) for number in range(count)]
        some = [Started(1, b"s"), StepAsked("a", b""), StepFailed(2, "a", 1, b"x"), *taken]
        made: list[int] = []
        sys.setprofile(lambda *_: made.append(1))
        try:
            history = history_of([*some, RunRetrying(count, 1, b"x", count, 1)])
        finally:
            sys.setprofile(None)
        assert history.carried == taken
        return len(made)

    assert calls(400) < 3 * calls(200)


def test_the_open_steps_are_those_without_an_end_in_the_history():
    some = [
        Started(1, b"s"), StepAsked("a", b""), StepAsked("b", b""), StepAsked("c", b""), StepCompleted(2, "a", 1, b""),
        StepFailed(3, "b", 1, b"x"),
    ]  # fmt: skip
    assert open_steps(some) == ["c"]
    assert open_steps([*some, StepCompleted(4, "c", 1, b""), RunRetrying(4, 1, b"x", 5, 1)]) == ["b"]


def test_a_machine_cancelled_by_force_after_a_checkpoint_skips_its_current_state():
    """The rows before the checkpoint are gone, and with them the entry that says that the run has begun."""
    checkpoint = Checkpoint(2, Started(1, b"s"), b"state", {"tick": 100}, 0)
    row = [StepCompleted(2, "tick:99", 1, b""), checkpoint, StepAsked("tick:100", b"")]
    assert skipped([encode_entries(row)], None) == ("step 'tick:100'", "the cleanup of its body")


def test_a_cancelled_run_is_cut_at_its_cancel():
    some = [
        Started(1, b"s"),
        StepAsked("a", b""),
        Cancel(2),
        StepAsked("clean", b""),
        StepCompleted(3, "clean", 1, b""),
    ]
    history = history_of([*some, RunRetrying(4, 1, b"", 4, 1)])
    assert history.entries == some[:2]
    assert history.carried == []


def test_a_body_that_failed_by_itself_takes_its_last_input_in_anew():
    result = StepCompleted(2, "a", 1, b"r")
    history = history_of([Started(1, b"s"), StepAsked("a", b""), result, RunRetrying(3, 1, b"x", 4, 1)])
    assert history.entries == [Started(1, b"s"), StepAsked("a", b"")]
    assert history.carried == [result]


def test_a_body_that_failed_at_its_start_begins_anew():
    assert history_of([Started(1, b"s"), RunRetrying(3, 1, b"x", 4, 1)]).entries == []


BEFORE = [Started(1, b"s"), StepAsked("a", b""), StepAsked("b", b"")]
A, B = StepCompleted(2, "a", 1, b"r"), StepCompleted(3, "b", 1, b"r")


def test_a_result_kept_for_a_blocked_body_is_not_replayed():
    history = history_of([*BEFORE, Blocked(2, 1), A])
    assert (history.entries, history.carried, history.retrying) == (BEFORE, [A], None)


@pytest.mark.parametrize("result", [A, StepFailed(2, "a", 1, b"x"), StepRetrying(2, "a", 1, b"x", 9, 1)])
def test_the_outcome_of_any_attempt_is_kept_for_a_blocked_body(result):
    assert history_of([*BEFORE, Blocked(2, 1), result]).carried == [result]


def test_results_are_kept_in_the_order_in_which_they_came():
    assert history_of([*BEFORE, Blocked(2, 2), B, A]).carried == [B, A]


def test_results_that_came_at_several_tries_add_up():
    assert history_of([*BEFORE, Blocked(2, 1), A, Claimed(3, "w"), Blocked(3, 1), B]).carried == [A, B]


def test_entries_after_the_kept_results_count_as_usual():
    fired = TimerFired(4, 0)
    assert history_of([*BEFORE, Blocked(2, 1), A, fired]).entries == [*BEFORE, fired]


def test_a_kept_result_that_was_delivered_is_kept_no_more():
    history = history_of([*BEFORE, Blocked(2, 1), A, A, StepAsked("c", b"")])
    assert (history.entries, history.carried) == ([*BEFORE, A, StepAsked("c", b"")], [])


def test_the_end_of_a_retried_step_takes_the_place_of_its_kept_failure():
    failed = StepRetrying(2, "a", 1, b"x", 9, 1)
    assert history_of([*BEFORE, Blocked(2, 1), failed, failed, A]).carried == []


def test_a_kept_result_outlasts_a_retry_of_the_run():
    failed = StepFailed(3, "b", 1, b"x")
    history = history_of([*BEFORE, Blocked(3, 2), failed, A, failed, RunRetrying(4, 1, b"x", 5, 1)])
    assert (history.entries, history.carried) == (BEFORE, [A])


def test_a_kept_failure_does_not_outlast_a_retry_of_the_run():
    failed = StepFailed(3, "b", 1, b"x")
    assert history_of([*BEFORE, Blocked(3, 1), failed, A, RunRetrying(4, 1, b"x", 5, 1)]).carried == [A]


def test_a_result_carried_over_one_retry_is_carried_over_the_next():
    first, second = RunRetrying(4, 1, b"x", 5, 1), RunRetrying(6, 2, b"x", 7, 1)
    failed = StepFailed(2, "b", 1, b"x")
    assert history_of([*BEFORE, failed, A, first, failed, second]).carried == [A]
