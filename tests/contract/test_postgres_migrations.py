"""Migrations on Postgres: who may make them, what is printed, into which schema, and schemas of other versions."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from holdfast.errors import StoreError, StoreTooNew
from holdfast.model import RowChange, RunFilter, RunStatus
from holdfast.store import migration_sql, open_store
from holdfast.store.postgres.migrations import migrations
from holdfast.testing.contract.stage import LANE, LEASE, new_run, turn
from tests.servers import execute, installations

ROLE = "holdfast_worker"
DOCS = Path(__file__).parents[2] / "docs" / "postgres.md"
GRANTS = "\n".join(f"{grant} TO {ROLE};" for grant in re.findall(r"(?m)^(GRANT .*) TO app;$", DOCS.read_text("utf-8")))
"""Those that the docs name."""


@pytest.fixture
def url(postgres):
    return postgres.create_database()


@pytest.fixture
def worker_url(url):
    """The same database, as a role without rights to its schema."""
    create = f"""
    DO $$ BEGIN CREATE ROLE {ROLE} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
    REVOKE CREATE ON SCHEMA public FROM PUBLIC
    """
    asyncio.run(execute(url, create))
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{ROLE}@{parts.hostname}:{parts.port}"))


async def use(url, **options):
    """Do everything that a worker and a client do, with three runs; how many are there at the end."""
    store = open_store(url, **options)
    await store.open()
    try:
        unsubscribe = store.subscribe(lambda: None)
        await store.register_worker("one", [LANE], LEASE)
        await store.start_runs([new_run(key="k"), new_run(), new_run(key="r", on_conflict="replace")])
        runs = await store.claim_runs("one", [LANE], 10)
        assert len(runs) == 3
        await store.cancel_run(runs[0].id)
        assert len(await store.read_inbox("one")) == 1
        assert await store.commit_turns([turn(run) for run in runs]) == [True] * 3
        ended = RowChange(status=RunStatus.COMPLETED)
        assert await store.commit_turns([turn(run, after=1, change=ended) for run in runs]) == [True] * 3
        store.renew_lease("one", LEASE)
        await store.reap_workers("one")
        await store.release_strays("one", [])
        found = (await store.list_runs(RunFilter())).items
        assert len(await store.list_workflows()) == 1
        await store.remove_worker("one")
        unsubscribe()
        return len(found)
    finally:
        await store.close()


async def opened(url, **options):
    store = open_store(url, **options)
    await store.open()
    await store.close()


@pytest.mark.parametrize("migrate", [True, False])
async def test_a_role_that_may_only_read_and_write_rows_is_enough_once_the_schema_is_there(url, worker_url, migrate):
    # As in a database whose owner gives nothing to everybody.
    await execute(url, "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
    await opened(url)
    await execute(url, GRANTS)
    assert await use(worker_url, migrate=migrate) == 3
    assert await use(worker_url, migrate=migrate, namespace="another") == 3


async def test_a_role_that_may_not_migrate_is_told_who_should(url, worker_url):
    with pytest.raises(StoreError, match="holdfast migrate"):
        await opened(worker_url)


async def test_a_role_without_grants_is_told_what_is_missing(url, worker_url):
    await opened(url)
    with pytest.raises(StoreError, match=r"Grant the role .*docs/postgres\.md"):
        await opened(worker_url)


@pytest.mark.parametrize("schema", [None, "tenant_7"])
async def test_the_printed_statements_create_the_whole_schema(url, schema):
    await execute(url, migration_sql(url, schema=schema))
    assert await use(url, schema=schema, migrate=False) == 3


@pytest.mark.parametrize("schema", [None, "tenant_7"])
async def test_the_statements_printed_for_an_old_schema_are_those_that_it_lacks(url, schema, monkeypatch):
    await execute(url, migration_sql(url, schema=schema))
    known = migrations()
    later = [*known, (len(known) + 1, "CREATE TABLE holdfast.later (number integer);")]
    monkeypatch.setattr("holdfast.store.postgres.migrations.migrations", lambda: later)
    await execute(url, migration_sql(url, schema=schema, after=len(known)))
    assert await use(url, schema=schema, migrate=False) == 3


def test_psql_executes_what_the_command_prints(url):
    command = [sys.executable, "-m", "holdfast", "migrate", "--sql", "--url", url]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "src"}
    )
    psql = installations()[0].bin / "psql"
    subprocess.run([psql, "-v", "ON_ERROR_STOP=1", "-q", url], input=printed.stdout, text=True, check=True)
    assert asyncio.run(use(url, migrate=False)) == 3


async def test_two_schemas_of_one_database_know_nothing_of_each_other(url):
    assert await use(url) == 3
    assert await use(url, schema="other") == 3


async def advisory_locks(url, **options):
    """Those that a caller's transaction holds that has started a run with a key, and sent to one."""
    store = open_store(url, **options)
    await store.open()
    connection = await asyncpg.connect(url)
    try:
        await store.start_runs([new_run(id="sent to")])
        async with connection.transaction():
            guest = store.guest(connection)
            await guest.start_runs([new_run(key="k", on_conflict="restart")])
            await guest.send_signal("sent to", "n", b"")
            held = "FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
            return {tuple(row) for row in await connection.fetch(f"SELECT classid, objid, objsubid {held}")}
    finally:
        await connection.close()
        await store.close()


async def test_a_key_held_by_a_transaction_in_one_schema_holds_up_nobody_in_another(url):
    here, there = await advisory_locks(url), await advisory_locks(url, schema="other")
    assert len(here) == len(there) == 2
    assert here.isdisjoint(there)


async def test_without_migrating_a_schema_that_is_missing_is_refused(url):
    with pytest.raises(StoreError, match="holdfast migrate"):
        await opened(url, migrate=False)


@pytest.mark.parametrize("table", ["runs (id text)", "migrations (id text)", "migrations (number integer)"])
async def test_a_schema_with_tables_of_another_application_by_the_same_names_is_refused(url, table):
    await execute(url, f"CREATE TABLE public.{table}")
    with pytest.raises(StoreError, match=r"another application.* choose another schema"):
        await opened(url, schema="public")


async def test_a_newer_schema_that_old_workers_can_live_with_is_accepted(url):
    await opened(url)
    await execute(url, "INSERT INTO holdfast.migrations (number, applied_at) VALUES (999, 0)")
    assert await use(url) == 3
    assert await use(url, migrate=False, namespace="another") == 3


async def test_a_newer_schema_that_old_workers_can_not_live_with_is_refused(url):
    await opened(url)
    await execute(url, "INSERT INTO holdfast.migrations (number, applied_at) VALUES (1001, 0)")
    with pytest.raises(StoreTooNew, match="1001"):
        await opened(url)
