"""No hot query of Postgres walks a table: each is explained among many rows.

Plans are asked for as the store gets them: with its own settings, which make a walk look dear, and both with values and
without, since a statement that was prepared is planned anew only a few times.
"""

import json
import re

import pytest

from holdfast.model import RunFilter
from holdfast.store.listing import fragments
from tests.house.filled_postgres import BLOCKS, VALUES, VALUES_OF, filled, migrated, on_connection

BIG = {"runs", "starts", "journal", "inbox", "keys", "waits", "events", "taken_events", "event_probes"}
FRAGMENTS = {"get_run", "find_run", "read_ended"}
LISTING = {"list_runs", "select_runs"} | {
    name for name in BLOCKS if name.startswith(("and_", "list_by_", "end_")) and name != "end_run"
}
NOT_EXPLAINED = {"create_schema", "create_migrations", "settle_constraints", "begin_look", "undo_look", "end_look"}
WHOLE = re.compile(r"\(namespace_id = \S+\)")
"""A condition that is true of every row of a tenant."""
SMALL = {"runs_after", "runs_by_owner", "waits_unmatched"}
"""Indexes that hold only what is to be found by walking them."""
BARE_RUNS = """
INSERT INTO holdfast.runs (namespace_id, id, lane_id, status, priority, created_at)
SELECT 1, 'parked-' || n, 1, 'waiting', 0, n FROM generate_series(1, {many}) AS n
"""
BARE_STARTS = """
INSERT INTO holdfast.starts (number, due_at, input, seed, tags, parent_id, on_parent_end)
SELECT number, 0, '', '', '', 'parked-7', 'cancel' FROM holdfast.runs
"""
# Counting all runs is not for hot paths, and says so.
MAY_WALK = {"list_workflows"}


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


@pytest.mark.parametrize(("name", "statement"), [pytest.param(*found, id=found[0]) for found in statements()])
def test_a_plan_made_before_the_first_row_does_not_walk_when_there_are_many(empty, name, statement):
    if name in MAY_WALK:
        return
    values = {**VALUES, **VALUES_OF.get(name, {})}
    _, kept = on_connection(empty, lambda connection: plans_of(connection, statement, values))
    assert walks(kept) == []


@pytest.fixture(scope="module")
def empty(postgres):
    """As the first worker finds it, which keeps its plans until autovacuum has come round."""
    return migrated(postgres.create_database())


@pytest.fixture(scope="module")
def written(postgres):
    """Without statistics, for rows that are rolled back. Not in `empty`: autovacuum sees them, and its plans change."""
    return migrated(postgres.create_database())


@pytest.mark.parametrize("name", ["next_due", "read_inbox", "commit_turns", "read_journals"])
def test_a_plan_made_while_there_were_a_few_rows_does_not_walk_when_there_are_many(tiny, name):
    statement = BLOCKS.statement(name)
    _, kept = on_connection(tiny, lambda connection: plans_of(connection, statement, VALUES))
    assert walks(kept) == []


def test_a_claim_planned_for_a_few_dozen_runs_does_not_walk_when_there_are_many(few):
    _, kept = on_connection(few, lambda connection: plans_of(connection, BLOCKS.statement("claim_runs"), VALUES))
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
    return with_runs(postgres, 3)


@pytest.fixture(scope="module")
def few(postgres):
    return with_runs(postgres, 60)


def with_runs(postgres, kept):
    """So many runs, which the statistics know."""
    url = filled(postgres.create_database(), 1)

    async def remove(connection):
        for table, number in (
            ("inbox", "run"),
            ("journal", "run"),
            ("keys", "run"),
            ("starts", "number"),
            ("runs", "number"),
        ):
            await connection.execute(f"DELETE FROM holdfast.{table} WHERE {number} > {kept}")
        await connection.execute("VACUUM FULL ANALYZE")

    on_connection(url, remove)
    return url


@pytest.mark.parametrize(
    ("name", "index", "condition"),
    [
        ("claim_runs", "runs_claimable", "(lane_id = lane_id) AND (priority = priority)"),
        ("claim_runs", "runs_suspect", "lane_id = lane_id"),
        ("claim_runs", "inbox_fresh", "lane_id = lane_id"),
        ("claim_runs", "runs_paused", "lane_id = lane_id"),
        ("claim_run", "runs_by_id", "id ="),
        ("find_kept_chains", "starts_by_chain", "chain_id ="),
        ("next_due", "runs_claimable", "(lane_id = lane_id) AND (priority = priority)"),
        ("next_due", "runs_suspect", "lane_id = lane_id"),
        ("next_due", "inbox_fresh", "lane_id = lane_id"),
        ("next_due", "runs_paused", "lane_id = lane_id"),
        ("read_inbox", "inbox_fresh", "lane_id = id"),
        ("reap_workers", "runs_by_owner", "owner = id"),
        ("release_strays", "runs_by_owner", "owner ="),
        ("wake_heirs", "runs_after", "after_run_id = id"),
        ("wake_missed", "runs_after", "namespace_id ="),
        ("wake_blocked", "runs_blocked", "lane_id = ANY"),
        ("free_inboxes", "inbox_by_run", "run = ANY"),
        ("read_journals", "journal_pkey", "run = ANY"),
        ("find_turns", "journal_pkey", "seq = seq"),
        ("change_runs", "runs_pkey", "number ="),
        ("change_runs", "runs_after", "after_run_id = id"),
        ("write_rows", "runs_by_id", "id = id"),
        ("find_newer_events", "events_by_name", "published_at"),
        ("find_newer_events", "events_unmatched_by_name", "(published_at - 0) <="),
        ("find_probed_events", "event_probes_pkey", "(probe = probe) AND (ROW(published_at, event) >"),
        ("find_probed_events", "event_probes_by_match", "matched_at >="),
        ("find_probed_events", "events_unmatched_by_name", "ROW((published_at - 0), id) >"),
        ("delete_probes", "event_probes_by_event", "event = ANY"),
        ("mark_matched", "events_pkey", "id = ANY"),
        ("read_unmatched", "events_unmatched", "ROW((published_at + 0), id) >"),
        ("find_missed", "followers_pkey", "ROW(run, follower) >"),
    ],
)
def test_a_hot_statement_goes_by_its_index(url, name, index, condition):
    values = {**VALUES, **VALUES_OF.get(name, {})}
    for plan in on_connection(url, lambda connection: plans_of(connection, BLOCKS.statement(name), values)):
        found = [node.get("Index Cond", "") for node in nodes(plan) if node.get("Index Name") == index]
        assert [one for one in found if condition in bare(one)], found


@pytest.mark.parametrize("name", ["read_inbox", "release_strays"])
def test_what_a_worker_has_already_is_not_compared_with_each_row(url, name):
    for plan in on_connection(url, lambda connection: plans_of(connection, BLOCKS.statement(name), VALUES)):
        assert any("hashed SubPlan" in node.get("Filter", "") for node in nodes(plan))


@pytest.mark.parametrize("name", ["send_signals", "send_cancels"])
@pytest.mark.parametrize("place", ["url", "written"])
def test_what_a_turn_sends_to_many_runs_is_not_compared_each_with_each(request, place, name):
    many = 300
    given = {
        "namespace_id": 1, "now": 0, "places": [*range(many)], "ids": [f"parked-{n}" for n in range(1, many + 1)],
        "names": ["news"] * many, "payloads": [b""] * many, "traces": [None] * many, "parents": [7] * many,
    }  # fmt: skip  # one line a group reads better here

    async def executed(connection):
        if place == "written":
            await connection.execute(f"{BARE_RUNS.format(many=many)}; {BARE_STARTS}")
        return await most_rows(connection, name, given)

    assert undone(request.getfixturevalue(place), executed) <= 10 * many


@pytest.mark.parametrize(
    ("name", "given", "prepared"),
    [
        (
            "find_followed",
            {
                "askers": [7] * 300,
                "parent_keys": [f"key-{n}" for n in range(300)],
                "ids": [f"never-begun-{n}" for n in range(300)],
            },
            """
            INSERT INTO holdfast.followers (run, follower, parent_key)
            SELECT runs.number, 7, 'key-' || n FROM generate_series(0, 149) AS n
            JOIN holdfast.runs ON runs.id = 'parked-' || n + 10;
            UPDATE holdfast.starts SET parent_id = (SELECT asker.id FROM holdfast.runs AS asker WHERE asker.number = 7),
                parent_key = 'key-' || n
            FROM generate_series(150, 299) AS n
            JOIN holdfast.runs ON runs.id = 'parked-' || n
            WHERE starts.number = runs.number
            """,
        ),
        (
            "move_strays",
            {"floor": 0},
            """
            INSERT INTO holdfast.lanes (namespace_id, workflow, version, queue) VALUES (1, 'ended', '1', 'default');
            UPDATE holdfast.runs SET ended_at = 1, status = 'completed'
            WHERE id IN (SELECT 'parked-' || n FROM generate_series(1, 300) AS n);
            INSERT INTO holdfast.inbox (run, lane_id, priority, kind, payload, sent_at)
            SELECT runs.number, lanes.id, runs.priority, 'signal', '', 1
            FROM holdfast.runs JOIN holdfast.lanes ON lanes.workflow = 'ended'
            WHERE runs.ended_at = 1
            """,
        ),
    ],
)
@pytest.mark.parametrize("place", ["url", "written"])
def test_messages_that_find_their_runs_elsewhere_are_not_compared_each_with_each(request, place, name, given, prepared):
    many = 300

    async def executed(connection):
        if place == "written":
            await connection.execute(f"{BARE_RUNS.format(many=many)}; {BARE_STARTS}")
        await connection.execute(prepared)
        return await most_rows(connection, name, {"namespace_id": 1, **given})

    assert undone(request.getfixturevalue(place), executed) <= 10 * many


def test_the_ends_of_many_parents_are_not_compared_with_the_children_of_all(url):
    parents, each = 100, 10

    async def executed(connection):
        await connection.execute(
            "UPDATE holdfast.starts SET parent_id = 'parked-' || 1 + number % $1::bigint WHERE number <= $2::bigint",
            parents,
            parents * each,
        )
        ids = [f"parked-{place}" for place in range(1, parents + 1)]
        rows = await connection.fetch("SELECT number FROM holdfast.runs WHERE id = ANY ($1::text[])", ids)
        numbers = [number for (number,) in rows]
        nothing, zeros = [None] * parents, [0] * parents
        given = {
            "runs": numbers, "seqs": [9] * parents, "epochs": zeros, "ats": zeros, "datas": [b""] * parents,
            "changing": [True] * parents, "changed": numbers, "statuses": ["completed"] * parents, "due_ats": nothing,
            "ended_ats": [1] * parents, "released": [True] * parents, "next_seqs": [1] * parents, "crashes": zeros,
            "blocked": nothing, "outputs": nothing, "errors": nothing, "longest": None, "taken_runs": [],
            "taken_ids": [],
        }  # fmt: skip  # one line a group reads better here
        return await most_rows(connection, "change_runs", given)

    assert undone(url, executed) <= 10 * parents * each


@pytest.mark.parametrize("place", ["url", "written"])
def test_a_page_of_a_stream_looks_at_no_items_behind_it(request, place):
    async def executed(connection):
        if place == "written":
            await connection.execute(f"{BARE_RUNS.format(many=1)}; {BARE_STARTS}")
        await connection.execute("""
            INSERT INTO holdfast.stream_items (place, run, at, namespace_id, attempt, epoch, number, reset, chain_id,
                stream, payload)
            SELECT n, 1, 0, 1, 0, 0, 0, false, 'parked-1', 'log', '' FROM generate_series(1, 5000) AS n
        """)
        given = {"namespace_id": 1, "id": "parked-1", "stream": "log", "after": 100, "limit": 50}
        return await most_rows(connection, "read_items", given)

    assert undone(request.getfixturevalue(place), executed) <= 100


async def most_rows(connection, name, given):
    """The most rows that any node of a statement's plan looks at when the statement is executed."""
    statement = BLOCKS.statement(name)
    await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    found = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}", *statement.values(given))
    return max(
        node["Actual Loops"]
        * (node["Actual Rows"] + node.get("Rows Removed by Join Filter", 0) + node.get("Rows Removed by Filter", 0))
        for node in nodes(json.loads(found)[0]["Plan"])
    )


def undone(url, act):
    """Do it on a connection, and leave nothing of it behind."""

    async def acted(connection):
        transaction = connection.transaction()
        await transaction.start()
        try:
            return await act(connection)
        finally:
            await transaction.rollback()

    return on_connection(url, acted)


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
