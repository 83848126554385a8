"""The commands about what a run shows and streams."""

from __future__ import annotations

import asyncio
import json

import pytest

import holdfast
from holdfast import Client, Worker, workflow
from holdfast.cli import main


@workflow
async def shows() -> None:
    holdfast.set_value("at", {"step": 3})
    holdfast.set_value("of", 9)
    for word in ("one", "two", "three"):
        holdfast.emit("words", word)


@workflow
async def shows_strange_things():
    strange = {(1, 2): float("nan"), 3: b"\xff"}
    holdfast.set_value("v", strange)
    holdfast.emit("s", strange)
    return strange


@workflow
async def goes_on() -> None:
    holdfast.emit("words", "one")
    holdfast.emit("words", "two")
    await holdfast.wait_for_signal("go")


@pytest.fixture
def run_id(client: Client) -> str:
    """A run that has ended."""
    holdfast.run(shows, key="k")
    return client.get_run(shows, key="k").id


def test_values_are_listed_by_name(client, say, run_id):
    assert [line.split()[:2] for line in say("values", run_id).splitlines()[1:]] == [["at", "10"], ["of", "1"]]
    told = json.loads(say("values", run_id, "--json"))
    assert [(one["name"], one["size"]) for one in told] == [("at", 10), ("of", 1)]


def test_one_value_is_printed_as_json(client, say, run_id):
    assert json.loads(say("values", run_id, "at")) == {"step": 3}


def test_a_value_of_a_type_that_json_lacks_is_printed_as_json(client, say):
    holdfast.run(shows_strange_things, key="k")
    run_id = client.get_run(shows_strange_things, key="k").id
    expected = {"[1,2]": None, "3": "/w=="}
    assert json.loads(say("values", run_id, "v")) == expected
    assert json.loads(say("streams", run_id, "s")) == expected
    told = json.loads(say("show", run_id, "--json"))
    assert (told["result"], told["journal"][-1]["value"]) == (expected, expected)
    assert f"result       {json.dumps(expected)}\n" in say("show", run_id)


def test_a_value_that_is_not_there_is_an_error_that_names_those_that_are(client, capsys, run_id):
    assert main(["values", run_id, "ta"]) == 1
    assert "has set no value 'ta'; there are: at, of" in capsys.readouterr().err


def test_streams_are_listed_with_how_many_items_they_have(client, say, run_id):
    assert say("streams", run_id).splitlines()[1].split() == ["words", "3", "items"]
    assert json.loads(say("streams", run_id, "--json")) == [{"name": "words", "last": 3}]


@pytest.mark.parametrize("options", [[], ["--follow"]])
def test_a_stream_s_items_are_printed_a_line_each(client, say, run_id, options):
    assert say("streams", run_id, "words", *options).splitlines() == ['"one"', '"two"', '"three"']
    assert say("streams", run_id, "words", "--after", "2", *options).splitlines() == ['"three"']
    assert say("streams", run_id, "words", "--after", "3", *options) == ""
    [line] = say("streams", run_id, "words", "--after", "2", "--json", *options).splitlines()
    assert (json.loads(line)["offset"], json.loads(line)["value"], json.loads(line)["step"]) == (3, "three", None)


def test_the_items_of_a_live_run_are_printed_as_far_as_there_are_any(client, say):
    run = client.start(shows)
    assert say("streams", run.id) == "no streams\n"
    assert say("values", run.id) == "no values\n"
    assert say("streams", run.id, "words") == ""


def test_printing_a_stream_of_a_live_run_without_following_does_not_wait(client, say):
    run = client.start(goes_on)
    asyncio.run(Worker(client.url, workflows=[goes_on]).drive(run.id))
    assert say("streams", run.id, "words").splitlines() == ['"one"', '"two"']


def test_following_a_stream_needs_its_name(client, capsys, run_id):
    assert main(["streams", run_id, "--follow"]) == 2
    assert "name the stream" in capsys.readouterr().err
