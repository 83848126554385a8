"""What can be done to runs and sent to them over HTTP, and what can be asked about them."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Done, Machine, Next, Retry, step, workflow
from holdfast.model import RunStatus
from tests.web.stage import charge, served


@workflow
async def shows() -> None:
    for name in ("c", "a", "b/ü"):
        holdfast.set_value(name, 1)
        holdfast.emit(name, 1)


@step(retry=Retry(attempts=1))
async def ship() -> None:
    raise ConnectionError("no ship")


@workflow
async def passes_on(left: int) -> None:
    if left:
        passes_on.continue_as_new(left - 1)
    await holdfast.wait_for_signal("go")


@workflow
async def stubborn() -> None:
    await ship.options(retry=Retry(attempts=2, initial="1h"))()


@workflow(retry=Retry(attempts=2, initial="1h"))
async def patient() -> None:
    await charge("4711")
    await ship()


async def waiting(made, who: str = "ann"):
    run = await made.client.start("approval", who)
    await made.stage.until_waiting(run)
    return run


async def test_a_live_run_is_cancelled_and_an_ended_one_is_left_alone(database_url):
    async with served(database_url) as made:
        run = await waiting(made)
        first = await made.call("POST", f"/v1/runs/{run.id}/cancel", {"reason": "the customer called"})
        assert first.json() == {"id": run.id, "sent": True, "was": "waiting", "skipped": []}
        await run.wait("60s")
        second = await made.call("POST", f"/v1/workflows/approval/runs/{run.id}/cancel")
        assert (second.status_code, second.json()["sent"], second.json()["was"]) == (200, False, "cancelled")
        told = (await made.call("GET", f"/v1/runs/{run.id}")).json()
        assert "the customer called" in told["error"]["message"]


async def test_a_forced_cancel_ends_at_once(database_url):
    async with served(database_url) as made:
        run = await waiting(made)
        answer = await made.call("POST", f"/v1/runs/{run.id}/cancel", {"force": True})
        assert answer.json()["sent"] is True
        assert (await run.refresh()).status == "cancelled"


async def test_a_failed_run_is_retried_as_a_new_one(database_url):
    async with served(database_url) as made:
        run = await made.client.start("checkout", "stolen", key="k")
        await run.wait("60s")
        first = await made.call("POST", f"/v1/runs/{run.id}/retry")
        assert (first.status_code, first.json()["forked_from"], first.json()["created"]) == (201, run.id, True)
        again = await made.call("POST", f"/v1/runs/{run.id}/retry")
        assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])


async def test_a_retry_asked_for_twice_with_one_id_is_one(database_url):
    async with served(database_url) as made:
        run = await made.client.start("checkout", "stolen")
        await run.wait("60s")
        got = [await made.call("POST", f"/v1/runs/{run.id}/retry", {"id": "again"}) for _ in range(2)]
        assert [(one.status_code, one.json()["id"]) for one in got] == [(201, "again"), (200, "again")]


async def test_a_run_that_has_not_failed_is_not_retried(database_url):
    async with served(database_url) as made:
        run = await waiting(made)
        answer = await made.call("POST", f"/v1/runs/{run.id}/retry")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:holdfast:problem:not-retryable")


async def test_a_run_is_forked_at_a_step_with_another_result(database_url):
    async with served(database_url) as made:
        run = await made.client.start("checkout", "4711")
        await run.wait("60s")
        fork = await made.call("POST", f"/v1/runs/{run.id}/fork", {"at": "charge", "result": "on the house"})
        assert (fork.status_code, fork.json()["forked_from"]) == (201, run.id)
        other = await made.client.get_run(fork.json()["id"])
        assert (await other.result("60s"))["payment"] == "on the house"


async def test_a_run_is_forked_from_the_start_with_other_arguments(database_url):
    async with served(database_url) as made:
        run = await made.client.start("checkout", "4711")
        await run.wait("60s")
        fork = await made.call("POST", f"/v1/runs/{run.id}/fork", {"input": ["4712"]})
        other = await made.client.get_run(fork.json()["id"])
        assert (await other.result("60s"))["payment"] == "charged 4712"


async def test_a_fork_without_options_repeats_the_run_as_it_was(database_url):
    async with served(database_url) as made:
        run = await made.client.start("checkout", "4711")
        await run.wait("60s")
        fork = await made.call("POST", f"/v1/runs/{run.id}/fork")
        assert (fork.status_code, fork.json()["forked_from"]) == (201, run.id)


@step
async def asked() -> str | None:
    return "yes"


@workflow
async def asks() -> str | None:
    return await asked()


async def test_a_fork_may_give_a_step_null_as_its_result(database_url):
    async with served(database_url, asks) as made:
        run = await made.client.start(asks)
        await run.wait("60s")
        fork = await made.call("POST", f"/v1/runs/{run.id}/fork", {"at": "asked", "result": None})
        assert await (await made.client.get_run(fork.json()["id"])).result("60s") is None


@pytest.mark.parametrize("body", [{"at": "nothing"}, {"result": 1}, {"result": None}])
async def test_an_invalid_fork_names_the_wrong_field(database_url, body):
    async with served(database_url) as made:
        run = await made.client.start("checkout", "4711")
        await run.wait("60s")
        answer = await made.call("POST", f"/v1/runs/{run.id}/fork", body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "at")


async def test_a_run_is_paused_and_resumed(database_url):
    async with served(database_url) as made:
        run = await waiting(made)
        assert (await made.call("POST", f"/v1/runs/{run.id}/pause")).json()["paused"] is True
        assert (await made.call("POST", f"/v1/runs/{run.id}/resume")).json()["paused"] is False


async def test_pausing_a_run_that_has_continued_pauses_and_names_the_live_run_of_its_chain(database_url):
    async with served(database_url, passes_on) as made:
        run = await made.client.start("passes_on", 1)
        await made.stage.until_status(run, RunStatus.CONTINUED)
        last = await made.client.get_run(run.record.successor_id)
        await made.stage.until_waiting(last)
        for verb, is_paused in (("pause", True), ("resume", False)):
            answer = await made.call("POST", f"/v1/runs/{run.id}/{verb}")
            told = answer.json()
            assert (answer.status_code, told["id"], told["paused"]) == (200, last.id, is_paused)
            assert (await last.refresh()).record.paused is is_paused


async def test_an_ended_run_is_neither_paused_nor_signalled(database_url):
    async with served(database_url) as made:
        run = await made.client.start("checkout", "4711")
        await run.wait("60s")
        for path in ("pause", "resume", "signals/answer"):
            answer = await made.call("POST", f"/v1/runs/{run.id}/{path}")
            assert (answer.status_code, answer.json()["type"]) == (409, "urn:holdfast:problem:run-ended")


async def test_the_body_of_a_signal_is_its_payload(database_url):
    async with served(database_url) as made:
        run = await waiting(made)
        answer = await made.call("POST", f"/v1/workflows/approval/runs/{run.id}/signals/answer", "yes")
        assert (answer.status_code, answer.json()) == (202, {"accepted": True})
        assert await run.result("60s") == "yes"


async def test_a_signal_that_does_not_fit_is_refused_and_the_run_waits_on(database_url):
    async with served(database_url) as made:
        run = await waiting(made)
        answer = await made.call("POST", f"/v1/runs/{run.id}/signals/answer", {"no": "text"})
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:holdfast:problem:bad-payload")
        assert (await run.refresh()).status == "waiting"


@workflow
async def twice() -> list[int]:
    return [await holdfast.wait_for_signal("n"), await holdfast.wait_for_signal("n")]


async def test_a_signal_with_the_same_idempotency_key_is_delivered_once(database_url):
    async with served(database_url, twice) as made:
        run = await made.client.start("twice")
        for number, key in ((1, "a"), (1, "a"), (2, "b")):
            headers = {"Idempotency-Key": key}
            await made.call("POST", f"/v1/runs/{run.id}/signals/n", number, headers=headers)
        assert await run.result("60s") == [1, 2]


@workflow
async def shipped(order: str) -> int:
    event = await holdfast.wait_for_event("paid", match={"order": order})
    return int(event["cents"])


async def test_an_event_reaches_the_run_that_waits_for_it(database_url):
    async with served(database_url, shipped) as made:
        run = await made.client.start("shipped", "o-1")
        assert (await made.call("POST", "/v1/events/paid", {"order": "o-1", "cents": 5})).status_code == 202
        assert await run.result("60s") == 5


async def test_a_hook_is_resumed_once(database_url):
    async with served(database_url) as made:
        run = await made.client.start("hooked")
        await made.stage.until_waiting(run)
        token = await run.value("token")
        misfit = await made.call("POST", f"/v1/hooks/{token}", "much")
        first, second = [await made.call("POST", f"/v1/hooks/{token}", 42) for _ in range(2)]
        assert [misfit.status_code, first.status_code, second.status_code] == [422, 202, 409]
        assert await run.result("60s") == "paid 42"


@workflow
async def brief() -> str:
    hook = holdfast.hook(name="brief", expires="1h")
    holdfast.set_value("token", hook.token)
    await holdfast.sleep("1d")
    return "slept"


async def test_a_hook_whose_time_is_over_is_gone(database_url):
    async with served(database_url, brief) as made:
        run = await made.client.start("brief")
        await made.stage.until_waiting(run)
        made.stage.skip("2h")
        answer = await made.call("POST", f"/v1/hooks/{await run.value('token')}")
        assert (answer.status_code, answer.json()["type"]) == (410, "urn:holdfast:problem:hook-expired")


async def test_a_journal_is_read_a_page_at_a_time(database_url):
    async with served(database_url) as made:
        run = await made.client.start("checkout", "4711")
        await run.wait("60s")
        kinds, path = [], f"/v1/runs/{run.id}/journal?limit=2"
        page = (await made.call("GET", path)).json()
        while True:
            kinds += [entry["kind"] for entry in page["entries"]]
            if page["next"] is None:
                break
            page = (await made.call("GET", f"{path}&cursor={page['next']}")).json()
        assert kinds == [entry.kind for entry in await made.client.journal(run.id)]


def count(ctx):
    ctx["n"] = ctx.get("n", 0) + 1
    if ctx["n"] == 140:
        return Done(ctx["n"])
    return Next("start", after="1h" if ctx["n"] == 5 else None)


async def test_a_cursor_of_a_journal_skips_nothing_when_a_checkpoint_has_cut_older_turns_off(database_url):
    async with served(database_url, Machine("counting", {"start": count})) as made:
        run = await made.client.start("counting")
        await made.stage.until_waiting(run)
        first = (await made.call("GET", f"/v1/runs/{run.id}/journal?limit=7")).json()
        made.stage.skip("61m")
        await run.wait("60s")
        left = await made.client.journal(run.id)
        assert left[0].seq > first["entries"][-1]["seq"], "a checkpoint was written"
        rest = (await made.call("GET", f"/v1/runs/{run.id}/journal", params={"cursor": first["next"]})).json()
        assert [entry["seq"] for entry in rest["entries"]] == [entry.seq for entry in left]


@pytest.mark.parametrize("cursor", ["x", "-1", "", "1e3", "1-", "-", "1-2-3", "9" * 30, f"1-{'9' * 30}", "١-١"])
async def test_an_invalid_cursor_of_a_journal_is_400(database_url, cursor):
    async with served(database_url) as made:
        run = await made.client.start("checkout", "4711")
        answer = await made.call("GET", f"/v1/runs/{run.id}/journal", params={"cursor": cursor})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "cursor")


@pytest.mark.parametrize(
    ("method", "path", "field"),
    [
        ("GET", "/v1/runs/%00", "run_id"),
        ("GET", "/v1/workflows/%00/runs", "workflow"),
        ("POST", f"/v1/workflows/{'w' * 201}/runs", "workflow"),
        ("POST", "/v1/runs/RUN/signals/%00", "signal"),
        ("POST", f"/v1/events/{'e' * 201}", "event"),
        ("POST", "/v1/hooks/%00", "token"),
        ("GET", f"/v1/runs/RUN/values/{'v' * 201}", "name"),
    ],
)
async def test_an_invalid_name_in_a_path_is_refused_with_its_place_in_the_path(database_url, method, path, field):
    async with served(database_url) as made:
        run = await waiting(made)
        answer = await made.call(method, path.replace("RUN", run.id), None if method == "GET" else {})
        [wrong] = answer.json()["errors"]
        assert (answer.status_code, wrong["place"], wrong["field"]) == (422, "path", field)


async def test_the_steps_of_a_run_are_listed_with_their_outcomes(database_url):
    async with served(database_url) as made:
        done, failed = await made.client.start("checkout", "4711"), await made.client.start("checkout", "stolen")
        await done.wait("60s")
        await failed.wait("60s")
        [good] = (await made.call("GET", f"/v1/runs/{done.id}/steps")).json()["steps"]
        [bad] = (await made.call("GET", f"/v1/runs/{failed.id}/steps")).json()["steps"]
        assert (good["key"], good["status"], good["value"], good["error"]) == (
            "charge", "completed", "charged 4711", None,
        )  # fmt: skip
        assert (bad["status"], bad["value"]) == ("failed", None)
        assert bad["error"] == {"type": "FatalError", "message": "this card is stolen"}


async def test_a_step_that_is_tried_again_says_which_attempt_comes_and_what_went_wrong(database_url):
    async with served(database_url, stubborn) as made:
        run = await made.client.start("stubborn")
        await made.stage.until_waiting(run)
        [step] = (await made.call("GET", f"/v1/runs/{run.id}/steps")).json()["steps"]
        assert (step["status"], step["attempt"], step["ended_at"]) == ("retrying", 2, None)
        assert step["error"] == {"type": "ConnectionError", "message": "no ship"}


async def test_a_failed_step_that_a_retry_of_its_run_opened_again_is_listed_as_open(database_url):
    async with served(database_url, patient) as made:
        run = await made.client.start("patient")
        await made.stage.until_waiting(run)
        steps = (await made.call("GET", f"/v1/runs/{run.id}/steps")).json()["steps"]
        assert [(one["key"], one["status"], one["error"]) for one in steps] == [
            ("charge", "completed", None), ("ship", "asked", None),
        ]  # fmt: skip
        assert (steps[0]["ended_at"] is None, steps[1]["ended_at"]) == (False, None)


async def test_explain_says_why_a_run_is_not_moving(database_url):
    async with served(database_url) as made:
        run = await waiting(made)
        told = (await made.call("GET", f"/v1/runs/{run.id}/explain")).json()
        assert (told["id"], told["reason"]) == (run.id, "waiting")
        assert "waits for" in told["text"]


async def test_a_value_is_read_by_its_name(database_url):
    async with served(database_url) as made:
        run = await waiting(made)
        assert (await made.call("GET", f"/v1/runs/{run.id}/values/asked")).json()["value"] == "ann"
        assert (await made.call("GET", f"/v1/runs/{run.id}/values/none")).status_code == 404


async def test_values_and_streams_are_listed_by_name_a_page_at_a_time(database_url):
    async with served(database_url, shows) as made:
        run = await made.client.start(shows)
        await run.wait("60s")
        for what, last in (("values", {"size": 1}), ("streams", {"last": 1})):
            path = f"/v1/runs/{run.id}/{what}?limit=2"
            first = (await made.call("GET", path)).json()
            assert [one["name"] for one in first[what]] == ["a", "b/ü"]
            second = (await made.call("GET", f"{path}&cursor={first['next']}")).json()
            assert ([one["name"] for one in second[what]], second["next"]) == (["c"], None)
            assert last.items() <= second[what][0].items()


@pytest.mark.parametrize("cursor", ["", "x", "AA==", "_w==", "YQ", "%C3%BC"])
async def test_an_invalid_cursor_of_names_is_refused(database_url, cursor):
    async with served(database_url, shows) as made:
        run = await made.client.start(shows)
        answer = await made.call("GET", f"/v1/runs/{run.id}/values?cursor={cursor}")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "cursor")
