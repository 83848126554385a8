"""Why is it not moving? Every answer, decided from records alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from holdfast.client import OpenWait, Reason
from holdfast.client.explain import Surroundings, explain
from holdfast.model import (
    Cancel,
    ChildAsked,
    Entry,
    Lane,
    Message,
    Reopened,
    RunRecord,
    RunRetrying,
    RunStatus,
    Started,
    StepAsked,
    StepCompleted,
    StepFailed,
    StepRetrying,
    Unread,
    WaitRecord,
    WorkerRecord,
    instant_of,
    moment_of,
)
from tests.client.hands import total

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
EARLIER = NOW - timedelta(minutes=1)
LATER = NOW + timedelta(hours=2)
T = instant_of(EARLIER)
BEGUN = {"status": RunStatus.RUNNING, "started_at": EARLIER, "owner": "w1"}
PARKED = {"status": RunStatus.WAITING, "started_at": EARLIER}


def record(**changes: Any) -> RunRecord:
    known: dict[str, Any] = {
        "id": "r1", "workflow": "total", "version": "1", "queue": "default", "status": RunStatus.PENDING,
        "paused": False, "key": None, "tags": {}, "priority": 0, "created_at": EARLIER, "started_at": None,
        "ended_at": None, "due_at": EARLIER, "deadline_at": None, "retention": None, "chain_id": "r1",
        "origin_id": "r1", "parent_id": None, "forked_from": None, "successor_id": None, "after_run_id": None,
        "owner": None, "epoch": 1, "crashes": 0,
        "blocked": None, "input": b"[]", "output": None, "error": None,
    }  # fmt: skip  # as dense as it is dull
    return RunRecord(**{**known, **changes})


def worker(id: str = "w1", *lanes: Lane) -> WorkerRecord:
    return WorkerRecord(
        id=id, host="anvil", pid=42, started_at=EARLIER, renewed_at=NOW, lease_until=LATER,
        lanes=lanes or (Lane("total", "1"),),
    )  # fmt: skip  # as above


def why(
    run: RunRecord,
    *entries: Entry,
    workers: tuple[WorkerRecord, ...] = (worker(),),
    waits: Sequence[WaitRecord] = (),
    cancel: Message | None = None,
    unread: Sequence[Unread] = (),
    joined: frozenset[str] = frozenset(),
) -> tuple[Reason, str, Any]:
    around = Surroundings(workers, "shop", NOW, lambda stored: stored.decode(), waits, cancel, unread, joined)
    answer = explain(run, entries, around)
    assert str(answer) == answer.text
    assert answer.text.startswith("run r1 of 'total' ")
    return answer.reason, answer.text, answer.details


@pytest.mark.parametrize(
    ("run", "workers", "when"),
    [
        (record(**PARKED), (), "when a worker that knows it starts"),
        (record(**PARKED), (worker(),), "by the worker that takes it next"),
        (record(**BEGUN), (worker(),), "by the worker that holds it"),
        (record(**PARKED, blocked="I/O"), (worker(),), "when it goes on"),
    ],
)
def test_a_cancel_that_was_not_delivered_yet_is_explained_with_advice(run, workers, when):
    asked = Message(1, "r1", "cancel", None, b"sold out", T)
    _, text, _ = why(run, Started(T, b""), workers=workers, cancel=asked)
    told = f"A cancel was asked for (sold out) at 2030-01-01 11:59:00 UTC and is delivered {when}; a cancel with "
    assert told in text
    assert "force=True, or in a shell `holdfast cancel --force r1`, ends it at once." in text


def test_a_delivered_cancel_is_mentioned_once():
    asked = Message(1, "r1", "cancel", None, b"", T)
    _, text, _ = why(record(**BEGUN), Started(T, b""), Cancel(T, None), cancel=asked)
    assert "was cancelled" in text
    assert "asked for" not in text


def test_an_ended_run_tells_how_and_when():
    reason, text, _ = why(record(status=RunStatus.COMPLETED, ended_at=EARLIER, due_at=None))
    assert reason is Reason.ENDED
    assert text.endswith("has ended: completed at 2030-01-01 11:59:00 UTC.")


def test_a_failed_run_tells_its_error_and_the_way_on():
    reason, text, details = why(record(status=RunStatus.FAILED, ended_at=EARLIER, error=b"ValueError: no"))
    assert reason is Reason.ENDED
    assert "failed at 2030-01-01 11:59:00 UTC with ValueError: no; client.retry('r1')" in text
    assert details["error"] == "ValueError: no"


def test_a_due_run_without_a_worker_names_the_namespace_that_was_looked_at():
    assert "no worker is alive in the namespace 'shop'" in why(record(), workers=())[1]


def test_a_run_whose_deadline_comes_before_its_delay_says_so():
    reason, text, _ = why(record(due_at=LATER, deadline_at=LATER))
    assert reason is Reason.NOT_DUE
    assert "fails at its deadline, which comes first: 2030-01-01 14:00:00 UTC" in text


def test_a_replacement_with_a_deadline_waits_for_the_run_before_it():
    reason, text, _ = why(record(after_run_id="r0", due_at=LATER, deadline_at=LATER, key="k"))
    assert reason is Reason.AFTER
    assert "Its deadline is" in text


def test_a_paused_run_says_so_whatever_else_holds():
    reason, text, _ = why(record(paused=True), workers=())
    assert reason is Reason.PAUSED
    assert "is paused" in text


def test_a_run_that_replaces_another_waits_for_it():
    reason, text, details = why(record(after_run_id="r0", due_at=None, key="k"))
    assert reason is Reason.AFTER
    assert "begins when run r0 has ended" in text
    assert details == {"after_run_id": "r0"}


def test_a_run_that_is_not_due_tells_when_it_begins():
    reason, text, details = why(record(due_at=LATER))
    assert reason is Reason.NOT_DUE
    assert text.endswith("is not due yet: it begins at 2030-01-01 14:00:00 UTC, in 2h.")
    assert details["until"] == LATER


def test_without_any_worker_a_due_run_tells_what_it_needs():
    reason, text, _ = why(record(), workers=())
    assert reason is Reason.NO_WORKER
    assert "no worker is alive" in text
    assert "It needs 'total' version '1' on queue 'default'." in text


def test_workers_that_know_another_version_or_queue_are_named():
    lanes = (Lane("total", "2"), Lane("total", "1", "slow"), Lane("ship", "1"))
    reason, text, details = why(record(), workers=(worker("w1", *lanes),))
    assert reason is Reason.NO_WORKER
    assert "no live worker knows 'total' version '1' on queue 'default'" in text
    assert text.endswith("1 worker alive, knowing: total version 1 on slow, total version 2 on default.")
    assert len(details["known"]) == 3


def test_workers_that_know_other_workflows_only_are_listed_with_those():
    _, text, _ = why(record(), workers=(worker("w1", Lane("ship", "1")),))
    assert text.endswith("knowing: ship version 1 on default.")


def test_a_due_run_that_a_live_worker_knows_waits_for_room():
    reason, text, _ = why(record())
    assert reason is Reason.CAPACITY
    assert "is pending and due for 1m; 1 live worker (w1) can take it" in text


def test_a_blocked_run_shows_its_report():
    reason, text, details = why(record(**PARKED, blocked="the journal holds\nstep 'a'", due_at=LATER))
    assert reason is Reason.BLOCKED
    assert "tried again at 2030-01-01 14:00:00 UTC" in text
    assert "The report: the journal holds\nstep 'a'" in text
    assert details["report"].startswith("the journal")


def test_a_sleeping_run_tells_until_when():
    reason, text, details = why(record(**PARKED, due_at=LATER), Started(T, b""))
    assert reason is Reason.SLEEPING
    assert "sleeps until 2030-01-01 14:00:00 UTC, in 2h" in text
    assert details["until"] == LATER


def test_a_run_that_sleeps_on_its_worker_tells_until_when_and_where():
    reason, text, details = why(record(**PARKED, owner="w1", due_at=LATER), Started(T, b""))
    assert reason is Reason.SLEEPING
    assert text.endswith(" sleeps until 2030-01-01 14:00:00 UTC, in 2h, on worker w1 (host anvil, pid 42).")
    assert details["until"] == LATER
    assert details["worker"].id == "w1"


def test_a_run_that_is_tried_again_on_its_worker_tells_when():
    retrying = RunRetrying(T, 1, b"ValueError: no", instant_of(LATER), T)
    reason, text, _ = why(record(**PARKED, owner="w1", due_at=LATER), Started(T, b""), retrying)
    assert reason is Reason.RETRYING
    assert "is tried again as a whole at 2030-01-01 14:00:00 UTC, in 2h, on worker w1" in text


def test_a_run_whose_sleep_on_its_worker_is_over_is_held():
    reason, text, _ = why(record(**PARKED, owner="w1", due_at=EARLIER), Started(T, b""))
    assert reason is Reason.ADVANCING
    assert text.endswith(" is held on worker w1 (host anvil, pid 42).")


def test_a_run_of_which_only_its_due_time_is_known_is_explained_as_sleeping():
    """A wait for a signal without type= is not in the store: with a timeout it looks like a sleep."""
    assert why(record(**PARKED, due_at=LATER), Started(T, b""))[1].endswith(
        " sleeps until 2030-01-01 14:00:00 UTC, in 2h."
    )


def test_a_parked_run_without_a_time_waits_for_a_message():
    reason, text, _ = why(record(**PARKED, due_at=None), Started(T, b""))
    assert reason is Reason.WAITING
    assert "waits for a signal, by a name that the store does not know: only wait_for_signal(type=...)" in text


@pytest.mark.parametrize("run", [record(**PARKED, due_at=None), record(**PARKED, due_at=LATER), record(**BEGUN)])
def test_unread_messages_are_named(run):
    unread = [Unread("signal", "Go", 1), Unread("hook", "confirm", 2)]
    _, text, details = why(run, Started(T, b""), unread=unread)
    assert text.endswith(" In its inbox, sent and not read: signal 'Go' (1), hook 'confirm' (2).")
    assert details["unread"] == tuple(unread)


def test_the_first_of_many_names_are_shown():
    _, text, _ = why(record(**PARKED), Started(T, b""), unread=[Unread("signal", f"s{n}", 1) for n in range(6)])
    assert text.endswith("signal 's4' (1), and more.")


def test_a_wait_is_named_with_its_match():
    waits = [
        WaitRecord(
            run_id="r1", number=1, kind="event", name="paid", match=b'{"order":7}', schema=None, expires_at=None,
            registered_at=T,
        ),
        WaitRecord(
            run_id="r1", number=2, kind="hook", name="confirm", match=None, schema=None, expires_at=instant_of(LATER),
            registered_at=T,
        ),
    ]  # fmt: skip  # as above
    child = ChildAsked("other", "r1.other", "other", b"")
    words = (
        "waits for the event 'paid' that holds {\"order\":7} or the hook 'confirm', which expires at "
        "2030-01-01 14:00:00 UTC or the child run r1.other"
    )
    for run in (record(**PARKED, due_at=None), record(**PARKED, due_at=LATER), record(**PARKED, owner="w1")):
        reason, text, _ = why(run, Started(T, b""), child, waits=waits)
        assert reason is Reason.WAITING
        assert words in text
    for owner in (None, "w1"):
        text = why(record(**PARKED, due_at=LATER, owner=owner), Started(T, b""), child, waits=waits)[1]
        assert f"{words}, and wakes at the latest at 2030-01-01 " in text


def test_the_match_of_a_wait_is_shown_as_plain_data_and_times():
    wait = WaitRecord(
        run_id="r1", number=1, kind="hook", name="paid", match=b'{"order":7}', schema=b'{"type":"string"}',
        expires_at=instant_of(LATER), registered_at=T,
    )  # fmt: skip  # as above
    for run in (record(**PARKED, due_at=None), record(**PARKED, owner="w1")):
        _, _, details = why(run, Started(T, b""), waits=[wait])
        assert details["waits"] == (OpenWait("hook", "paid", {"order": 7}, {"type": "string"}, moment_of(T), LATER),)


def test_a_step_that_nobody_waits_for_any_more_is_not_listed():
    again = StepRetrying(T, "a", 1, b"no", T, T)
    entries = (Started(T, b""), StepAsked("a", b""), StepAsked("b", b""), again)
    for due in ({"due_at": None}, {"due_at": LATER}, {"due_at": None, "owner": "w1"}):
        _, text, details = why(record(**PARKED, **due), *entries)
        assert details["steps"] == ()
        assert "step" not in text


def test_a_step_in_flight_is_named_with_its_attempt_and_its_worker():
    entries = (Started(T, b""), StepAsked("a", b""), StepCompleted(T, "a", 1, b""), StepAsked("b", b""))
    reason, text, details = why(record(**BEGUN), *entries)
    assert reason is Reason.STEP
    assert "waits for step 'b' (attempt 1, since 2030-01-01 11:59:00 UTC) on worker w1 (host anvil, pid 42)" in text
    # The journal does not know whether it has begun: all threads may be taken.
    assert "(host anvil, pid 42): it executes there, or stands in line for a thread." in text
    assert [step.key for step in details["steps"]] == ["b"]


def test_a_step_that_is_retried_tells_when_and_after_which_error():
    again = StepRetrying(T, "a", 2, b"ValueError: no", instant_of(LATER), T)
    for run in (record(**BEGUN), record(**PARKED, due_at=LATER)):
        reason, text, details = why(run, Started(T, b""), StepAsked("a", b""), again)
        assert reason is Reason.RETRYING
        assert "retries step 'a' at 2030-01-01 14:00:00 UTC, in 2h" in text
        assert "(attempt 3; the last one failed with ValueError: no)" in text
        assert details["steps"][0].attempt == 3


def test_a_step_whose_retry_has_begun_is_waited_for():
    again = StepRetrying(T, "a", 1, b"ValueError: no", T, T)
    reason, text, _ = why(record(**BEGUN), Started(T, b""), StepAsked("a", b""), again)
    assert reason is Reason.STEP
    assert "waits for step 'a' (attempt 2" in text


def test_one_step_in_flight_and_one_that_waits_is_a_step_in_flight():
    again = StepRetrying(T, "a", 1, b"no", instant_of(LATER), T)
    reason, text, _ = why(record(**BEGUN), Started(T, b""), StepAsked("a", b""), StepAsked("b", b""), again)
    assert reason is Reason.STEP
    assert "retries step 'a'" in text
    assert "waits for step 'b'" in text


def test_many_open_steps_are_counted_not_listed():
    asks = [StepAsked(f"s{n}", b"") for n in range(8)]
    _, text, details = why(record(**BEGUN), Started(T, b""), *asks)
    assert " and 3 more on worker w1" in text
    assert len(details["steps"]) == 8


def test_a_run_in_its_first_turn_is_held_by_its_worker():
    reason, text, _ = why(record(**BEGUN))
    assert reason is Reason.ADVANCING
    assert "held on worker w1 (host anvil, pid 42)" in text
    assert "its first steps execute or stand in line for a thread, or it waits for a short timer" in text


def test_a_worker_that_is_late_to_renew_its_lease_is_shown_with_its_last_renewal():
    late = structs.replace(worker(), renewed_at=NOW - timedelta(seconds=20), lease_until=NOW + timedelta(seconds=10))
    where = "held on worker w1 (host anvil, pid 42, last heard of at 2030-01-01 11:59:40 UTC)"
    assert where in why(record(**BEGUN), workers=(late,))[1]


def test_a_run_whose_worker_died_is_taken_over():
    reason, text, _ = why(record(**{**BEGUN, "owner": "gone"}))
    assert reason is Reason.TAKEOVER
    assert "was held by worker gone, which is gone; the next of 1 live worker to look takes it over." in text


def test_a_run_whose_worker_died_and_that_no_other_worker_serves_says_so():
    _, text, _ = why(record(**{**BEGUN, "owner": "gone"}), workers=())
    assert "no worker is alive in the namespace 'shop'; it is taken over when a worker that knows it starts" in text


def test_a_run_retried_as_a_whole_tells_when():
    retrying = RunRetrying(T, 1, b"ValueError: no", instant_of(LATER), T)
    reason, text, details = why(record(**PARKED, due_at=LATER), Started(T, b""), retrying)
    assert reason is Reason.RETRYING
    assert "failed with ValueError: no and is tried again as a whole at" in text
    assert details["attempt"] == 1


def test_a_child_that_was_asked_for_anew_is_not_taken_for_the_one_that_was_called_off():
    retrying = RunRetrying(T, 1, b"", T, T)
    asked = (ChildAsked("ship", "r1.ship", "ship", b""), StepAsked("add", b""))
    again = (StepFailed(T, "add", 1, b""), retrying, Reopened(T, True), StepCompleted(T, "add", 1, b"1"))
    _, text, _ = why(record(**PARKED, due_at=None), Started(T, b""), *asked, *again)
    assert "the child run of 'ship' that was begun anew" in text


def test_a_run_that_was_joined_by_its_key_is_not_named_by_an_id_that_no_run_has():
    asked = (ChildAsked("ship", "r1.ship", "ship", b""), ChildAsked("ship:1", "r1.ship:1", "ship", b""))
    _, text, _ = why(record(**PARKED, due_at=None), Started(T, b""), *asked, joined=frozenset({"r1.ship"}))
    assert "waits for a run of 'ship' that it joined by its key or the child run r1.ship:1." in text


def test_crashes_a_cancel_and_a_deadline_are_mentioned_beside_the_reason():
    _, crashed, _ = why(record(crashes=2))
    assert "taken its worker down 2 times without progress" in crashed
    _, cancelled, _ = why(record(**BEGUN), Started(T, b""), Cancel(T, "sold out"), StepAsked("undo", b""))
    assert "It was cancelled (sold out) at 2030-01-01 11:59:00 UTC, and its cleanup has not ended." in cancelled
    _, late, _ = why(record(deadline_at=LATER))
    assert "Its deadline is 2030-01-01 14:00:00 UTC." in late


async def test_the_client_reads_all_that_explain_needs(client, hands):
    run = await client.start(total, 1)
    assert (await client.explain(run.id)).reason is Reason.NO_WORKER
    await hands.register()
    assert (await client.explain(run.id)).reason is Reason.CAPACITY
    claimed = await hands.claim(run.id)
    await hands.write(claimed, Started(T, b""), StepAsked("add", b""))
    answer = await client.explain(run.id)
    assert answer.reason is Reason.STEP
    assert answer.details["worker"].id == "hands"
    await run.cancel(force=True)
    assert (await client.explain(run.id)).reason is Reason.ENDED


def test_a_parked_run_that_no_live_worker_knows_says_so():
    parked = record(**PARKED, due_at=None)
    reason, text, _ = why(parked, Started(T, b""), workers=(worker("w2", Lane("total", "2")),))
    assert reason is Reason.WAITING
    assert "No live worker knows 'total' version '1'" in text
    assert "knowing: total version 2" in text


def test_a_parked_run_that_a_live_worker_serves_does_not_name_that_worker():
    assert "No live worker" not in why(record(**PARKED, due_at=None), Started(T, b""))[1]
