"""A schema that is dropped and made anew under those who work with it: the numbers that they have learned are another
tenant's and another workflow's there."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

import pytest

from holdfast.errors import StoreAway
from holdfast.model import RunFilter
from holdfast.store import open_store
from holdfast.store.postgres import links
from holdfast.testing.contract.stage import LANE, Stage, new_run, turn
from tests.contract.staging import staged
from tests.servers import execute, fetch

DROP = "DROP SCHEMA holdfast CASCADE"
CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture
def url(postgres):
    return postgres.create_database()


async def make_anew(url: str) -> None:
    """By another tenant, who comes first there, and has a run of another workflow on the first lane."""
    other = open_store(url, namespace="other")
    await other.open()
    await other.start_runs([new_run(workflow="refund")])
    await other.close()


async def cut(stage: Stage, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await execute(url, DROP)
    await make_anew(url)
    await execute(url, CUT)


async def wait(stage: Stage, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await execute(url, DROP)
    await make_anew(url)
    # As if a while had passed: connections look again where they are.
    monkeypatch.setattr(links, "PLANS_KEPT", -1.0)


async def miss(stage: Stage, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await execute(url, DROP)
    with pytest.raises(StoreAway, match="does not exist"):
        await stage.store.list_workers()
    await make_anew(url)


WAYS = {"and connections cut": cut, "a while ago": wait, "and missed meanwhile": miss}


@pytest.mark.parametrize("how", WAYS)
async def test_a_run_is_started_for_its_own_tenant_and_on_its_own_lane_in_a_schema_made_anew(url, how, monkeypatch):
    async with staged(url) as stage:
        await stage.start_one()
        await WAYS[how](stage, url, monkeypatch)
        started = await answered(stage.start_one)
        listed = await stage.store.list_runs(RunFilter())
        assert [(run.id, run.workflow) for run in listed.items] == [(started, LANE.workflow)]


async def test_a_turn_is_not_written_to_the_run_that_has_the_number_of_its_own_in_a_schema_made_anew(url, monkeypatch):
    async with staged(url) as stage:
        run = await stage.held()
        assert await stage.commit(turn(run)) == [True]
        await wait(stage, url, monkeypatch)
        assert await answered(lambda: stage.commit(turn(run, after=1))) == [False]
        assert await fetch(url, "SELECT * FROM holdfast.journal") == []


async def answered(deed: Callable[[], Awaitable[object]]) -> object:
    while True:
        with contextlib.suppress(StoreAway):
            return await deed()
