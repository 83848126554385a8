"""Plans are kept for any values, since planning a claim takes longer than executing it, and forgotten before they are
old."""

import contextlib

import pytest

from holdfast.store import open_store
from holdfast.store.postgres import links
from holdfast.testing.contract.stage import LANE


@pytest.fixture
def url(postgres):
    return postgres.create_database()


@contextlib.asynccontextmanager
async def opened(url):
    """An open store, and the texts of all that it asks the server for."""
    texts = []
    connect = links.connect

    async def watched(*where):
        connection = await connect(*where)
        connection.add_query_logger(lambda record: texts.append(record.query))
        return connection

    store = open_store(url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "connect", watched)
        await store.open()
        try:
            yield store, texts
        finally:
            await store.close()


async def test_old_plans_are_forgotten(url, monkeypatch):
    async with opened(url) as (store, texts):
        await store.next_due([LANE])
        assert "DISCARD PLANS" not in texts
        monkeypatch.setattr(links, "PLANS_KEPT", 0.0)
        await store.next_due([LANE])
        assert "DISCARD PLANS" in texts


async def test_a_statement_goes_on_working_after_its_plan_was_forgotten(url, monkeypatch):
    monkeypatch.setattr(links, "PLANS_KEPT", 0.0)
    async with opened(url) as (store, texts):
        assert [await store.next_due([LANE]) for _ in range(3)] == [None] * 3
        assert texts.count("DISCARD PLANS") >= 3
