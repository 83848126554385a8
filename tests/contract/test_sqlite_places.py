"""One SQLite file by several names: by a link to it, and by a path from a folder that the process has left."""

import asyncio
from pathlib import Path

import pytest

from holdfast.model import RunStatus
from holdfast.store import Store, open_store
from holdfast.testing.contract.stage import LANE, LEASE, T0, new_run, turn, until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "holdfast.db"


@pytest.fixture
def link(file: Path, tmp_path: Path) -> Path:
    """Leads to the file, before there is one."""
    found = tmp_path / "link.db"
    found.symlink_to(file)
    return found


async def opened(path: Path | str) -> Store:
    store = open_store(f"sqlite:///{path}")
    await store.open()
    return store


async def test_a_store_opened_by_a_link_hears_of_other_stores(file: Path, link: Path):
    here, there = await opened(link), await opened(file)
    told: list[int] = []
    unsubscribe = here.subscribe(lambda: told.append(1))
    for _ in range(3):
        # At first it asks without being told by the file.
        await asyncio.sleep(0.1)
        told.clear()
        await there.start_runs([new_run()], now=T0)
        assert await until(lambda: bool(told))
    unsubscribe()
    await here.close()
    await there.close()


@pytest.mark.parametrize("is_linked", [True, False])
async def test_a_dead_worker_is_found_by_every_name_of_the_file(file: Path, link: Path, is_linked: bool):
    names = (link, file) if is_linked else (file, link)
    dying, looking = [await opened(name) for name in names]
    await dying.register_worker("dying", [LANE], LEASE, now=T0)
    assert await looking.reap_workers("looking", now=T0) == []
    # As its process's end would: its lock goes, its row stays.
    await dying.close()
    assert await looking.reap_workers("looking", now=T0) == ["dying"]
    await looking.close()


async def test_opening_by_a_link_leaves_no_file_beside_the_link(link: Path):
    store = await opened(link)
    await store.register_worker("one", [LANE], LEASE, now=T0)
    await store.close()
    assert [found for found in link.parent.iterdir() if found.name.startswith("link")] == [link]


async def test_a_store_stays_where_it_was_opened_when_the_process_goes_elsewhere(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(file.parent)
    store = await opened(file.name)
    [started] = await store.start_runs([new_run()], now=T0)
    monkeypatch.chdir(tmp_path)
    other = await opened(file)
    # By the writer, a reader and the renewal, each of which connects when it is first needed.
    await store.register_worker("one", [LANE], LEASE, now=T0)
    [run] = await store.claim_runs("one", [LANE], 1, now=T0)
    assert await store.commit_turns([turn(run)], now=T0) == [True]
    assert store.renew_lease("one", LEASE, now=T0) == T0
    found = await store.get_run(started.id)
    assert found is not None
    assert found.status is RunStatus.RUNNING
    assert [row.data for row in await other.read_journal(run.id)] == [b"turn"]
    await other.close()
    await store.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["data"]
