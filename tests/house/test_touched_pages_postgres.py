"""The pages that hot queries of Postgres touch do not grow with runs that they have nothing to do with."""

import asyncio
import json
from types import SimpleNamespace

import asyncpg
import pytest

from holdfast.model import SECOND
from holdfast.store.postgres.connections import connect, parse_target
from tests.house.filled_postgres import BLOCKS, MANY, NOW, VALUES, VALUES_OF, filled, on_connection


async def buffers(connection, name, **values):
    """How many pages a statement touches. What it changes is undone."""
    statement = BLOCKS.statement(name)
    given = statement.values({**VALUES, **VALUES_OF.get(name, {}), **values})
    transaction = connection.transaction()
    await transaction.start()
    try:
        text = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.text}"
        await connection.fetchval(text, *given)
        plan = json.loads(await connection.fetchval(text, *given))[0]["Plan"]
    finally:
        await transaction.rollback()
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("claim_runs", {"limit": 1, "reach": 4}),
        ("claim_run", {"run_id": "due-3"}),
        ("next_due", {}),
        ("read_inbox", {}),
        ("list_owners", {}),
        ("wake_missed", {}),
    ],
)
def test_the_pages_touched_do_not_grow_with_runs_that_are_parked_or_ended(url, few, name, values):
    before = on_connection(few, lambda connection: buffers(connection, name, **values))
    # An index of many rows may be one level deeper.
    assert on_connection(url, lambda connection: buffers(connection, name, **values)) <= before * 2 + 20


@pytest.fixture(scope="module")
def few(postgres):
    return filled(postgres.create_database(), 100)


def test_the_pages_touched_to_find_owners_do_not_grow_with_what_they_own(postgres):
    url = filled(postgres.create_database(), 100)
    more = """
    INSERT INTO holdfast.runs (namespace_id, id, lane_id, status, priority, created_at, owner)
    SELECT 1, 'more-' || n, 1, 'running', 0, n, 'owner-' || (n % 20) FROM generate_series(1, 20000) AS n
    """

    async def measure(connection):
        before = await buffers(connection, "list_owners")
        await connection.execute(more)
        await connection.execute("VACUUM ANALYZE holdfast.runs")
        return before, await buffers(connection, "list_owners")

    before, after = on_connection(url, measure)
    assert after <= before * 2 + 20


CHURN = """
INSERT INTO holdfast.runs (namespace_id, id, lane_id, status, priority, created_at, due_at, next_seq)
SELECT 1, 'churned-' || n, 1, 'pending', 0, n, {now} - 3600 * 1000000::bigint + n, 0
FROM generate_series(1, {many}) AS n;
INSERT INTO holdfast.inbox (run, sent_at, lane_id, priority, kind, payload)
SELECT number, due_at, 1, priority, 'signal', '\\x' FROM holdfast.runs WHERE id LIKE 'churned-%';
UPDATE holdfast.runs SET owner = 'owner-1', status = 'running' WHERE id LIKE 'churned-%';
UPDATE holdfast.runs SET owner = NULL, due_at = NULL, status = 'completed', ended_at = {now} WHERE id LIKE 'churned-%';
DELETE FROM holdfast.inbox WHERE sent_at > 1000000000;
VACUUM holdfast.runs;
VACUUM holdfast.inbox
"""


@pytest.fixture(scope="module")
def rotten(postgres):
    """A database where many runs came and went while somebody held an old snapshot: pages without and with a floor."""
    url = filled(postgres.create_database(), 100)

    async def measure():
        connection = await connect(parse_target(url, url))
        reader = await asyncpg.connect(url)
        snapshot = reader.transaction(isolation="repeatable_read")
        await snapshot.start()
        await reader.fetchval("SELECT count(*) FROM holdfast.runs")
        fresh = {name: await buffers(connection, name) for name in ("claim_runs", "next_due", "read_inbox")}
        for statement in CHURN.format(now=NOW, many=MANY).split(";"):
            await connection.execute(statement)
        floor = NOW - SECOND
        whole = {name: await buffers(connection, name) for name in fresh}
        floored = {name: await buffers(connection, name, floor=floor) for name in fresh}
        await snapshot.rollback()
        await reader.close()
        await connection.close()
        return SimpleNamespace(fresh=fresh, whole=whole, floored=floored)

    return asyncio.run(measure())


@pytest.mark.parametrize("name", ["claim_runs", "next_due", "read_inbox"])
def test_a_floor_spares_the_walk_over_what_is_dead_under_an_old_snapshot(rotten, name):
    assert rotten.whole[name] > rotten.fresh[name] + 200
    assert rotten.floored[name] <= rotten.fresh[name] * 1.5 + 20


TELL = """
INSERT INTO holdfast.inbox (run, sent_at, lane_id, priority, kind, payload)
SELECT number, number, lane_id, priority, 'signal', '\\x'
FROM holdfast.runs WHERE id LIKE 'parked-%' AND number > {after}
"""


def test_the_pages_touched_by_a_claim_do_not_grow_with_all_the_runs_that_were_told_something(postgres):
    url = filled(postgres.create_database(), 5000)

    async def measure(connection):
        found = []
        for more in (TELL.format(after=9000), TELL.format(after=0)):
            await connection.execute(more)
            await connection.execute("VACUUM ANALYZE holdfast.inbox")
            found.append([await buffers(connection, name, most=30) for name in ("claim_runs", "next_due")])
        return found

    before, after = on_connection(url, measure)
    assert all(more <= some * 1.2 + 20 for some, more in zip(before, after, strict=True)), (before, after)


UNFITTING = """
INSERT INTO holdfast.events (published_at, matched_at, namespace_id, unmatched, name, payload)
SELECT 1000000 + n, 1000000 + n, 1, false, 'name-7', '\\x' FROM generate_series({first}, {last}) AS n;
INSERT INTO holdfast.event_probes (published_at, event, matched_at, namespace_id, probe)
SELECT published_at, id, matched_at, 1, '\\x09' FROM holdfast.events
WHERE published_at BETWEEN 1000000 + {first} AND 1000000 + {last};
VACUUM ANALYZE holdfast.events;
VACUUM ANALYZE holdfast.event_probes
"""


@pytest.mark.parametrize("matched_since", [None, 1], ids=["first look", "later look"])
def test_the_pages_touched_by_a_look_back_do_not_grow_with_events_that_the_wait_cannot_match(postgres, matched_since):
    url = filled(postgres.create_database(), 100)

    async def measure(connection):
        found = []
        for first, last in ((1, 5000), (5001, 20_000)):
            for statement in UNFITTING.format(first=first, last=last).split(";"):
                await connection.execute(statement)
            found.append(await buffers(connection, "find_probed_events", matched_since=matched_since))
        return found

    before, after = on_connection(url, measure)
    assert after <= before * 1.2 + 20
