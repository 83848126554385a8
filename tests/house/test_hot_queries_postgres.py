"""No hot query of Postgres walks a table: each is explained among many rows, and the buffers of a claim are counted.

Plans are asked for as the store gets them: with its own settings, which make a walk look dear, and both with values and
without, since a statement that was prepared is planned anew only a few times.
"""

import asyncio
import json
import re
from types import SimpleNamespace

import asyncpg
import pytest

from holdfast.model import SECOND, RunFilter
from holdfast.store import open_store
from holdfast.store.listing import fragments
from holdfast.store.postgres.connections import connect, parse_target
from holdfast.store.postgres.statements import blocks_for

BLOCKS = blocks_for("holdfast")
MANY = 20_000
NOW = 1_800_000_000 * SECOND
BIG = {"runs", "starts", "journal", "inbox", "keys", "waits"}
FRAGMENTS = {"get_run", "find_run", "read_ended"}
LISTING = {"list_runs", "select_runs"} | {
    name for name in BLOCKS if name.startswith(("and_", "list_by_", "end_")) and name != "end_run"
}
NOT_EXPLAINED = {"create_schema", "create_migrations", "settle_constraints"}
WHOLE = re.compile(r"\(namespace_id = \S+\)")
"""A condition that is true of every row of a tenant."""
SMALL = {"runs_after", "runs_by_owner", "waits_unmatched"}
"""Indexes that hold only what is to be found by walking them."""
# Counting all runs is not for hot paths, and says so.
MAY_WALK = {"list_workflows"}
VALUES = {
    "namespace_id": 1, "now": NOW, "owner": "owner-7", "generation": 0, "lanes": [1, 2], "limit": 100, "reach": 400,
    "floor": 0, "run_id": "parked-77", "of_any_lane": False, "runs": [7, 8, 9], "ids": ["parked-77", "ended-8"],
    "id": "parked-77", "workflow": "ship", "key": "key-9", "run": 7, "lane_id": 1, "payload": b"", "next_seq": 3,
    "epoch": 2, "seqs": [5, 5, 5], "epochs": [1, 1, 1], "ats": [NOW] * 3, "datas": [b"x"] * 3,
    "workers": ["owner-7", "owner-9"], "gone": [], "held": ["owned-77"], "name": "default", "number": 9,
    "changing": [True, True, False], "changed": [7, 8], "statuses": ["waiting", "completed"], "due_ats": [NOW, None],
    "ended_ats": [None, NOW], "released": [True, True], "next_seqs": [6, 6], "crashes": [0, 0], "blocked": [None] * 2,
    "outputs": [None, b"x"], "errors": [None, None], "taken_runs": [7], "taken_ids": [7], "channel": "c", "sender": "s",
    "lease": 30 * SECOND, "host": "h", "pid": 1, "has_lock": False, "workflows": ["ship"], "versions": ["1"],
    "queues": ["default"], "declared": [None], "owners": ["owner-7"] * 2,
}  # fmt: skip
FILL = """
INSERT INTO holdfast.lanes (namespace_id, workflow, version, queue)
VALUES (1, 'ship', '1', 'default'), (1, 'send', '2', 'slow'), (1, 'unknown', '1', 'default');
INSERT INTO holdfast.workers (started_at, renewed_at, lease_until, namespace_id, pid, has_lock, id, host, lanes)
SELECT 0, 0, {now}, 1, 1, false, 'owner-' || n, 'h', '[]' FROM generate_series(1, 20) AS n;
INSERT INTO holdfast.runs (namespace_id, id, lane_id, status, priority, created_at, due_at, owner, ended_at, started_at,
    next_seq, blocked, after_run_id)
SELECT 1, kind.name || '-' || n, 1 + n % 3, kind.status, n % 10, n,
    CASE kind.name WHEN 'parked' THEN {now} + n WHEN 'due' THEN {now} - n END,
    CASE WHEN kind.name = 'owned' THEN 'owner-' || (n % 20) END, CASE WHEN kind.name = 'ended' THEN {now} END,
    CASE WHEN kind.name <> 'after' THEN 0 END,
    CASE WHEN kind.name <> 'owned' THEN 2 END, CASE WHEN kind.name = 'parked' AND n % 1000 = 0 THEN 'reason' END,
    CASE WHEN kind.name = 'after' THEN 'owned-' || n END
FROM (VALUES ('ended', 'completed', {many}), ('parked', 'waiting', {many}), ('owned', 'running', 2000),
    ('asleep', 'waiting', 2000), ('after', 'pending', 1000), ('due', 'pending', 300)) AS kind (name, status, many)
CROSS JOIN LATERAL generate_series(1, kind.many) AS n;
INSERT INTO holdfast.starts (number, due_at, input, seed, key, tags, parent_id, on_parent_end)
SELECT number, 0, '\\x', '\\x', 'key-' || number % 5000, '{{}}', 'parent-' || number % 5000, 'cancel'
FROM holdfast.runs;
INSERT INTO holdfast.keys (run, namespace_id, workflow, key)
SELECT number, 1, 'ship', 'key-' || number FROM holdfast.runs WHERE number < 20000;
INSERT INTO holdfast.journal (run, at, seq, epoch, data)
SELECT number, 0, seq, 1, '\\x00' FROM holdfast.runs CROSS JOIN generate_series(0, 1) AS seq;
INSERT INTO holdfast.inbox (run, sent_at, lane_id, fresh, kind, payload)
SELECT number, number, lane_id, id LIKE 'owned-%' AND number % 100 = 0, 'signal', '\\x'
FROM holdfast.runs WHERE ended_at IS NULL;
INSERT INTO holdfast.waits (run, registered_at, since, number, namespace_id, unmatched, kind, name, probe)
SELECT number, 0, 0, 1, 1, false, 'event', 'paid', '\\x' FROM holdfast.runs WHERE id LIKE 'asleep-%'
"""


def filled(url, many=MANY, *, with_statistics=True):
    """A store's database with many runs of every kind in it."""

    async def fill():
        store = open_store(url)
        await store.open()
        await store.close()
        connection = await asyncpg.connect(url)
        await connection.execute(FILL.format(now=NOW, many=many))
        if with_statistics:
            await connection.execute("ANALYZE")
        await connection.close()

    asyncio.run(fill())
    return url


@pytest.fixture(scope="module")
def url(postgres):
    return filled(postgres.create_database())


def statements():
    """Every whole statement, by name."""
    for name in BLOCKS:
        if name in FRAGMENTS:
            yield name, BLOCKS.statement("select_runs", name)
        elif name not in LISTING and name not in NOT_EXPLAINED:
            yield name, BLOCKS.statement(name)


def nodes(plan):
    """Every node of a plan."""
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


async def plans_of(connection, statement, values):
    """The plan for these values, and the one that is kept for any."""
    known = [values.get(name) for name in statement.names]
    with_values = await connection.fetchval(f"EXPLAIN (VERBOSE, FORMAT JSON) {statement.text}", *known)
    await connection.execute(f"SET plan_cache_mode = force_generic_plan; PREPARE hot AS {statement.text}")
    given = f"({', '.join(['NULL'] * len(known))})" if known else ""
    without = await connection.fetchval(f"EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE hot {given}")
    await connection.execute("DEALLOCATE hot; RESET plan_cache_mode")
    return [json.loads(found)[0]["Plan"] for found in (with_values, without)]


def bare(condition):
    """Without the names of tables, which are numbered where one is there more than once."""
    return re.sub(r"\b\w+\.", "", condition)


def walks(plan):
    """Tables that are walked whole: without an index, or by one without a condition on it that chooses."""
    found = []
    for node in nodes(plan):
        condition = bare(node.get("Index Cond", ""))
        is_whole = node["Node Type"] == "Seq Scan" or (
            node["Node Type"] in ("Index Scan", "Index Only Scan", "Bitmap Index Scan")
            and (not condition or WHOLE.fullmatch(condition) is not None)
            and node["Index Name"] not in SMALL
        )
        table = node.get("Relation Name") or node.get("Index Name", "").partition("_")[0]
        if is_whole and table in BIG:
            found.append(f"{node['Node Type']} {table} {node.get('Index Name', '')}")
    return found


def on_connection(url, act):
    """Do it on a connection with the store's own settings."""

    async def run():
        connection = await connect(parse_target(url, url))
        try:
            return await act(connection)
        finally:
            await connection.close()

    return asyncio.run(run())


@pytest.mark.parametrize(("name", "statement"), [pytest.param(*found, id=found[0]) for found in statements()])
def test_no_statement_walks_a_table(url, name, statement):
    if name in MAY_WALK:
        return
    values = {**VALUES, **VALUES_OF.get(name, {})}
    for plan in on_connection(url, lambda connection: plans_of(connection, statement, values)):
        assert walks(plan) == []


@pytest.mark.parametrize(
    "name", ["claim_runs", "change_runs", "tell_ends", "deliver_event", "mark_waits", "close_waits"]
)
def test_no_statement_walks_a_table_of_which_nothing_is_known(unknown, name):
    values = {**VALUES, **VALUES_OF.get(name, {})}
    _, kept = on_connection(unknown, lambda connection: plans_of(connection, BLOCKS.statement(name), values))
    assert walks(kept) == []


@pytest.fixture(scope="module")
def unknown(postgres):
    """Many rows, and no statistics: as it is until autovacuum comes round for the first time."""
    return filled(postgres.create_database(), with_statistics=False)


@pytest.mark.parametrize("name", ["next_due", "read_inbox", "commit_turns", "read_journals"])
def test_a_plan_made_while_there_were_a_few_rows_does_not_walk_when_there_are_many(tiny, name):
    statement = BLOCKS.statement(name)
    _, kept = on_connection(tiny, lambda connection: plans_of(connection, statement, VALUES))
    assert walks(kept) == []


@pytest.mark.parametrize("name", ["claim_runs", "next_due"])
def test_a_claim_goes_by_its_index_while_statistics_are_behind(tiny, name):
    more = """
    INSERT INTO holdfast.runs (namespace_id, id, lane_id, status, priority, created_at, due_at)
    SELECT 1, 'more-' || n, 1, 'pending', 0, n, n FROM generate_series(1, 20000) AS n;
    UPDATE holdfast.runs SET status = 'completed', due_at = NULL WHERE number > 3
    """

    async def plans(connection):
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(more)
        found = await plans_of(connection, BLOCKS.statement(name), VALUES)
        await transaction.rollback()
        return found

    for plan in on_connection(tiny, plans):
        assert "runs_listed" not in [node.get("Index Name") for node in nodes(plan)]


@pytest.fixture(scope="module")
def tiny(postgres):
    url = filled(postgres.create_database(), 1)

    async def empty(connection):
        for table, number in (
            ("inbox", "run"),
            ("journal", "run"),
            ("keys", "run"),
            ("starts", "number"),
            ("runs", "number"),
        ):
            await connection.execute(f"DELETE FROM holdfast.{table} WHERE {number} > 3")
        await connection.execute("VACUUM FULL ANALYZE")

    on_connection(url, empty)
    return url


VALUES_OF = {
    "start_runs": {
        "ids": ["new"], "lanes": [1], "priorities": [0], "delays": [0], "due_ats": [None], "deadlines": [None],
        "deadline_ats": [None], "next_seqs": [0], "after_run_ids": [None], "inputs": [b""], "seeds": [b""],
        "keys": ["new"], "tags": ["{}"], "retentions": [None], "chain_ids": [None], "parent_ids": [None],
        "forked_froms": [None], "traces": [None], "journal_ids": [], "journal_seqs": [], "journal_datas": [],
    },
    "register_worker": {"lanes": "[]"},
    "next_generation": {"id": "owner-7", "generation": 1},
    "find_turns": {"seqs": [1, 1, 1]},
    "write_rows": {"epochs": [1, 1]},
    "find_held": {"epochs": [1, 1]},
    "find_newer_events": {
        "run": 1, "name": "name-7", "seen_at": 1, "seen_id": 1, "matched_since": 1, "since": 1, "limit": 10,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "index", "condition"),
    [
        ("claim_runs", "runs_claimable", "(lane_id = lane_id) AND (priority = priority)"),
        ("claim_runs", "inbox_fresh", "lane_id = lane_id"),
        ("claim_runs", "runs_paused", "lane_id = lane_id"),
        ("claim_run", "runs_by_id", "id ="),
        ("next_due", "runs_claimable", "(lane_id = lane_id) AND (priority = priority)"),
        ("next_due", "inbox_fresh", "lane_id = lane_id"),
        ("next_due", "runs_paused", "lane_id = lane_id"),
        ("read_inbox", "inbox_fresh", "lane_id = id"),
        ("reap_workers", "runs_by_owner", "owner = id"),
        ("release_strays", "runs_by_owner", "owner ="),
        ("wake_followers", "runs_after", "after_run_id = id"),
        ("wake_missed", "runs_after", "namespace_id ="),
        ("wake_blocked", "runs_blocked", "lane_id = ANY"),
        ("free_inboxes", "inbox_by_run", "run = ANY"),
        ("read_journals", "journal_pkey", "run = ANY"),
        ("find_turns", "journal_pkey", "seq = seq"),
        ("change_runs", "runs_pkey", "number ="),
        ("change_runs", "runs_after", "after_run_id = id"),
        ("write_rows", "runs_by_id", "id = id"),
        ("find_newer_events", "events_by_name", "published_at"),
    ],
)
def test_a_hot_statement_goes_by_its_index(url, name, index, condition):
    values = {**VALUES, **VALUES_OF.get(name, {})}
    for plan in on_connection(url, lambda connection: plans_of(connection, BLOCKS.statement(name), values)):
        found = [node.get("Index Cond", "") for node in nodes(plan) if node.get("Index Name") == index]
        assert [one for one in found if condition in bare(one)], found


@pytest.mark.parametrize(
    "where",
    [
        RunFilter(),
        RunFilter(workflow="ship"),
        RunFilter(status="failed"),
        RunFilter(key="key-9"),
        RunFilter(parent="parent-9"),
        RunFilter(workflow="ship", status=("failed", "running"), key="key-9", parent="parent-9"),
    ],
    ids=["all", "workflow", "status", "key", "parent", "everything"],
)
@pytest.mark.parametrize("after", [None, (1, 1)], ids=["first page", "next page"])
def test_a_listing_walks_along_an_index(url, where, after):
    names, params = fragments(where, after)
    statement = BLOCKS.statement(*names)
    values = {**params, "namespace_id": 1, "limit": 10}
    index = "starts_by_key" if where.key else "starts_by_parent" if where.parent else "runs_listed"
    for plan in on_connection(url, lambda connection: plans_of(connection, statement, values)):
        assert walks(plan) == []
        assert index in [node.get("Index Name") for node in nodes(plan)]


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
        ("read_ended", {}),
    ],
)
def test_the_pages_touched_do_not_grow_with_runs_that_are_parked_or_ended(url, few, name, values):
    if name in FRAGMENTS:
        return
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
INSERT INTO holdfast.inbox (run, sent_at, lane_id, kind, payload)
SELECT number, due_at, 1, 'signal', '\\x' FROM holdfast.runs WHERE id LIKE 'churned-%';
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
