"""What a start by name asks for opens the lanes of each worker once, however many versions were ever registered."""

import json

import pytest

from tests.house.test_hot_queries import SQL, connection
from tests.house.test_hot_queries_postgres import most_rows, undone

__all__ = ["connection"]

WORKERS, LANES, VERSIONS = 10, 20, 500
WORKER_LANES = json.dumps([["ship", "v1", f"q{number}"] for number in range(LANES)])
GIVEN = {"namespace_id": 1, "workflow": "ship", "event": "paid", "now": 1}


@pytest.mark.parametrize("name", ["list_versions", "list_triggers"])
def test_sqlite_opens_no_lanes_for_each_version(connection, name):
    def add_versions(first, count):
        connection.executemany(
            "INSERT INTO registered (namespace_id, workflow, version, first_at, declared, on_event)"
            " VALUES (1, 'ship', ?, 0, '{}', 'paid')",
            [(f"v{number}",) for number in range(first, first + count)],
        )

    def work():
        nonlocal count
        count = 0
        connection.set_progress_handler(tick, 1)
        assert len(connection.execute(SQL[name], GIVEN).fetchall()) in (1, 1 + VERSIONS)
        connection.set_progress_handler(None, 0)
        return count

    def tick():
        nonlocal count
        count += 1

    count = 0
    connection.executemany(
        "INSERT INTO workers (namespace_id, id, host, pid, has_lock, started_at, renewed_at, lease_until, lanes)"
        " VALUES (1, ?, '', 1, 0, 0, 0, 9, ?)",
        [(f"worker-{number}", WORKER_LANES) for number in range(WORKERS)],
    )
    add_versions(1, 1)
    before = work()
    add_versions(2, VERSIONS)
    assert work() - before <= 100 * VERSIONS


@pytest.mark.parametrize("name", ["list_versions", "list_triggers"])
def test_postgres_opens_no_lanes_for_each_version(url, name):
    async def executed(connection):
        await connection.execute("DELETE FROM holdfast.workers; DELETE FROM holdfast.registered")
        await connection.execute(
            "INSERT INTO holdfast.workers"
            " (namespace_id, id, host, pid, has_lock, started_at, renewed_at, lease_until, lanes)"
            " SELECT 1, 'worker-' || number, '', 1, false, 0, 0, 9, $1 FROM generate_series(1, $2::integer) AS number",
            WORKER_LANES,
            WORKERS,
        )
        await connection.execute(
            "INSERT INTO holdfast.registered (namespace_id, workflow, version, first_at, declared, on_event)"
            " SELECT 1, 'ship', 'v' || number, 0, '{}', 'paid' FROM generate_series(1, $1::integer) AS number",
            VERSIONS,
        )
        return await most_rows(connection, name, GIVEN)

    assert undone(url, executed) <= 2 * VERSIONS
