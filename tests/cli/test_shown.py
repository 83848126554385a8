"""What `show` prints of a run: where it failed, and what it came to, whatever that is."""

from __future__ import annotations

import json

import pytest

import holdfast
from holdfast import Client, FatalError, step, workflow


def refuse(card: str) -> str:
    raise FatalError(f"{card} is refused\nby the bank\nsince Monday")


@step
async def charge(card: str) -> str:
    return refuse(card)


@workflow
async def pay(card: str) -> str:
    return await charge(card)


@workflow
async def gives_up(card: str) -> str:
    try:
        return await charge(card)
    except FatalError as error:
        raise LookupError("no other card") from error


def failed(client: Client, body: holdfast.Workflow[[str], str]) -> str:
    with pytest.raises(holdfast.RunFailed) as raised:
        holdfast.run(body, "4711", url=client.url)
    return raised.value.run_id


def test_a_failed_run_is_shown_with_where_its_step_failed(client, say):
    text = say("show", failed(client, pay))
    assert "in refuse\n    raise FatalError(" in text
    assert text.index("in pay\n") < text.index("in the step 'charge', attempt 1") < text.index("in refuse\n")


def test_frames_of_holdfast_are_not_shown(client, say):
    shown = say("show", failed(client, pay))
    assert "holdfast/define/steps.py" not in shown
    assert "holdfast/worker/attempts.py" not in shown


def test_a_failed_run_is_shown_with_what_led_to_its_error(client, say):
    text = say("show", failed(client, gives_up))
    assert text.index("in refuse\n") < text.index("LookupError: no other card", text.index("in refuse\n"))


def test_the_traceback_is_a_field_of_a_run_as_json(client, say):
    told = json.loads(say("show", failed(client, pay), "--json"))
    assert told["traceback"].startswith("Traceback (most recent call last):\n")
    assert told["traceback"].endswith("FatalError: 4711 is refused\nby the bank\nsince Monday")


def test_all_lines_of_an_error_are_in_json(client, say):
    told = json.loads(say("show", failed(client, pay), "--json"))
    assert told["error"].endswith("failed: FatalError: 4711 is refused\nby the bank\nsince Monday")
    errors = {entry["error"] for entry in told["journal"] if entry["error"] is not None}
    assert errors == {"FatalError: 4711 is refused\nby the bank\nsince Monday"}


def test_all_lines_of_an_error_that_was_never_raised_are_shown(client, say):
    @workflow
    async def late() -> None:
        await holdfast.sleep("1h")

    run = client.start(late, deadline="0s", key="late")
    with pytest.raises(holdfast.RunFailed) as raised:
        holdfast.run(late, key="late", url=client.url)
    assert str(raised.value) in say("show", run.id)
