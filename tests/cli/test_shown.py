"""What `show` prints of a run: where it failed, and what it came to, whatever that is."""

from __future__ import annotations

import asyncio
import json

import pytest

import holdfast
from holdfast import Client, FatalError, Worker, step, workflow
from holdfast.codec import AesGcm, Codec
from tests.colours import loaded, paints


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


def test_a_failed_run_is_shown_with_the_cause_of_its_error(client, say):
    text = say("show", failed(client, gives_up))
    assert text.index("in refuse\n") < text.index("LookupError: no other card", text.index("in refuse\n"))


def test_a_run_as_json_has_the_traceback_as_a_field(client, say):
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


PAINTED = {"colour": "RED", "both": ["RED", "RED"]}


@pytest.fixture
def painted(client: Client) -> str:
    """The id of a run whose result and values hold an enum that is not loaded any more."""
    with loaded():
        holdfast.run(paints, key="once", url=client.url)
    return client.get_run(paints, key="once").id


def test_a_start_that_waits_prints_a_result_whose_classes_are_not_loaded(painted, say):
    assert json.loads(say("start", "paints", "--key", "once", "--wait")) == PAINTED


def test_a_completed_run_is_shown_whose_classes_are_not_loaded(painted, say):
    told = json.loads(say("show", painted, "--json"))
    assert (told["result"], told["error"]) == (PAINTED, None)
    assert "→ {'colour': 'RED'" in say("show", painted)


def test_values_and_items_are_printed_whose_classes_are_not_loaded(painted, say):
    assert json.loads(say("values", painted, "colour")) == "RED"
    assert json.loads(say("streams", painted, "colours")) == {"first": "RED"}


def test_a_result_that_can_t_be_read_is_no_error_of_a_completed_run(client, say):
    @workflow
    async def hides() -> str:
        return "nothing to see"

    with holdfast.Client(client.url, codec=Codec(chain=[AesGcm({"k": b"1" * 32}, primary="k")])) as other:
        run = other.start(hides, key="hidden")
        asyncio.run(Worker(other.url, workflows=[hides], codec=other.codec).drive(run.id))
    told = json.loads(say("show", run.id, "--json"))
    assert told["status"] == "completed"
    assert told["error"] is None


@workflow
async def echoes(word: str) -> str:
    return word


def test_a_long_input_and_result_are_shortened_for_people_only(client, say):
    word = "x" * 50_000
    holdfast.run(echoes, word, key="long", url=client.url)
    run_id = client.get_run(echoes, key="long").id
    assert max(map(len, say("show", run_id).splitlines())) < 1_200
    assert "… (50,000 characters; --json has them all)\n" in say("show", run_id)
    told = json.loads(say("show", run_id, "--json"))
    assert (told["input"]["args"], told["result"]) == ([word], word)
