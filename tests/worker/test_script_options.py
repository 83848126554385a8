"""`holdfast.run`: which names are its own options, which are the workflow's, and the error where both have one."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import BadArguments, Client, workflow


@workflow
async def fetch(url: str = "nothing", key: str = "none") -> str:
    return f"{url} {key}"


@workflow
async def named(**names: str) -> dict[str, str]:
    return names


@workflow
async def card_of(card: str) -> str:
    return card


@pytest.mark.parametrize("name", ["key", "url"])
def test_an_argument_named_like_an_option_of_run_is_refused(database_url, monkeypatch, name):
    """As an option it would be missing from the workflow's arguments, where a type checker expects it."""
    monkeypatch.setenv("HOLDFAST_URL", database_url)
    with pytest.raises(BadArguments, match=rf"{name}= is an option of holdfast.run\(\) and a parameter"):
        holdfast.run(fetch, **{name: database_url})
    with Client(database_url) as client:
        assert list(client.runs()) == []


def test_an_argument_named_like_an_option_may_be_given_by_position_and_the_key_by_options(database_url, monkeypatch):
    monkeypatch.setenv("HOLDFAST_URL", database_url)
    assert holdfast.run(fetch.options(key="one"), "http://example.com", "two") == "http://example.com two"
    with Client(database_url) as client:
        assert client.get_run(fetch, key="one").status == "completed"


def test_an_option_goes_to_run_when_the_argument_of_that_name_is_given_by_position(database_url):
    assert holdfast.run(fetch, "http://example.com", url=database_url) == "http://example.com none"


@pytest.mark.parametrize("option", ["deadline", "id", "delay", "tags", "retention"])
def test_an_option_of_a_start_is_refused_with_the_way_to_give_it(database_url, option):
    with pytest.raises(BadArguments, match=rf"card_of\.options\({option}=\.\.\.\)"):
        holdfast.run(card_of, "4242", url=database_url, **{option: "1h"})


def test_a_workflow_with_keyword_arguments_gets_one_named_like_an_option_of_start(database_url):
    assert holdfast.run(named, url=database_url, deadline="soon") == {"deadline": "soon"}


def test_a_script_works_on_its_run_whichever_queue_it_asks_for(database_url):
    assert holdfast.run(card_of.options(queue="reports", key="one"), "4242", url=database_url) == "4242"


def test_a_script_works_on_its_run_whichever_queues_the_settings_name(database_url, monkeypatch):
    monkeypatch.setenv("HOLDFAST_QUEUES", "mail")
    assert holdfast.run(card_of, "4242", url=database_url) == "4242"


def test_a_script_works_on_an_existing_run_whichever_queue_it_has(database_url):
    with Client(database_url) as client:
        client.start(card_of, "4242", key="one", queue="reports")
    assert holdfast.run(card_of, "0000", key="one", url=database_url) == "4242"
