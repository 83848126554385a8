"""Which values and streams a run has."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import AsyncClient, Client, DefinitionError, workflow

NAMES = [f"{number:04}" for number in range(2_001)]


@workflow
async def shows(count: int) -> None:
    for name in NAMES[:count]:
        holdfast.set_value(name, name)
        holdfast.emit(name, name)
        holdfast.emit(name, name)


def test_all_names_are_listed_however_many_there_are(database_url):
    with Client(database_url) as client:
        holdfast.run(shows, len(NAMES), key="k", url=database_url)
        run = client.get_run(shows, key="k")
        assert [one.name for one in run.values()] == NAMES
        assert [(one.name, one.last) for one in run.streams()] == [(name, 2) for name in NAMES]
        assert [one.name for one in run.values(after=NAMES[7], limit=1_500)] == NAMES[8:1_508]


def test_a_value_is_listed_with_its_size_and_when_it_was_set(database_url):
    with Client(database_url) as client:
        holdfast.run(shows, 1, key="k", url=database_url)
        run = client.get_run(shows, key="k")
        [value] = run.values()
        assert (value.name, value.size) == ("0000", len('"0000"'))
        assert run.record is not None
        assert run.record.created_at <= value.set_at


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": True}, {"limit": "1"}, {"after": None}, {"after": "\ud800"}])
async def test_an_invalid_limit_or_cursor_of_names_is_refused(database_url, wrong):
    async with AsyncClient(database_url) as client:
        run = await client.start(shows, 1)
        for ask in (run.values, run.streams):
            with pytest.raises(DefinitionError, match=next(iter(wrong))):
                await ask(**wrong)


@pytest.mark.parametrize("name", [5, None, "", "a\0b", "x" * 201], ids=["number", "none", "empty", "nul", "long"])
async def test_an_invalid_name_of_a_value_or_stream_is_refused_at_once(database_url, name):
    async with AsyncClient(database_url) as client:
        run = await client.start(shows, 1)
        with pytest.raises(DefinitionError, match=r"value .*expected a name"):
            await run.value(name)
        with pytest.raises(DefinitionError, match=r"stream .*expected a name"):
            run.stream(name)


@pytest.mark.parametrize("after", [-1, "x", True, None])
async def test_an_invalid_offset_into_a_stream_is_refused(database_url, after):
    async with AsyncClient(database_url) as client:
        run = await client.start(shows, 1)
        with pytest.raises(DefinitionError, match=r"stream\(after="):
            run.stream("0000", after=after)
